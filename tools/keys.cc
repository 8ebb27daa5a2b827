// maru put, get, exists, rm, unpin, ls: keys by hand.

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "base/units.h"
#include "catalogue/key.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/files.h"
#include "tools/output.h"
#include "wire/codec.h"

namespace maru::tools {

namespace {

constexpr OptionRow kNamespaceOnly[] = {
    {"namespace", "NAME", "", "Keys of this namespace", Takes::kOne},
};
constexpr PositionalRow kKeys[] = {{"KEY", "Keys", Takes::kMany}};

ClientOptions OptionsFor(const Arguments& arguments) {
  ClientOptions options;
  options.name_space = arguments.Get("namespace");
  return options;
}

// --- put

constexpr OptionRow kPutOptions[] = {
    {"namespace", "NAME", "", "Keys of this namespace", Takes::kOne},
    {"page-size", "SIZE", "",
     "Page size; default: the power of two that holds the file, 4 KiB at least", Takes::kOne},
};
// Without --page-size: so much is read before it is asked for on purpose.
constexpr uint64_t kPutBytesMax = kGiB;
// Pages of one size take whole regions, so files of any size share a few sizes.
uint64_t PutPageBytes(uint64_t file_bytes) {
  constexpr uint64_t kPageBytesMin = 4096;
  return std::max(kPageBytesMin, std::bit_ceil(file_bytes));
}

constexpr PositionalRow kPutPositionals[] = {
    {"KEY", "The key", Takes::kOne},
    {"FILE", "What to store; - is standard input", Takes::kOne},
};

Result<Exit> RunPut(const Arguments& arguments) {
  const std::string key = arguments.Get("KEY");
  ClientOptions options = OptionsFor(arguments);
  options.page_bytes = kPutBytesMax;
  if (arguments.Has("page-size")) {
    MARU_ASSIGN_OR_RETURN(options.page_bytes, arguments.Size("page-size"));
  }
  const std::string input = arguments.Get("FILE");
  const Result<std::string> bytes =
      ReadAll(input, options.page_bytes, "; a larger --page-size admits more");
  MARU_RETURN_IF_ERROR(bytes.status());
  if (bytes->empty()) {
    return InvalidArgument((input == "-" ? std::string("standard input") : input) +
                           " has 0 bytes: a key has 1 at least");
  }
  if (!arguments.Has("page-size")) options.page_bytes = PutPageBytes(bytes->size());
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, options));
  MARU_ASSIGN_OR_RETURN(const bool stored, client->Put(key, std::as_bytes(std::span(*bytes))));
  if (!stored && client->statistics().stores_refused != 0) {
    return ResourceExhausted("the server has no room for the text of the key " + Printable(key) +
                             ": the pool is full and nothing may go, or the machine has no "
                             "memory for it; the server's log says which");
  }
  if (!stored) return Unavailable("the store's outcome is unknown: ask with `maru exists`");
  const bool duplicate = client->statistics().duplicates != 0;
  if (arguments.json()) {
    PrintLine("{\"stored\": true, \"existed\": " + std::string(duplicate ? "true" : "false") +
              ", \"bytes\": " + std::to_string(bytes->size()) + "}");
  } else {
    PrintLine(duplicate
                  ? "there already: " + Printable(key)
                  : "stored " + Printable(key) + ", " + std::to_string(bytes->size()) + " bytes");
  }
  return Exit::kDone;
}

// --- get

constexpr OptionRow kGetOptions[] = {
    {"namespace", "NAME", "", "Keys of this namespace", Takes::kOne},
    {"output", "FILE", "-", "Where to write the bytes; - is standard output", Takes::kOne},
    {"verify", nullptr, "", "Check the bytes against their checksum", Takes::kNothing},
};
constexpr PositionalRow kOneKey[] = {{"KEY", "The key", Takes::kOne}};

