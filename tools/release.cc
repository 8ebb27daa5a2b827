// maru release: regions that a client of upstream's protocols has left behind.

#include <string>
#include <vector>

#include "base/units.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/output.h"
#include "wire/names.h"

namespace maru::tools {

namespace {

using wire::ReleaseMode;
using wire::ReleaseReply;
using wire::ReleaseVerdict;

constexpr OptionRow kReleaseOptions[] = {
    {"namespace", "NAME", "",
     "Regions that the endpoint of this namespace lent: tcp://HOST:PORT of a `maru-server`; not "
     "needed with --server tcp://HOST:PORT",
     Takes::kOne},
    {"dry-run", nullptr, "", "Tell what would be released, change nothing", Takes::kNothing},
    {"force", nullptr, "",
     "Also regions whose client renews its lease, or is connected to the resource manager: it is "
     "alive then, and what it writes afterwards ruins the keys of the next one there",
     Takes::kNothing},
};
constexpr PositionalRow kInstances[] = {
    {"INSTANCE", "Clients, as `maru stat --regions` shows them", Takes::kMany}};

// What there is of one instance, and what became of it.
struct Told {
  std::string instance;
  std::vector<ReleaseReply::Item> regions;
};

Result<Told> ReleaseAll(Client& client, const std::string& instance, ReleaseMode mode) {
  Told told{instance, {}};
  wire::ReleaseRequest request;
  request.mode = mode;
  request.instance_id = told.instance;
  do {
    MARU_ASSIGN_OR_RETURN(const auto reply, Ask<ReleaseReply>(client, request));
    told.regions.insert(told.regions.end(), reply.items.begin(), reply.items.end());
    request.from_region = reply.next_region;
  } while (request.from_region != 0);
  return told;
}

// What keeps its room for now.
std::string Fate(const ReleaseReply::Item& region) {
  if (region.keys > 0) {
    return std::to_string(region.keys) + " keys point into it: its room is free with the last";
  }
  if (region.condemned > 0) return "its room is free when its readers are through";
  return "its room is free";
}

void PrintRegion(const Told& told, const ReleaseReply::Item& region, ReleaseMode mode) {
  const std::string name = " region " + std::to_string(region.region.value()) + " of " +
                           Printable(told.instance) + ", " + FormatSize(region.length_bytes) + ": ";
  switch (region.verdict) {
    case ReleaseVerdict::kReleased:
      PrintLine((mode == ReleaseMode::kTell ? "would release" : "released") + name + Fate(region));
      return;
    case ReleaseVerdict::kLeased:
      PrintLine("kept" + name + "its client renews its lease; it ends by itself without");
      return;
    case ReleaseVerdict::kConnected:
      PrintLine("kept" + name + "its client is connected to the resource manager");
      return;
  }
}

void PrintTold(const std::vector<Told>& all, ReleaseMode mode) {
  for (const Told& told : all) {
    uint64_t released = 0, bytes = 0;
    for (const ReleaseReply::Item& region : told.regions) {
      PrintRegion(told, region, mode);
      if (region.verdict != ReleaseVerdict::kReleased) continue;
      ++released;
      bytes += region.length_bytes;
    }
    PrintLine(told.regions.empty()
                  ? "no region of " + Printable(told.instance) +
                        " at this endpoint; `maru stat --regions` shows whose there are"
                  : Printable(told.instance) + ": " + std::to_string(released) + " of " +
                        std::to_string(told.regions.size()) + " regions, " + FormatSize(bytes));
  }
}

std::string JsonRegion(const Told& told, const ReleaseReply::Item& region, ReleaseMode mode) {
  const bool tell = mode == ReleaseMode::kTell && region.verdict == ReleaseVerdict::kReleased;
  const std::string verdict =
      tell ? "releasable" : std::string(wire::ReleaseVerdictName(region.verdict));
  return "{\"instance_id\": " + JsonString(told.instance) +
         ", \"region_id\": " + std::to_string(region.region.value()) +
         ", \"bytes\": " + std::to_string(region.length_bytes) +
         ", \"keys\": " + std::to_string(region.keys) +
         ", \"condemned\": " + std::to_string(region.condemned) +
         ", \"verdict\": " + JsonString(verdict) + "}";
}

void PrintJson(const std::vector<Told>& all, ReleaseMode mode) {
  std::string json;
  const auto add = [&json](const std::string& entry) {
    json += (json.empty() ? "" : ", ") + entry;
  };
  for (const Told& told : all) {
    for (const ReleaseReply::Item& region : told.regions) add(JsonRegion(told, region, mode));
    if (told.regions.empty()) {
      add("{\"instance_id\": " + JsonString(told.instance) + ", \"verdict\": \"missing\"}");
    }
  }
  PrintLine("[" + json + "]");
}

Result<Exit> RunRelease(const Arguments& arguments) {
  if (arguments.Has("dry-run") && arguments.Has("force")) {
    return InvalidArgument("--dry-run and --force: one at a time");
  }
  const ReleaseMode mode = arguments.Has("dry-run") ? ReleaseMode::kTell
                           : arguments.Has("force") ? ReleaseMode::kForce
                                                    : ReleaseMode::kRelease;
  ClientOptions options;
  options.name_space = arguments.Get("namespace");
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, options));
  std::vector<Told> all;
  bool every = true;
  for (const std::string& instance : arguments.All("INSTANCE")) {
    MARU_ASSIGN_OR_RETURN(Told told, ReleaseAll(*client, instance, mode));
    every = every && !told.regions.empty();
    for (const ReleaseReply::Item& region : told.regions) {
      every = every && region.verdict == ReleaseVerdict::kReleased;
    }
    all.push_back(std::move(told));
  }
  if (arguments.json()) {
    PrintJson(all, mode);
  } else {
    PrintTold(all, mode);
  }
  return every ? Exit::kDone : Exit::kNotThere;
}

}  // namespace

extern const Command kRelease = {
    "release",
    "Release the regions of clients of upstream's that are gone",
    "A client without a lease is never taken for dead, so its regions stay when it dies. "
    "Released,\n"
    "they are nobody's, as if the client had returned them: keys in them stay, and a region goes\n"
    "with its last key. Be sure that the client is gone: one that lives would go on writing where\n"
    "others' keys lie by then. Regions whose client renews a lease, or is connected to the "
    "resource\n"
    "manager, are kept; both end by themselves when it is gone.\n"
    "Exit code 1: an instance has no region, or one was kept.\n\n"
    "With --json a list: [{\"instance_id\": TEXT, \"region_id\": N, \"bytes\": N, \"keys\": N,\n"
    "\"condemned\": N, \"verdict\": \"released\", \"releasable\" (--dry-run), \"leased\" or "
    "\"connected\"}];\n"
    "of an instance without a region only its instance_id and the verdict \"missing\".\n\n"
    "Example: maru release prefill-0 --dry-run",
    kReleaseOptions,
    kInstances,
    &RunRelease};

}  // namespace maru::tools
