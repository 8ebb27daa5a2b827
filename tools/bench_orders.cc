// maru bench: worker processes as the bench sees them, and what their answers come to.

#include <algorithm>
#include <sstream>

#include "os/machine.h"
#include "tools/bench.h"

namespace maru::tools {

namespace {
constexpr size_t kSocketBytesMax = 1 << 20;
}  // namespace

Result<std::unique_ptr<BenchWorker>> BenchWorker::Start(const BenchSpec& spec, uint64_t keys,
                                                        int core, const os::File* table) {
  MARU_ASSIGN_OR_RETURN(auto ends, os::SeqpacketSocket::Pair());
  MARU_RETURN_IF_ERROR(ends.first.SetBufferBytes(kSocketBytesMax));
  MARU_RETURN_IF_ERROR(ends.second.SetBufferBytes(kSocketBytesMax));
  MARU_ASSIGN_OR_RETURN(const std::string program, os::ProgramPath());
  std::vector<std::string> words = {program,         "bench-worker",  "--server",
                                    spec.server,     "--keys",        std::to_string(keys),
                                    "--namespace",   spec.name_space, "--server-user",
                                    spec.server_user};
  if (core >= 0) words.insert(words.end(), {"--core", std::to_string(core)});
  os::ChildOptions options;
  options.life = os::ChildLife::kWithParent;
  options.descriptors = {ends.second.fd()};
  if (table != nullptr) {
    options.descriptors.push_back(table->fd());
    words.emplace_back("--table");
  }
  MARU_ASSIGN_OR_RETURN(os::Child child, os::Child::Start(words, options));
  return std::unique_ptr<BenchWorker>(new BenchWorker(std::move(child), std::move(ends.first)));
}

Status BenchWorker::Order(const std::string& order, int descriptor) {
  const std::span<const int> descriptors(&descriptor, descriptor < 0 ? 0 : 1);
  return socket_.Send(std::as_bytes(std::span(order)), descriptors);
}

Result<std::vector<double>> BenchWorker::Answer() {
  std::array<std::byte, 1024> buffer;
  MARU_ASSIGN_OR_RETURN(const size_t size, socket_.Receive(buffer));
  const std::string text(reinterpret_cast<const char*>(buffer.data()), size);
  if (!text.starts_with("ok")) return Internal("a worker answers: " + text);
  std::istringstream words(text.substr(2));
  std::vector<double> numbers;
  for (double number = 0; words >> number;) numbers.push_back(number);
  return numbers;
}

Result<BenchTogether> OrderAll(std::span<const std::unique_ptr<BenchWorker>> workers,
                               uint32_t count, const std::string& order, uint64_t seed) {
  const auto start = BenchClock::now();
  for (uint32_t i = 0; i < count; ++i) {
    MARU_RETURN_IF_ERROR(workers[i]->Order(order + " " + std::to_string(seed + i)));
  }
  BenchTogether all;
  std::vector<double> p50, p99;
  for (uint32_t i = 0; i < count; ++i) {
    MARU_ASSIGN_OR_RETURN(const std::vector<double> numbers, workers[i]->Answer());
    if (numbers.size() != 4) return Internal("a worker answers with too few numbers");
    all.per_second += numbers[0];
    p50.push_back(numbers[2]);
    p99.push_back(numbers[3]);
  }
  // By the time of all of them: on fewer cores than readers they take turns.
  all.per_second /= std::chrono::duration<double>(BenchClock::now() - start).count();
  all.p50_ns = Median(std::move(p50));
  all.p99_ns = Median(std::move(p99));
  return all;
}

Result<BenchRounds> TakeTurns(const BenchSpec& spec, uint32_t readers, const BenchTurn& ours,
                              const BenchTurn& limit) {
  BenchRounds rounds;
  for (uint32_t round = 0; round < spec.repetitions; ++round) {
    MARU_RETURN_IF_ERROR(spec.go_on());
    const uint64_t seed = 1 + uint64_t{round} * readers;
    MARU_ASSIGN_OR_RETURN(const auto taken, ours(seed));
    MARU_ASSIGN_OR_RETURN(const auto bare, limit(seed));
    rounds.Add(taken.p50_ns, taken.p99_ns, bare.p50_ns, taken.per_second);
  }
  return rounds;
}

std::vector<BenchPlacement> PlacementsOf(const BenchSpec& spec) {
  // Others' servers stay where they are.
  if (spec.server_pid == 0) return {{"not pinned", {}, {}}};
  const std::span<const int> cores(spec.cores);
  std::vector<BenchPlacement> placements = {{"one core", cores.first(1), cores.first(1)}};
  if (cores.size() > 1) {
    placements.push_back({"two cores", cores.first(cores.size() - 1), cores.last(1)});
  }
  return placements;
}

Status Place(const BenchSpec& spec, const BenchPlacement& placement,
             std::span<const std::unique_ptr<BenchWorker>> clients,
             const BenchWorker& bare_server) {
  if (placement.server.empty()) return OkStatus();
  MARU_RETURN_IF_ERROR(os::RunOnCpus(placement.clients.first(1)));
  MARU_RETURN_IF_ERROR(os::RunProcessOnCpus(spec.server_pid, placement.server));
  MARU_RETURN_IF_ERROR(os::RunProcessOnCpus(bare_server.pid(), placement.server));
  for (size_t i = 0; i < clients.size(); ++i) {
    MARU_RETURN_IF_ERROR(os::RunProcessOnCpus(
        clients[i]->pid(), placement.clients.subspan(i % placement.clients.size(), 1)));
  }
  return OkStatus();
}

Status Unplace(const BenchSpec& spec) {
  if (spec.server_pid == 0) return OkStatus();
  MARU_RETURN_IF_ERROR(os::RunOnCpus(spec.cores));
  return os::RunProcessOnCpus(spec.server_pid, spec.cores);
}

void BenchRounds::Add(double p50_ns, double p99_ns, double limit_ns, double calls_per_second) {
  p50_.push_back(p50_ns);
  p99_.push_back(p99_ns);
  limit_.push_back(limit_ns);
  ratio_.push_back(p50_ns / limit_ns);
  if (calls_per_second > 0) rate_.push_back(calls_per_second);
}

void BenchRounds::Fill(BenchRow* row) const {
  row->p50_ns = Median(p50_);
  row->p99_ns = Median(p99_);
  row->limit_ns = Median(limit_);
  row->times_limit = Median(ratio_);
  if (!rate_.empty()) row->per_second = Median(rate_) * std::max(row->batch, 1u);
}

}  // namespace maru::tools