Result<Exit> RunGet(const Arguments& arguments) {
  const std::string key = arguments.Get("KEY");
  const std::string path = arguments.Get("output");
  if (arguments.json() && path == "-") {
    return InvalidArgument("--json needs --output FILE: standard output has the bytes otherwise");
  }
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, OptionsFor(arguments)));
  MARU_ASSIGN_OR_RETURN(const View view,
                        client->Retrieve(key, arguments.Has("verify") ? Verification::kChecksum
                                                                      : Verification::kNone));
  if (!view) return NotFound("there is no key " + Printable(key));
  const auto bytes = view.bytes();
  MARU_RETURN_IF_ERROR(WriteAll(path, bytes));
  if (arguments.json()) {
    PrintLine("{\"bytes\": " + std::to_string(bytes.size()) +
              ", \"region_id\": " + std::to_string(view.region_id()) +
              ", \"page_index\": " + std::to_string(view.page_index()) + "}");
  }
  return Exit::kDone;
}

// --- exists, rm, unpin: a verdict for each key

struct Verdict {
  std::string word;
  bool good = false;
};

Result<Exit> PrintVerdicts(const Arguments& arguments, const std::vector<std::string>& keys,
                           const std::vector<Verdict>& verdicts) {
  bool all = true;
  std::string json;
  for (size_t i = 0; i < keys.size(); ++i) {
    all = all && verdicts[i].good;
    if (arguments.json()) {
      json += std::string(json.empty() ? "" : ", ") + "{" + JsonKey(keys[i]) +
              ", \"verdict\": " + JsonString(verdicts[i].word) + "}";
    } else {
      PrintLine(verdicts[i].word + " " + Printable(keys[i]));
    }
  }
  if (arguments.json()) PrintLine("[" + json + "]");
  return all ? Exit::kDone : Exit::kNotThere;
}

Result<Exit> RunExists(const Arguments& arguments) {
  const std::vector<std::string> keys = arguments.All("KEY");
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, OptionsFor(arguments)));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  MARU_ASSIGN_OR_RETURN(const std::vector<bool> exist, client->BatchExists(views));
  std::vector<Verdict> verdicts;
  for (bool there : exist) verdicts.push_back({there ? "exists" : "missing", there});
  return PrintVerdicts(arguments, keys, verdicts);
}

Result<Exit> RunRemove(const Arguments& arguments) {
  const std::vector<std::string> keys = arguments.All("KEY");
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, OptionsFor(arguments)));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  MARU_ASSIGN_OR_RETURN(const std::vector<Deleted> deleted, client->BatchDelete(views));
  std::vector<Verdict> verdicts;
  for (Deleted outcome : deleted) {
    const char* const word = outcome == Deleted::kDeleted  ? "deleted"
                             : outcome == Deleted::kPinned ? "pinned"
                                                           : "missing";
    verdicts.push_back({word, outcome == Deleted::kDeleted});
  }
  return PrintVerdicts(arguments, keys, verdicts);
}

Result<Exit> RunUnpin(const Arguments& arguments) {
  const std::vector<std::string> keys = arguments.All("KEY");
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, OptionsFor(arguments)));
  // The encoder names what is wrong with a key that is refused, as for one message.
  for (const std::string& key : keys) MARU_RETURN_IF_ERROR(catalogue::CheckKey(key));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<Verdict> verdicts;
  for (std::span<const std::string_view> left = views; !left.empty();) {
    wire::UnpinRequest request;
    const auto some = left.first(wire::KeysThatFit(left));
    left = left.subspan(some.size());
    request.keys.assign(some.begin(), some.end());
    MARU_ASSIGN_OR_RETURN(const auto reply, Ask<wire::UnpinReply>(*client, request));
    for (size_t i = 0; i < some.size(); ++i) {
      const bool unpinned = i < reply.unpinned.size() && reply.unpinned[i] != 0;
      const bool answered = i < reply.unpinned.size();
      verdicts.push_back({unpinned   ? "unpinned"
                          : answered ? "not pinned"
                                     : "not answered",
                          unpinned});
    }
  }
  return PrintVerdicts(arguments, keys, verdicts);
}

