// maru release: regions that a client of upstream's protocols has left behind.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/inspect.h"
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
    {"region", "ID", "", "The region of that id, instead of all of an INSTANCE", Takes::kOne},
    {"dry-run", nullptr, "", "Tell what would be released, change nothing", Takes::kNothing},
    {"force", nullptr, "",
     "Also regions whose client renews its lease, or is connected to the resource manager: it is "
     "alive then, and what it writes afterwards ruins the keys of the next one there",
     Takes::kNothing},
};
constexpr PositionalRow kInstances[] = {
    {"INSTANCE", "Clients, by their names or as `maru stat --regions` shows them", Takes::kAny}};

// What there is of one instance or region, and what became of it.
struct Told {
  std::string instance;  // "" beside a region
  uint32_t region = 0;   // that was asked for by its id; 0: none
  std::vector<ReleaseReply::Item> regions;
};

Status Add(Client& client, wire::ReleaseRequest request, Told* told) {
  do {
    MARU_ASSIGN_OR_RETURN(const auto reply, Ask<ReleaseReply>(client, request));
    told->regions.insert(told->regions.end(), reply.items.begin(), reply.items.end());
    request.from_region = reply.next_region;
  } while (request.from_region != 0);
  return OkStatus();
}

Result<Told> ReleaseRegion(Client& client, uint32_t region, ReleaseMode mode) {
  Told told{"", region, {}};
  MARU_RETURN_IF_ERROR(Add(client, {.mode = mode, .region = region}, &told));
  return told;
}

Result<Told> ReleaseAll(Client& client, const std::string& instance, ReleaseMode mode) {
  Told told{instance, 0, {}};
  MARU_RETURN_IF_ERROR(Add(client, {.mode = mode, .instance_id = instance}, &told));
  if (!told.regions.empty()) return told;
  // Names that people cannot be shown as they are have no region by what is shown.
  MARU_ASSIGN_OR_RETURN(const auto shown, InspectAll(client, wire::InspectTopic::kRegions));
  for (const auto& region : shown) {
    if (!region.value("owned", false) || ShownOwner(region) != instance) continue;
    const auto id = region.at("region_id").get<uint32_t>();
    MARU_RETURN_IF_ERROR(Add(client, {.mode = mode, .region = id}, &told));
  }
  return told;
}

// What keeps its room for now.
std::string Fate(const ReleaseReply::Item& region) {
  if (region.keys > 0) {
    return (region.keys == 1 ? "1 key points" : std::to_string(region.keys) + " keys point") +
           " into it: its room is free with the last";
  }
  if (region.condemned > 0) return "its room is free when its readers are through";
  if (region.hold_ms > 0) {
    return "readers without leases were told of keys in it: its room is free in " +
           std::to_string((region.hold_ms + 999) / 1000) + " s (--wire-hold)";
  }
  return "its room is free";
}

std::string Of(const Told& told) {
  return told.region != 0 ? "" : " of " + Printable(told.instance);
}

