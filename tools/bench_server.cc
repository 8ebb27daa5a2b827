// maru bench: what the server costs while nobody asks it anything.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tools/bench.h"
#include "tools/connect.h"

namespace maru::tools {

namespace {

constexpr uint32_t kReadMs = 3000;
// A server that was just filled still gets memory for its youngest region in the first of them.
constexpr uint32_t kReadsMax = 3;
constexpr size_t kProcTextMax = 64 * 1024;
constexpr double kBytesAKeyGoal = 200;
constexpr double kCpuPercentGoal = 0.5;

// Nanoseconds that a process has run.
Result<double> ProcessorTime(int32_t pid) {
  MARU_ASSIGN_OR_RETURN(
      const std::string text,
      os::ReadTextFile("/proc/" + std::to_string(pid) + "/schedstat", kProcTextMax));
  return std::strtod(text.c_str(), nullptr);
}

// Memory of its own, that no file backs.
Result<uint64_t> OwnMemoryBytes(int32_t pid) {
  MARU_ASSIGN_OR_RETURN(const std::string text,
                        os::ReadTextFile("/proc/" + std::to_string(pid) + "/status", kProcTextMax));
  const size_t at = text.find("RssAnon:");
  if (at == std::string::npos) return NotFound("the kernel does not tell RssAnon");
  return std::strtoull(text.c_str() + at + 8, nullptr, 10) * 1024;
}

Result<uint64_t> CatalogueBytes(const BenchSpec& spec) {
  MARU_ASSIGN_OR_RETURN(const auto client, BenchClient(spec, spec.page_bytes));
  MARU_ASSIGN_OR_RETURN(const auto reply, Ask<wire::InspectReply>(*client, wire::InspectRequest{}));
  const auto json = nlohmann::json::parse(reply.json, nullptr, false);
  if (!json.is_object()) return DataLoss("the server's answer is no JSON");
  uint64_t bytes = 0;
  for (const auto& pool : json["pools"]) {
    for (const char* part : {"records_bytes", "text_bytes", "index_bytes"}) {
      bytes += pool.value(part, uint64_t{0});
    }
  }
  return bytes;
}

// Of a core, the server's, while one client reads; the median of several times.
Result<double> PercentWhileReading(BenchWorker* reader, int32_t server_pid, uint32_t repetitions) {
  std::vector<double> percent;
  for (uint32_t i = 0; i < std::min(repetitions, kReadsMax); ++i) {
    MARU_ASSIGN_OR_RETURN(const double before, ProcessorTime(server_pid));
    const auto start = BenchClock::now();
    MARU_RETURN_IF_ERROR(reader->Order("lookup retrieve hit 1 " + std::to_string(kReadMs) + " 1"));
    MARU_RETURN_IF_ERROR(reader->Answer().status());
    const std::chrono::duration<double, std::nano> wall = BenchClock::now() - start;
    MARU_ASSIGN_OR_RETURN(const double after, ProcessorTime(server_pid));
    percent.push_back((after - before) / wall.count() * 100);
  }
  return Median(std::move(percent));
}

}  // namespace

Status BenchServer(const BenchSpec& spec, uint64_t keys, const BenchNote& note,
                   std::vector<BenchRow>* rows) {
  BenchRow memory;
  memory.section = "server";
  memory.operation = "memory beside the key text";
  memory.keys = keys;
  MARU_ASSIGN_OR_RETURN(const uint64_t catalogue, CatalogueBytes(spec));
  MARU_ASSIGN_OR_RETURN(const uint64_t own, OwnMemoryBytes(spec.server_pid));
  memory.value = static_cast<double>(catalogue + own) / static_cast<double>(keys) -
                 static_cast<double>(BenchKey::kBytes);
  memory.unit = "bytes a key";
  if (keys == 1'000'000) memory.goal = "under 200";
  memory.goal_met = memory.value < kBytesAKeyGoal;
  rows->push_back(std::move(memory));

  note("processor time of the server while a client reads");
  MARU_ASSIGN_OR_RETURN(const auto reader,
                        BenchWorker::Start(spec, keys, spec.cores.back(), nullptr));
  // The first order is answered when the client is there.
  MARU_RETURN_IF_ERROR(reader->Order("lookup retrieve hit 1 1 1"));
  MARU_RETURN_IF_ERROR(reader->Answer().status());
  MARU_ASSIGN_OR_RETURN(const double percent,
                        PercentWhileReading(reader.get(), spec.server_pid, spec.repetitions));
  BenchRow cpu;
  cpu.section = "server";
  cpu.operation = "processor while a client only reads";
  cpu.keys = keys;
  cpu.value = percent;
  cpu.unit = "% of a core";
  cpu.goal = "under 0.5%";
  cpu.goal_met = cpu.value < kCpuPercentGoal;
  rows->push_back(std::move(cpu));
  return OkStatus();
}

}  // namespace maru::tools
