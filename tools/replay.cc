// maru replay: a trace over several instances.

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/units.h"
#include "tools/audit.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/instance.h"
#include "tools/output.h"
#include "tools/private_server.h"
#include "tools/workload.h"

namespace maru::tools {

namespace {

constexpr OptionRow kOptions[] = {
    {"instances", "N", "2", "Instances, each a process with a client of its own", Takes::kOne},
    {"page-size", "SIZE", "16KiB", "Bytes of one block", Takes::kOne},
    {"requests", "N", "0", "At most N requests of the trace; 0: all", Takes::kOne},
    {"namespace", "NAME", "", "Keys of this namespace", Takes::kOne},
    {"pool-size", "SIZE", "",
     "Start a private server with so much shared memory instead of using a running one",
     Takes::kOne},
    {"pool", "SPEC", "", "Start a private server on this pool, as in maru serve; it stays",
     Takes::kOne},
    {"races", "N", "0", "Register races to force first, between all instances", Takes::kOne},
};
constexpr PositionalRow kPositionals[] = {{"TRACE", "JSON lines with hash_ids", Takes::kOne}};

// How many are attached, or may come back, beside the one that asks.
Result<uint64_t> CountOthers(Client& client) {
  MARU_ASSIGN_OR_RETURN(const auto reply, Ask<wire::InspectReply>(client, wire::InspectRequest{}));
  const auto json = nlohmann::json::parse(reply.json, nullptr, false);
  if (json.is_discarded()) return DataLoss("the server's answer is no JSON");
  const auto& clients = json.at("clients");
  return clients.at("attached").get<uint64_t>() + clients.at("detached").get<uint64_t>() - 1;
}

// The instances have ended; the server learns of each a moment later.
Status AwaitNobodyElse(Client& client) {
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    MARU_ASSIGN_OR_RETURN(const uint64_t others, CountOthers(client));
    if (others == 0) return OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return FailedPrecondition(
      "other clients are attached: what is theirs cannot be told from a leak");
}

double Rate(const ReplayResult& result) {
  return static_cast<double>(result.sum.blocks) / result.seconds;
}
double HitRate(const InstanceResult& sum) {
  return sum.blocks == 0 ? 0 : static_cast<double>(sum.hits) / static_cast<double>(sum.blocks);
}

void PrintReplayJson(const ReplaySpec& spec, const ReplayResult& result, const LeakReport& leaks) {
  const InstanceResult& sum = result.sum;
  nlohmann::ordered_json json;
  json["requests"] = sum.requests;
  json["blocks"] = sum.blocks;
  json["hits"] = sum.hits;
  json["hit_rate"] = HitRate(sum);
  json["shared_hits"] = sum.shared_hits;
  json["stored"] = sum.stored;
  json["duplicates"] = sum.duplicates;
  json["refused"] = sum.refused;
  json["bytes"] = sum.bytes_read + sum.bytes_written;
  json["bytes_read"] = sum.bytes_read;
  json["bytes_written"] = sum.bytes_written;
  json["seconds"] = result.seconds;
  json["rate"] = Rate(result);
  if (leaks.unchecked.empty()) {
    json["leaked_pages"] = leaks.leaked_pages;
  } else {
    json["leaked_pages"] = nullptr;
    json["leaks_unchecked"] = leaks.unchecked;
  }
  json["verification_failures"] = sum.verification_failures;
  json["audit_clean"] = leaks.clean;
  json["instances"] = spec.instances;
  PrintLine(json.dump(2));
}

void PrintReplayText(const ReplayResult& result, const LeakReport& leaks) {
  const InstanceResult& sum = result.sum;
  char text[160];
  Table table({"instance", "requests", "blocks", "hits", "of others", "stored", "duplicates",
               "read in place", "wrong bytes"});
  for (size_t i = 0; i < result.instances.size(); ++i) {
    const InstanceResult& one = result.instances[i];
    table.Add({std::to_string(i), std::to_string(one.requests), std::to_string(one.blocks),
               std::to_string(one.hits), std::to_string(one.shared_hits),
               std::to_string(one.stored), std::to_string(one.duplicates),
               FormatSize(one.bytes_read), std::to_string(one.verification_failures)});
  }
  Print(table.ToString());
  std::snprintf(text, sizeof(text), "hit rate %.2f%%, %.0f blocks/s, %.1f s, refused %llu",
                HitRate(sum) * 100, Rate(result), result.seconds,
                static_cast<unsigned long long>(sum.refused));
  PrintLine(text);
  const bool checked = leaks.unchecked.empty();
  PrintLine("leaked pages " + (checked ? std::to_string(leaks.leaked_pages) : "unchecked") +
            ", verification failures " + std::to_string(sum.verification_failures));
  if (!checked) PrintLine(leaks.unchecked);
  for (const std::string& what : leaks.offenders) PrintLine("broken: " + Printable(what));
}

Result<Exit> Replay(const Arguments& arguments) {
  ReplaySpec spec;
  spec.trace = arguments.Get("TRACE");
  MARU_ASSIGN_OR_RETURN(const uint64_t instances, arguments.Number("instances", 1, 256));
  spec.instances = static_cast<uint32_t>(instances);
  MARU_ASSIGN_OR_RETURN(spec.page_bytes, arguments.Size("page-size"));
  MARU_ASSIGN_OR_RETURN(spec.requests_max, arguments.Number("requests", 0, UINT64_MAX));
  MARU_ASSIGN_OR_RETURN(const uint64_t races, arguments.Number("races", 0, 1000));
  spec.races = static_cast<uint32_t>(races);
  spec.name_space = arguments.Get("namespace");
  spec.progress = arguments.json() ? ShowProgress::kNo : ShowProgress::kYes;
  MARU_ASSIGN_OR_RETURN(const std::vector<TraceRequest> trace, ReadTrace(spec.trace));
  std::unique_ptr<PrivateServer> server;
  if (arguments.Has("pool") && arguments.Has("pool-size")) {
    return InvalidArgument("--pool and --pool-size: one of them names the private server's pool");
  }
  if (arguments.Has("pool") || arguments.Has("pool-size")) {
    const ServerLog log = arguments.json() ? ServerLog::kHidden : ServerLog::kShown;
    uint64_t bytes = 0;
    if (arguments.Has("pool-size")) {
      MARU_ASSIGN_OR_RETURN(bytes, arguments.PoolSize("pool-size"));
    }
    MARU_ASSIGN_OR_RETURN(server, PrivateServer::Start(arguments.Get("pool"), bytes, log));
    spec.server = server->socket_path();
  } else {
    spec.server = ServerOf(arguments);
    spec.server_user = arguments.Get("server-user");
  }
  MARU_ASSIGN_OR_RETURN(const ReplayResult result, RunInstances(spec, trace.size()));
  MARU_ASSIGN_OR_RETURN(const LeakReport leaks, AuditLeaks(spec.server, spec.server_user));
  if (arguments.json()) {
    PrintReplayJson(spec, result, leaks);
  } else {
    PrintReplayText(result, leaks);
  }
  const bool leaked = leaks.unchecked.empty() && leaks.leaked_pages != 0;
  const bool sound = leaks.clean && !leaked && result.sum.verification_failures == 0;
  return sound ? Exit::kDone : Exit::kBroken;
}

}  // namespace

Result<LeakReport> AuditLeaks(const std::string& server, const std::string& server_user) {
  ClientOptions options;
  options.server_url = server;
  options.server_user = server_user;
  options.label = "maru audit";
  MARU_ASSIGN_OR_RETURN(const auto client, Client::Connect(options));
  const Status alone = AwaitNobodyElse(*client);
  if (!alone.ok() && alone.code() != StatusCode::kFailedPrecondition) return alone;
  MARU_ASSIGN_OR_RETURN(const auto reply, WholeAudit(*client, AuditBytes::kLeave, {}));
  const auto json = nlohmann::json::parse(reply.json, nullptr, false);
  if (json.is_discarded()) return DataLoss("the server's answer to audit is no JSON");
  LeakReport report;
  report.clean = reply.clean;
  report.unchecked = alone.message();
  for (const auto& pool : json.at("pools")) {
    const auto count = [&pool](const char* name) { return pool.value(name, uint64_t{0}); };
    const uint64_t known = count("free") + count("quarantined") + count("granted") + count("live") +
                           count("retiring") + count("condemned") + count("worn");
    const uint64_t pages = count("pages");
    // Nobody but this tool is attached, and it holds nothing: what is granted or condemned is lost.
    report.leaked_pages += (pages > known ? pages - known : known - pages) + count("granted") +
                           count("retiring") + count("condemned");
  }
  for (const auto& what : json.at("offenders")) report.offenders.push_back(what.get<std::string>());
  return report;
}

extern const Command kReplay = {
    "replay",
    "Replay a request trace over several instances and verify every byte",
    "Each instance is a process; request i goes to instance i % N. Blocks that are there are read\n"
    "in place and verified, the others are stored. Exit code 4 when a byte was wrong or a page\n"
    "leaked; what leaked cannot be told while other clients are attached, and is said so then.\n"
    "Example: maru replay trace.jsonl --instances 2 --page-size 16KiB --pool-size 4GiB",
    kOptions,
    kPositionals,
    &Replay};

}  // namespace maru::tools