void PrintRegion(const Told& told, const ReleaseReply::Item& region, ReleaseMode mode) {
  const std::string name = " region " + std::to_string(region.region.value()) + Of(told) + ", " +
                           FormatSize(region.length_bytes) + ": ";
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

void PrintSum(const Told& told) {
  if (told.regions.empty()) {
    const std::string none =
        told.region != 0
            ? "no client of upstream's at this endpoint owns region " + std::to_string(told.region)
            : "no region" + Of(told) + " at this endpoint";
    PrintLine(none + "; `maru stat --regions` shows whose there are");
    return;
  }
  if (told.region != 0) return;
  uint64_t released = 0, bytes = 0;
  for (const ReleaseReply::Item& region : told.regions) {
    if (region.verdict != ReleaseVerdict::kReleased) continue;
    ++released;
    bytes += region.length_bytes;
  }
  PrintLine(Printable(told.instance) + ": " + std::to_string(released) + " of " +
            std::to_string(told.regions.size()) + " regions, " + FormatSize(bytes));
}

void PrintTold(const std::vector<Told>& all, ReleaseMode mode) {
  for (const Told& told : all) {
    for (const ReleaseReply::Item& region : told.regions) PrintRegion(told, region, mode);
    PrintSum(told);
  }
}

std::string JsonRegion(const Told& told, const ReleaseReply::Item& region, ReleaseMode mode) {
  const bool tell = mode == ReleaseMode::kTell && region.verdict == ReleaseVerdict::kReleased;
  const std::string verdict =
      tell ? "releasable" : std::string(wire::ReleaseVerdictName(region.verdict));
  const std::string whose =
      told.region != 0 ? "" : "\"instance_id\": " + JsonString(told.instance) + ", ";
  return "{" + whose + "\"region_id\": " + std::to_string(region.region.value()) +
         ", \"bytes\": " + std::to_string(region.length_bytes) +
         ", \"keys\": " + std::to_string(region.keys) +
         ", \"condemned\": " + std::to_string(region.condemned) +
         ", \"hold_ms\": " + std::to_string(region.hold_ms) +
         ", \"verdict\": " + JsonString(verdict) + "}";
}

void PrintJson(const std::vector<Told>& all, ReleaseMode mode) {
  std::string json;
  const auto add = [&json](const std::string& entry) {
    json += (json.empty() ? "" : ", ") + entry;
  };
  for (const Told& told : all) {
    for (const ReleaseReply::Item& region : told.regions) add(JsonRegion(told, region, mode));
    if (!told.regions.empty()) continue;
    add((told.region != 0 ? "{\"region_id\": " + std::to_string(told.region)
                          : "{\"instance_id\": " + JsonString(told.instance)) +
        ", \"verdict\": \"missing\"}");
  }
  PrintLine("[" + json + "]");
}

bool Whole(const Told& told) {
  return !told.regions.empty() && std::ranges::all_of(told.regions, [](const auto& region) {
    return region.verdict == ReleaseVerdict::kReleased;
  });
}

Result<Exit> RunRelease(const Arguments& arguments) {
  if (arguments.Has("dry-run") && arguments.Has("force")) {
    return InvalidArgument("--dry-run and --force: one at a time");
  }
  const ReleaseMode mode = arguments.Has("dry-run") ? ReleaseMode::kTell
                           : arguments.Has("force") ? ReleaseMode::kForce
                                                    : ReleaseMode::kRelease;
  const std::vector<std::string> instances = arguments.All("INSTANCE");
  if (instances.empty() != arguments.Has("region")) {
    return InvalidArgument("release takes INSTANCE, one at least, or --region ID");
  }
  uint64_t id = 0;
  if (arguments.Has("region")) {
    MARU_ASSIGN_OR_RETURN(id, arguments.Number("region", 1, layout::kRegionIdMax));
  }
  ClientOptions options;
  options.name_space = arguments.Get("namespace");
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, options));
  std::vector<Told> all;
  for (const std::string& instance : instances) {
    MARU_ASSIGN_OR_RETURN(Told told, ReleaseAll(*client, instance, mode));
    all.push_back(std::move(told));
  }
  if (id != 0) {
    MARU_ASSIGN_OR_RETURN(Told told, ReleaseRegion(*client, static_cast<uint32_t>(id), mode));
    all.push_back(std::move(told));
  }
  if (arguments.json()) {
    PrintJson(all, mode);
  } else {
    PrintTold(all, mode);
  }
  return std::ranges::all_of(all, &Whole) ? Exit::kDone : Exit::kNotThere;
}

}  // namespace

extern const Command kRelease = {
    "release",
    "Release the regions of clients of upstream's that are gone",
    "A client without a lease is never taken for dead, so its regions stay when it dies. "
    "Released,\n"
    "they are nobody's, as if the client had returned them: keys in them stay, and a region goes\n"
    "with its last key, and not before --wire-hold is over for readers that were told of one. Be\n"
    "sure that the client is gone: one that lives would go on writing where others' keys lie by\n"
    "then. Regions whose client renews a lease, or is connected to the resource manager, are\n"
    "kept; both end by themselves when it is gone.\n"
    "Exit code 1: an instance has no region, or there is none of that id, or one was kept.\n\n"
    "With --json a list: [{\"instance_id\": TEXT, \"region_id\": N, \"bytes\": N, \"keys\": N,\n"
    "\"condemned\": N, \"hold_ms\": N, \"verdict\": \"released\", \"releasable\" (--dry-run),\n"
    "\"leased\" or \"connected\"}], without instance_id for --region; of an instance without a "
    "region\n"
    "only its instance_id, of no region only its region_id, and the verdict \"missing\".\n\n"
    "Examples: maru release prefill-0 --dry-run\n"
    "          maru release --region 5242884",
    kReleaseOptions,
    kInstances,
    &RunRelease};

}  // namespace maru::tools
