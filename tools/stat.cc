// maru stat: what is there.

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/inspect.h"
#include "tools/output.h"

namespace maru::tools {

namespace {

using Json = nlohmann::json;

constexpr OptionRow kStatOptions[] = {
    {"clients", nullptr, "", "The clients: who, attached or detached, pages, leases, pins",
     Takes::kNothing},
    {"regions", nullptr, "", "The regions, and whose those are that clients cut", Takes::kNothing},
    {"condemned", nullptr, "", "Deleted pages that readers still hold, and who", Takes::kNothing},
};

// What is there without this command, which is a client itself while it asks.
void LeaveSelfOut(Client& client, wire::InspectTopic topic, Json* json) {
  if (topic == wire::InspectTopic::kSummary) {
    Json& attached = json->at("clients").at("attached");
    attached = attached.get<uint64_t>() - 1;
  } else if (topic == wire::InspectTopic::kClients) {
    const uint64_t self = SelfOf(client).value();
    std::erase_if(json->get_ref<Json::array_t&>(),
                  [self](const Json& entry) { return entry.value("id", uint64_t{0}) == self; });
  }
}

std::string Number(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end()) return "-";
  return at->is_number_unsigned() ? std::to_string(at->get<uint64_t>()) : at->dump();
}

std::string Size(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() ? "-" : FormatSize(at->get<uint64_t>());
}

std::string Text(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() || !at->is_string() ? "-" : Printable(at->get<std::string>());
}

// The sum over all pools.
uint64_t SumOf(const Json& summary, const char* name) {
  uint64_t sum = 0;
  for (const Json& pool : summary.at("pools")) sum += pool.value(name, uint64_t{0});
  return sum;
}

// Of clients that cut their regions by themselves; nothing where none has been there.
void PrintUpstream(const Json& summary) {
  const Json& counters = summary.at("counters");
  const uint64_t registered = counters.value("extents_registered", uint64_t{0});
  const uint64_t regions = SumOf(summary, "client_regions");
  if (regions + registered == 0) return;
  PrintLine("clients of upstream's protocols: " + std::to_string(regions) + " regions of " +
            FormatSize(SumOf(summary, "client_cut_bytes")) + ", " +
            std::to_string(SumOf(summary, "extents")) + " keys of " +
            FormatSize(SumOf(summary, "extent_bytes")) + "; since its start " +
            std::to_string(registered) + " registered, " + Number(counters, "extents_refused") +
            " refused");
}

void PrintSummary(const Json& summary) {
  PrintLine("server " + Text(summary, "server_version") + ", up " +
            std::to_string(summary.value("uptime_ms", uint64_t{0}) / 1000) + " s, eviction " +
            Text(summary, "eviction") + ", clients " + Number(summary.at("clients"), "attached") +
            " attached, " + Number(summary.at("clients"), "detached") + " detached");
  // What lies behind the size adds up to it.
  Table pools({"pool", "size", "head", "free", "pages", "client-cut", "records", "text", "index",
               "leases", "keys"});
  Table pages({"pages of", "all", "free", "granted", "live", "condemned", "quarantined", "worn"});
  for (const Json& pool : summary.at("pools")) {
    const Json& counts = pool.at("pages");
    pools.Add({Text(pool, "name"), Size(pool, "pool_bytes"), Size(pool, "head_bytes"),
               Size(pool, "free_bytes"), Size(pool, "pages_bytes"), Size(pool, "client_cut_bytes"),
               Size(pool, "records_bytes"), Size(pool, "text_bytes"), Size(pool, "index_bytes"),
               Size(pool, "lease_bytes"), Number(pool, "keys")});
    pages.Add({Text(pool, "name"), Number(counts, "all"), Number(counts, "free"),
               Number(counts, "granted"), Number(counts, "live"), Number(counts, "condemned"),
               Number(counts, "quarantined"), Number(counts, "worn")});
  }
  Print(pools.ToString() + "\n" + pages.ToString());
  Print("\n");
  PrintUpstream(summary);
  const Json& counters = summary.at("counters");
  PrintLine("since its start: " + Number(counters, "registered") + " registered, " +
            Number(counters, "duplicates") + " duplicates, " + Number(counters, "deleted") +
            " deleted, " + Number(counters, "evicted") + " evicted, " +
            Number(counters, "clients_died") + " clients gone");
}

void PrintClients(const Json& clients) {
  Table table({"label", "pid", "uid", "state", "granted", "live", "leases", "pins", "namespace"});
  for (const Json& client : clients) {
    table.Add({Text(client, "label"), Number(client, "pid"), Number(client, "uid"),
               Text(client, "state"), Number(client, "granted_pages"), Number(client, "live_pages"),
               Number(client, "leases"), Number(client, "pins"), Text(client, "namespace")});
  }
  Print(table.ToString());
}

// Who cut it: its client by its own name, or the server.
std::string CutBy(const Json& region) {
  if (region.value("page_bytes", uint64_t{0}) > 0) return "the server";
  if (!region.value("owned", false)) {
    // Without a key, and with nothing that a lease holds, there is one thing that it waits for.
    const bool idle = region.at("pages").value("all", uint64_t{0}) == 0;
    return idle ? "nobody any more, on hold (--wire-hold)" : "nobody any more";
  }
  // Names of instances are an endpoint's own.
  const std::string endpoint = region.value("namespace", "");
  return ShownOwner(region) + (endpoint.empty() ? "" : " at " + Printable(endpoint));
}

void PrintRegions(const Json& regions) {
  Table table({"pool", "region", "offset", "size", "page size", "pages", "free", "granted", "live",
               "cut by"});
  for (const Json& region : regions) {
    const Json& counts = region.at("pages");
    table.Add({Number(region, "pool"), Number(region, "region_id"), Number(region, "offset_bytes"),
               Size(region, "length_bytes"), Size(region, "page_bytes"), Number(counts, "all"),
               Number(counts, "free"), Number(counts, "granted"), Number(counts, "live"),
               CutBy(region)});
  }
  Print(table.ToString());
}

void PrintCondemned(const Json& pages) {
  Table table({"pool", "record", "generation", "page size", "held by"});
  for (const Json& page : pages) {
    std::string holders;
    for (const Json& holder : page.at("holders")) {
      const std::string name =
          holder.is_string() ? holder.get<std::string>() : holder.value("label", holder.dump());
      holders += (holders.empty() ? "" : ", ") + Printable(name);
    }
    if (page.value("on_hold", false)) {
      holders += (holders.empty() ? "" : ", ") + std::string("the time that --wire-hold gives");
    }
    table.Add({Number(page, "pool"), Number(page, "record"), Number(page, "generation"),
               Size(page, "page_bytes"), holders.empty() ? "nobody any more" : holders});
  }
  Print(table.ToString());
}

Result<Exit> RunStat(const Arguments& arguments) {
  struct View {
    const char* flag;
    wire::InspectTopic topic;
    void (*print)(const Json& json);
  };
  static constexpr View kViews[] = {
      {"clients", wire::InspectTopic::kClients, &PrintClients},
      {"regions", wire::InspectTopic::kRegions, &PrintRegions},
      {"condemned", wire::InspectTopic::kCondemned, &PrintCondemned},
  };
  static constexpr View kSummary = {"", wire::InspectTopic::kSummary, &PrintSummary};
  const View* shown = &kSummary;
  for (const View& view : kViews) {
    if (!arguments.Has(view.flag)) continue;
    if (shown != &kSummary) {
      return InvalidArgument(std::string("--") + shown->flag + " and --" + view.flag +
                             ": one view at a time");
    }
    shown = &view;
  }
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, {}));
  MARU_ASSIGN_OR_RETURN(Json json, InspectAll(*client, shown->topic));
  LeaveSelfOut(*client, shown->topic, &json);
  if (arguments.json()) {
    PrintLine(json.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    shown->print(json);
  }
  return Exit::kDone;
}

Result<Exit> RunTop(const Arguments& /*arguments*/) {
  return InvalidArgument("maru top is not in this version: watch -n 1 maru stat shows the same");
}

}  // namespace

extern const Command kStat = {"stat",
                              "Show what is there: pools, pages, clients",
                              "Example: maru stat --clients",
                              kStatOptions,
                              {},
                              &RunStat};
extern const Command kTop = {"top",  "Not in this version: watch -n 1 maru stat", "", {}, {},
                             &RunTop};

}  // namespace maru::tools
