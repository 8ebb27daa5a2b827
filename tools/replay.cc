// maru replay: a trace over several instances.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/units.h"
#include "os/line_reader.h"
#include "os/process.h"
#include "tools/audit.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/instance.h"
#include "tools/output.h"
#include "tools/private_server.h"
#include "tools/progress.h"
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

bool ParseResult(const std::string& line, InstanceResult* r) {
  std::istringstream words(line);
  std::string word;
  words >> word >> r->requests >> r->blocks >> r->hits >> r->shared_hits >> r->stored >>
      r->duplicates >> r->refused >> r->bytes_read >> r->bytes_written >>
      r->verification_failures >> r->races >> r->races_won >> r->races_lost;
  return word == "result" && !words.fail();
}

void AddTo(InstanceResult* sum, const InstanceResult& one) {
  sum->requests += one.requests;
  sum->blocks += one.blocks;
  sum->hits += one.hits;
  sum->shared_hits += one.shared_hits;
  sum->stored += one.stored;
  sum->duplicates += one.duplicates;
  sum->refused += one.refused;
  sum->bytes_read += one.bytes_read;
  sum->bytes_written += one.bytes_written;
  sum->verification_failures += one.verification_failures;
  sum->races += one.races;
  sum->races_won += one.races_won;
  sum->races_lost += one.races_lost;
}

// Follows one instance's output to its end.
Status Follow(os::Child* child, uint32_t index, std::atomic<uint64_t>* done,
              InstanceResult* result) {
  os::LineReader lines(child->output_fd());
  bool finished = false;
  uint64_t told = 0;
  while (true) {
    MARU_ASSIGN_OR_RETURN(const std::optional<std::string> line, lines.Next());
    if (!line) break;
    if (line->starts_with("done ")) {
      const uint64_t now = std::strtoull(line->c_str() + 5, nullptr, 10);
      // Relaxed: a number for people.
      done->fetch_add(now - told, std::memory_order_relaxed);
      told = now;
    } else {
      finished = ParseResult(*line, result);
    }
  }
  MARU_ASSIGN_OR_RETURN(const os::ChildExit exit, child->Wait());
  if (exit.ok() && finished) return OkStatus();
  return Internal("instance " + std::to_string(index) + " ended with " +
                  (exit.signal != 0 ? "signal " + std::to_string(exit.signal)
                                    : "exit code " + std::to_string(exit.code)));
}

}  // namespace

Result<ReplayResult> RunInstances(const ReplaySpec& spec, uint64_t requests_in_trace) {
  MARU_ASSIGN_OR_RETURN(const std::string program, os::ProgramPath());
  std::vector<os::Child> children;
  const auto start = std::chrono::steady_clock::now();
  for (uint32_t i = 0; i < spec.instances; ++i) {
    os::ChildOptions options;
    options.life = os::ChildLife::kWithParent;
    options.output = os::ChildStream::kPipe;
    MARU_ASSIGN_OR_RETURN(os::Child child,
                          os::Child::Start({program,         "replay-instance",
                                            "--server",      spec.server,
                                            "--server-user", spec.server_user,
                                            "--trace",       spec.trace,
                                            "--index",       std::to_string(i),
                                            "--instances",   std::to_string(spec.instances),
                                            "--page-size",   std::to_string(spec.page_bytes),
                                            "--races",       std::to_string(spec.races),
                                            "--requests",    std::to_string(spec.requests_max),
                                            "--namespace",   spec.name_space},
                                           options));
    children.push_back(std::move(child));
  }
  ReplayResult result;
  result.instances.resize(spec.instances);
  std::vector<Status> ends(spec.instances);
  std::atomic<uint64_t> done{0};
  std::atomic<uint32_t> running{spec.instances};
  std::vector<std::thread> followers;
  for (uint32_t i = 0; i < spec.instances; ++i) {
    followers.emplace_back([&, i] {
      ends[i] = Follow(&children[i], i, &done, &result.instances[i]);
      running.fetch_sub(1, std::memory_order_release);
    });
  }
  const uint64_t all =
      spec.requests_max == 0 ? requests_in_trace : std::min(spec.requests_max, requests_in_trace);
  Progress progress(" requests", Progress::Elsewhere::kTenths);
  while (running.load(std::memory_order_acquire) > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (spec.progress) progress.Show(done.load(std::memory_order_relaxed), all);
  }
  for (std::thread& follower : followers) follower.join();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (spec.progress) progress.End(all);
  for (uint32_t i = 0; i < spec.instances; ++i) {
    MARU_RETURN_IF_ERROR(ends[i]);
    AddTo(&result.sum, result.instances[i]);
  }
  return result;
}

// The instances have ended; the server learns of each a moment later.
static Status AwaitNobodyElse(Client& client) {
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    MARU_ASSIGN_OR_RETURN(const auto reply,
                          Ask<wire::InspectReply>(client, wire::InspectRequest{}));
    const auto json = nlohmann::json::parse(reply.json, nullptr, false);
    if (!json.is_object()) return DataLoss("the server's answer is no JSON");
    const auto& clients = json["clients"];
    if (clients.value("attached", 0) + clients.value("detached", 0) <= 1) return OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return FailedPrecondition(
      "other clients are attached: what is theirs cannot be told from a leak");
}

