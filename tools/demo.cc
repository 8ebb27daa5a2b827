// maru demo: a private server and two instances that share what they compute.

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/units.h"
#include "layout/geometry.h"
#include "os/file.h"
#include "os/process.h"
#include "tools/commands.h"
#include "tools/instance.h"
#include "tools/output.h"
#include "tools/private_server.h"
#include "tools/workload.h"

namespace maru::tools {

namespace {

constexpr OptionRow kOptions[] = {
    {"instances", "N", "2", "Instances, each a process", Takes::kOne},
    {"page-size", "SIZE", "64KiB", "Bytes of one block", Takes::kOne},
    {"pool-size", "SIZE", "", "Size of the private pool [256MiB, or what is free if that is less]",
     Takes::kOne},
    {"seed", "N", "1", "Of the generated conversations", Takes::kOne},
};
constexpr uint32_t kRaces = 8;
constexpr uint64_t kPoolBytes = uint64_t{256} << 20;

void PrintDemoJson(const ReplaySpec& spec, const ReplayResult& result, const LeakReport& leaks,
                   Exit exit) {
  const InstanceResult& sum = result.sum;
  nlohmann::ordered_json json;
  json["instances"] = spec.instances;
  json["requests"] = sum.requests;
  json["blocks"] = sum.blocks;
  json["hits"] = sum.hits;
  json["shared_hits"] = sum.shared_hits;
  json["stored"] = sum.stored;
  json["bytes_read_in_place"] = sum.bytes_read;
  json["verification_failures"] = sum.verification_failures;
  json["races"] = sum.races / std::max(1u, spec.instances);
  json["races_won"] = sum.races_won;
  json["races_lost"] = sum.races_lost;
  json["leaked_pages"] = leaks.leaked_pages;
  json["audit_clean"] = leaks.clean;
  json["good"] = exit == Exit::kDone;
  PrintLine(json.dump(2));
}

void PrintDemoText(const ReplaySpec& spec, const ReplayResult& result, const LeakReport& leaks) {
  const InstanceResult& sum = result.sum;
  Table table({"instance", "requests", "blocks", "found", "of others", "stored", "read in place"});
  for (size_t i = 0; i < result.instances.size(); ++i) {
    const InstanceResult& one = result.instances[i];
    table.Add({std::to_string(i), std::to_string(one.requests), std::to_string(one.blocks),
               std::to_string(one.hits), std::to_string(one.shared_hits),
               std::to_string(one.stored), FormatSize(one.bytes_read)});
  }
  PrintLine("");
  Print(table.ToString());
  PrintLine("");
  PrintLine("register races forced: " + std::to_string(sum.races / spec.instances) +
            ", each won once (" + std::to_string(sum.races_won) + ") and lost by the others (" +
            std::to_string(sum.races_lost) + "), whose pages came back");
  if (sum.shared_hits == 0) PrintLine("nothing was shared: a larger --pool-size keeps more");
  PrintLine("wrong bytes: " + std::to_string(sum.verification_failures) +
            ", leaked pages: " + std::to_string(leaks.leaked_pages) +
            ", audit: " + (leaks.clean ? "clean" : "NOT clean"));
  for (const std::string& what : leaks.offenders) PrintLine("broken: " + Printable(what));
}

// A container has 64 MiB of shared memory if nobody gives it more.
Result<uint64_t> PoolBytes(const Arguments& arguments) {
  if (arguments.Has("pool-size")) return arguments.PoolSize("pool-size");
  MARU_ASSIGN_OR_RETURN(const uint64_t free_bytes, os::FreeSpaceBytes("/dev/shm"));
  const uint64_t room = AlignDown(std::min(free_bytes, kPoolBytes), layout::kUnitBytes);
  return std::max(room, layout::kPoolBytesMin);
}

Result<Exit> Demo(const Arguments& arguments) {
  ReplaySpec spec;
  MARU_ASSIGN_OR_RETURN(const uint64_t instances, arguments.Number("instances", 2, 64));
  spec.instances = static_cast<uint32_t>(instances);
  MARU_ASSIGN_OR_RETURN(spec.page_bytes, arguments.Size("page-size"));
  MARU_ASSIGN_OR_RETURN(const uint64_t pool_bytes, PoolBytes(arguments));
  ConversationOptions conversations;
  MARU_ASSIGN_OR_RETURN(conversations.seed, arguments.Number("seed", 0, UINT64_MAX));
  spec.races = kRaces;
  spec.progress = arguments.json() ? ShowProgress::kNo : ShowProgress::kYes;

  const ServerLog log = arguments.json() ? ServerLog::kHidden : ServerLog::kShown;
  MARU_ASSIGN_OR_RETURN(const auto server, PrivateServer::Start("", pool_bytes, log));
  spec.server = server->socket_path();
  if (!arguments.json()) {
    PrintLine("A private server (pid " + std::to_string(server->pid()) + ") holds one pool of " +
              FormatSize(pool_bytes) + ".");
    PrintLine(std::to_string(spec.instances) +
              " instances, each a process of its own, serve multi-turn conversations: what one");
    PrintLine("has stored, the others read where it lies.");
    std::fflush(stdout);
  }
  const std::vector<TraceRequest> requests = MakeConversations(conversations);
  // The instances open it through this process, which outlives them.
  MARU_ASSIGN_OR_RETURN(const os::File trace, os::File::CreateMemory("maru-demo-trace"));
  spec.trace = "/proc/" + std::to_string(os::ProcessId()) + "/fd/" + std::to_string(trace.fd());
  MARU_RETURN_IF_ERROR(WriteTrace(spec.trace, requests));
  MARU_ASSIGN_OR_RETURN(const ReplayResult result, RunInstances(spec, requests.size()));
  MARU_ASSIGN_OR_RETURN(const LeakReport leaks, AuditLeaks(spec.server));

  const InstanceResult& sum = result.sum;
  const bool sound = leaks.clean && leaks.leaked_pages == 0 && sum.verification_failures == 0 &&
                     sum.requests == requests.size() && sum.races_won == spec.races &&
                     sum.races_lost == spec.races * (spec.instances - 1);
  const Exit shared = sum.shared_hits > 0 ? Exit::kDone : Exit::kNotThere;
  const Exit exit = sound ? shared : Exit::kBroken;
  if (arguments.json()) {
    PrintDemoJson(spec, result, leaks, exit);
  } else {
    PrintDemoText(spec, result, leaks);
  }
  return exit;
}

}  // namespace

extern const Command kDemo = {
    "demo",
    "Start a private server and instances, and watch them share KV pages",
    "Needs nothing and leaves nothing. Exit code 0 only if the instances shared pages, every byte\n"
    "was right and no page leaked; 1 if nothing was shared, as on a pool too small to keep "
    "anything.",
    kOptions,
    {},
    &Demo};

}  // namespace maru::tools
