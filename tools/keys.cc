// maru put, get, exists, rm, unpin, ls: keys by hand.

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>

#include "base/units.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/output.h"

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
    {"page-size", "SIZE", "", "Page size; default: the file's size, in whole 4 KiB", Takes::kOne},
};
constexpr PositionalRow kPutPositionals[] = {
    {"KEY", "The key", Takes::kOne},
    {"FILE", "What to store; - is standard input", Takes::kOne},
};

Result<std::string> ReadAll(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read " + path + ": " + std::generic_category().message(errno));
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return Unavailable("reading " + path + " failed");
  return bytes;
}

Exit RunPut(const Arguments& arguments) {
  const std::string key = arguments.Get("KEY");
  const Result<std::string> bytes = ReadAll(arguments.Get("FILE"));
  if (!bytes.ok()) return Fail(bytes.status());
  ClientOptions options = OptionsFor(arguments);
  constexpr uint64_t kGrain = 4096;
  options.page_bytes = std::max<uint64_t>(kGrain, (bytes->size() + kGrain - 1) / kGrain * kGrain);
  if (arguments.Has("page-size")) {
    const Result<uint64_t> size = arguments.Size("page-size");
    if (!size.ok()) return Fail(size.status());
    options.page_bytes = *size;
  }
  const auto client = ConnectTo(arguments, options);
  if (!client.ok()) return Fail(client.status());
  const Result<bool> stored = (*client)->Put(key, std::as_bytes(std::span(*bytes)));
  if (!stored.ok()) return Fail(stored.status());
  const bool duplicate = (*client)->statistics().duplicates != 0;
  if (arguments.json()) {
    PrintLine("{\"stored\": " + std::string(*stored ? "true" : "false") +
              ", \"existed\": " + (duplicate ? "true" : "false") +
              ", \"bytes\": " + std::to_string(bytes->size()) + "}");
  } else if (*stored) {
    PrintLine(duplicate
                  ? "there already: " + Printable(key)
                  : "stored " + Printable(key) + ", " + std::to_string(bytes->size()) + " bytes");
  }
  if (!*stored) Note("maru: the store's outcome is unknown: ask with `maru exists`");
  return *stored ? Exit::kDone : Exit::kNotThere;
}

// --- get

constexpr OptionRow kGetOptions[] = {
    {"namespace", "NAME", "", "Keys of this namespace", Takes::kOne},
    {"output", "FILE", "-", "Where to write the bytes; - is standard output", Takes::kOne},
    {"verify", nullptr, "", "Check the bytes against their checksum", Takes::kNothing},
};
constexpr PositionalRow kOneKey[] = {{"KEY", "The key", Takes::kOne}};

Exit RunGet(const Arguments& arguments) {
  const std::string key = arguments.Get("KEY");
  const auto client = ConnectTo(arguments, OptionsFor(arguments));
  if (!client.ok()) return Fail(client.status());
  const Result<View> view = (*client)->Retrieve(
      key, arguments.Has("verify") ? Verification::kChecksum : Verification::kNone);
  if (!view.ok()) return Fail(view.status());
  if (!*view) {
    Note("maru: no key " + Printable(key));
    return Exit::kNotThere;
  }
  const auto bytes = view->bytes();
  const std::string path = arguments.Get("output");
  std::FILE* const file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr)
    return Fail(NotFound("cannot write " + path + ": " + std::generic_category().message(errno)));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = file == stdout ? std::fflush(file) == 0 : std::fclose(file) == 0;
  if (!written || !closed) return Fail(ResourceExhausted("writing " + path + " failed"));
  if (arguments.json() && path != "-") {
    PrintLine("{\"bytes\": " + std::to_string(bytes.size()) +
              ", \"region_id\": " + std::to_string(view->region_id()) +
              ", \"page_index\": " + std::to_string(view->page_index()) + "}");
  }
  return Exit::kDone;
}

// --- exists, rm, unpin: a verdict for each key

struct Verdict {
  std::string word;
  bool good = false;
};

Exit PrintVerdicts(const Arguments& arguments, const std::vector<std::string>& keys,
                   const std::vector<Verdict>& verdicts) {
  bool all = true;
  std::string json;
  for (size_t i = 0; i < keys.size(); ++i) {
    all = all && verdicts[i].good;
    if (arguments.json()) {
      json +=
          (json.empty() ? "" : ", ") + JsonString(keys[i]) + ": " + JsonString(verdicts[i].word);
    } else {
      PrintLine(verdicts[i].word + " " + Printable(keys[i]));
    }
  }
  if (arguments.json()) PrintLine("{" + json + "}");
  return all ? Exit::kDone : Exit::kNotThere;
}