Result<LeakReport> AuditLeaks(const std::string& server, const std::string& server_user) {
  ClientOptions options;
  options.server_url = server;
  options.server_user = server_user;
  options.label = "maru audit";
  MARU_ASSIGN_OR_RETURN(const auto client, Client::Connect(options));
  MARU_RETURN_IF_ERROR(AwaitNobodyElse(*client));
  MARU_ASSIGN_OR_RETURN(const auto reply, WholeAudit(*client, AuditBytes::kLeave, {}));
  const auto json = nlohmann::json::parse(reply.json, nullptr, false);
  if (json.is_discarded()) return DataLoss("the server's answer to audit is no JSON");
  LeakReport report;
  report.clean = reply.clean;
  for (const auto& pool : json["pools"]) {
    const auto count = [&pool](const char* name) { return pool.value(name, uint64_t{0}); };
    const uint64_t known = count("free") + count("quarantined") + count("granted") + count("live") +
                           count("retiring") + count("condemned") + count("worn");
    const uint64_t pages = count("pages");
    // Nobody but this tool is attached, and it holds nothing: what is granted or condemned is lost.
    report.leaked_pages += (pages > known ? pages - known : known - pages) + count("granted") +
                           count("retiring") + count("condemned");
  }
  for (const auto& what : json["offenders"]) report.offenders.push_back(what.get<std::string>());
  return report;
}

namespace {

void PrintReplay(const ReplaySpec& spec, const ReplayResult& result, const LeakReport& leaks,
                 bool as_json) {
  const InstanceResult& sum = result.sum;
  const double rate = static_cast<double>(sum.blocks) / result.seconds;
  const double hit_rate =
      sum.blocks == 0 ? 0 : static_cast<double>(sum.hits) / static_cast<double>(sum.blocks);
  if (as_json) {
    nlohmann::ordered_json json;
    json["requests"] = sum.requests;
    json["blocks"] = sum.blocks;
    json["hits"] = sum.hits;
    json["hit_rate"] = hit_rate;
    json["shared_hits"] = sum.shared_hits;
    json["stored"] = sum.stored;
    json["duplicates"] = sum.duplicates;
    json["refused"] = sum.refused;
    json["bytes"] = sum.bytes_read + sum.bytes_written;
    json["bytes_read"] = sum.bytes_read;
    json["bytes_written"] = sum.bytes_written;
    json["seconds"] = result.seconds;
    json["rate"] = rate;
    json["leaked_pages"] = leaks.leaked_pages;
    json["verification_failures"] = sum.verification_failures;
    json["audit_clean"] = leaks.clean;
    json["instances"] = spec.instances;
    PrintLine(json.dump(2));
    return;
  }
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
                hit_rate * 100, rate, result.seconds, static_cast<unsigned long long>(sum.refused));
  PrintLine(text);
  PrintLine("leaked pages " + std::to_string(leaks.leaked_pages) + ", verification failures " +
            std::to_string(sum.verification_failures));
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
  MARU_ASSIGN_OR_RETURN(const std::vector<TraceRequest> trace, ReadTrace(spec.trace));
  std::unique_ptr<PrivateServer> server;
  if (arguments.Has("pool") && arguments.Has("pool-size")) {
    return InvalidArgument("--pool and --pool-size: one of them names the private server's pool");
  }
  if (arguments.Has("pool") || arguments.Has("pool-size")) {
    uint64_t bytes = 0;
    if (arguments.Has("pool-size")) {
      MARU_ASSIGN_OR_RETURN(bytes, arguments.Size("pool-size"));
    }
    MARU_ASSIGN_OR_RETURN(server, PrivateServer::Start(arguments.Get("pool"), bytes));
    spec.server = server->socket_path();
  } else {
    spec.server = ServerOf(arguments);
    spec.server_user = arguments.Get("server-user");
  }
  MARU_ASSIGN_OR_RETURN(const ReplayResult result, RunInstances(spec, trace.size()));
  MARU_ASSIGN_OR_RETURN(const LeakReport leaks, AuditLeaks(spec.server, spec.server_user));
  PrintReplay(spec, result, leaks, arguments.json());
  const bool sound =
      leaks.clean && leaks.leaked_pages == 0 && result.sum.verification_failures == 0;
  return sound ? Exit::kDone : Exit::kBroken;
}

}  // namespace

extern const Command kReplay = {
    "replay",
    "Replay a request trace over several instances and verify every byte",
    "Each instance is a process; request i goes to instance i % N. Blocks that are there are read\n"
    "in place and verified, the others are stored. Exit code 4 when a byte was wrong or a page\n"
    "leaked.\n"
    "Example: maru replay trace.jsonl --instances 2 --page-size 16KiB --pool-size 4GiB",
    kOptions,
    kPositionals,
    &Replay};

}  // namespace maru::tools