// --- ls

constexpr OptionRow kListOptions[] = {
    {"namespace", "NAME", "", "Keys of this namespace", Takes::kOne},
    {"prefix", "TEXT", "", "Only keys that begin so", Takes::kOne},
    {"limit", "N", "0", "At most N keys; 0: all", Takes::kOne},
    {"long", nullptr, "", "LENGTH, POOL/RECORD@GENERATION and KEY in each line, with tabs between",
     Takes::kNothing},
};

Result<Exit> RunList(const Arguments& arguments) {
  MARU_ASSIGN_OR_RETURN(const uint64_t limit, arguments.Number("limit", 0, UINT64_MAX));
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, OptionsFor(arguments)));
  const std::string prefix = arguments.Get("prefix");
  uint64_t listed = 0;
  wire::ListRequest request;
  request.prefix = prefix;
  constexpr uint32_t kPerMessage = 256;
  do {
    request.count_max = kPerMessage;
    if (limit != 0) request.count_max = std::min<uint64_t>(kPerMessage, limit - listed);
    MARU_ASSIGN_OR_RETURN(const auto reply, Ask<wire::ListReply>(*client, request));
    for (const wire::ListReply::Item& item : reply.items) {
      ++listed;
      const std::string numbers[] = {
          std::to_string(item.length_bytes), std::to_string(item.page.pool.value()),
          std::to_string(item.page.record.value()), std::to_string(item.page.generation.value())};
      if (arguments.json()) {
        PrintLine("{" + JsonKey(item.key) + ", \"bytes\": " + numbers[0] +
                  ", \"pool\": " + numbers[1] + ", \"record\": " + numbers[2] +
                  ", \"generation\": " + numbers[3] + "}");
      } else if (arguments.Has("long")) {
        PrintLine(numbers[0] + "\t" + numbers[1] + "/" + numbers[2] + "@" + numbers[3] + "\t" +
                  Printable(item.key));
      } else {
        PrintLine(Printable(item.key));
      }
    }
    request.cursor = reply.next_cursor;
  } while (request.cursor != 0 && (limit == 0 || listed < limit));
  return Exit::kDone;
}

}  // namespace

extern const Command kPut = {
    "put",
    "Store a file, or standard input, under a key",
    "A key that is there keeps its bytes, whatever these are: \"there already\", and exit\n"
    "code 0. `maru rm` comes first where they are to be others.\n\n"
    "Example: echo hello | maru put greeting -",
    kPutOptions,
    kPutPositionals,
    &RunPut};
extern const Command kGet = {"get",
                             "Write the bytes of a key",
                             "Example: maru get greeting --output greeting.bin",
                             kGetOptions,
                             kOneKey,
                             &RunGet};
extern const Command kExists = {
    "exists",
    "Tell of each key whether it is there",
    "Exit code 0: all are there; 1: one is missing. With --json a list in the order of the keys:\n"
    "[{\"key\": TEXT, \"verdict\": \"exists\"}], with key_hex for a key that is no UTF-8.",
    kNamespaceOnly,
    kKeys,
    &RunExists};
extern const Command kRemove = {"rm",
                                "Delete keys",
                                "Exit code 1 when one was missing or is pinned; the bytes stay "
                                "where readers hold them.",
                                kNamespaceOnly,
                                kKeys,
                                &RunRemove};
extern const Command kUnpin = {"unpin",
                               "Drop the pins of keys that no client owns (mends stuck ones)",
                               "Pins of attached clients are theirs and end with them.",
                               kNamespaceOnly,
                               kKeys,
                               &RunUnpin};
extern const Command kList = {
    "ls",
    "List keys",
    "With --json there is a line for each key; one that is no UTF-8 is told as key_hex.\n"
    "Example: maru ls --prefix model- --long",
    kListOptions,
    {},
    &RunList};

}  // namespace maru::tools