Exit RunExists(const Arguments& arguments) {
  const std::vector<std::string> keys = arguments.All("KEY");
  const auto client = ConnectTo(arguments, OptionsFor(arguments));
  if (!client.ok()) return Fail(client.status());
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const auto exist = (*client)->BatchExists(views);
  if (!exist.ok()) return Fail(exist.status());
  std::vector<Verdict> verdicts;
  for (bool there : *exist) verdicts.push_back({there ? "exists" : "missing", there});
  return PrintVerdicts(arguments, keys, verdicts);
}

Exit RunRemove(const Arguments& arguments) {
  const std::vector<std::string> keys = arguments.All("KEY");
  const auto client = ConnectTo(arguments, OptionsFor(arguments));
  if (!client.ok()) return Fail(client.status());
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const auto deleted = (*client)->BatchDelete(views);
  if (!deleted.ok()) return Fail(deleted.status());
  std::vector<Verdict> verdicts;
  for (Deleted outcome : *deleted) {
    const char* const word = outcome == Deleted::kDeleted  ? "deleted"
                             : outcome == Deleted::kPinned ? "pinned"
                                                           : "missing";
    verdicts.push_back({word, outcome == Deleted::kDeleted});
  }
  return PrintVerdicts(arguments, keys, verdicts);
}

Exit RunUnpin(const Arguments& arguments) {
  const std::vector<std::string> keys = arguments.All("KEY");
  const auto client = ConnectTo(arguments, OptionsFor(arguments));
  if (!client.ok()) return Fail(client.status());
  wire::UnpinRequest request;
  request.keys.assign(keys.begin(), keys.end());
  const auto reply = Ask<wire::UnpinReply>(**client, request);
  if (!reply.ok()) return Fail(reply.status());
  std::vector<Verdict> verdicts;
  for (uint8_t unpinned : reply->unpinned) {
    verdicts.push_back({unpinned != 0 ? "unpinned" : "not pinned", unpinned != 0});
  }
  verdicts.resize(keys.size(), {"not answered", false});
  return PrintVerdicts(arguments, keys, verdicts);
}

// --- ls

constexpr OptionRow kListOptions[] = {
    {"namespace", "NAME", "", "Keys of this namespace", Takes::kOne},
    {"prefix", "TEXT", "", "Only keys that begin so", Takes::kOne},
    {"limit", "N", "0", "At most N keys; 0: all", Takes::kOne},
    {"long", nullptr, "", "Length, pool, record and generation as well", Takes::kNothing},
};

Exit RunList(const Arguments& arguments) {
  const Result<uint64_t> limit = arguments.Number("limit", 0, UINT64_MAX);
  if (!limit.ok()) return Fail(limit.status());
  const auto client = ConnectTo(arguments, OptionsFor(arguments));
  if (!client.ok()) return Fail(client.status());
  const std::string prefix = arguments.Get("prefix");
  uint64_t listed = 0;
  wire::ListRequest request;
  request.prefix = prefix;
  constexpr uint32_t kPerMessage = 256;
  do {
    request.count_max = kPerMessage;
    if (*limit != 0) request.count_max = std::min<uint64_t>(kPerMessage, *limit - listed);
    const auto reply = Ask<wire::ListReply>(**client, request);
    if (!reply.ok()) return Fail(reply.status());
    for (const wire::ListReply::Item& item : reply->items) {
      ++listed;
      const std::string numbers[] = {
          std::to_string(item.length_bytes), std::to_string(item.page.pool.value()),
          std::to_string(item.page.record.value()), std::to_string(item.page.generation.value())};
      if (arguments.json()) {
        PrintLine("{\"key\": " + JsonString(item.key) + ", \"bytes\": " + numbers[0] +
                  ", \"pool\": " + numbers[1] + ", \"record\": " + numbers[2] +
                  ", \"generation\": " + numbers[3] + "}");
      } else if (arguments.Has("long")) {
        PrintLine(numbers[0] + "\t" + numbers[1] + "/" + numbers[2] + "@" + numbers[3] + "\t" +
                  Printable(item.key));
      } else {
        PrintLine(Printable(item.key));
      }
    }
    request.cursor = reply->next_cursor;
  } while (request.cursor != 0 && (*limit == 0 || listed < *limit));
  return Exit::kDone;
}

}  // namespace

extern const Command kPut = {"put",
                             "Store a file, or standard input, under a key",
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
extern const Command kExists = {"exists",
                                "Tell of each key whether it is there",
                                "Exit code 0: all are there; 1: one is missing.",
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
extern const Command kList = {"ls",         "List keys", "Example: maru ls --prefix model- --long",
                              kListOptions, {},          &RunList};

}  // namespace maru::tools
