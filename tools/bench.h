// What the parts of `maru bench` share: rows, samples, keys, worker processes.
//
// A bench is one process that measures messages and drives workers, each a process of its own
// (`maru bench-worker`): readers with a client each, and the other end of a bare socket. Orders go
// to a worker over a socket pair, as short texts, and its answer comes back the same way.
// bench_worker.cc is the worker's side, bench_orders.cc the bench's.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maru/client.h"
#include "maru/result.h"
#include "os/file.h"
#include "os/process.h"
#include "os/unix_socket.h"
#include "tools/private_server.h"

namespace maru::tools {

// One line of the result. Times are of one call, rates of all processes together; a column that
// says nothing about the operation is zero or empty.
struct BenchRow {
  std::string section, operation;
  uint64_t keys = 0;      // in the pool
  uint32_t readers = 0;   // processes at once
  uint32_t batch = 0;     // keys in one call; 0: it names none
  std::string placement;  // "same core", "two cores"
  double p50_ns = 0, p99_ns = 0;
  double per_second = 0;   // keys, or calls without one, or bytes of a copy
  double limit_ns = 0;     // what the machine takes for the bare work, in the same run
  double times_limit = 0;  // median over the repetitions of p50 / limit
  double value = 0;        // where the row is about something else than time
  std::string unit;        // of value
  std::string goal;        // "" without one
  bool goal_met = false;
};

// Asked between two cases: an error once the run is to end.
using BenchGoOn = std::function<Status()>;

struct BenchSpec {
  ServerLog server_log = ServerLog::kShown;
  std::vector<uint64_t> keys;
  std::vector<uint32_t> readers, batches;
  uint32_t repetitions = 5;
  uint32_t time_ms = 200;    // of each repetition of a case
  uint32_t messages = 1000;  // in each repetition
  uint64_t page_bytes = 512;
  std::string server;       // that is measured
  std::string server_user;  // as --server-user
  std::string name_space;
  int32_t server_pid = 0;  // 0: not ours, so it is left on the cores where it is
  std::vector<int> cores;
  std::vector<uint64_t> left_out;  // of keys: numbers for which there is no memory
  BenchGoOn go_on = [] { return OkStatus(); };
};

using BenchClock = std::chrono::steady_clock;

// Durations of single calls, less what reading the clock takes.
class Samples {
 public:
  static constexpr size_t kMax = 1 << 20;

  explicit Samples(size_t expected) { nanoseconds_.reserve(std::min(expected, kMax)); }
  void Add(BenchClock::duration time);
  bool empty() const { return nanoseconds_.empty(); }
  double Percentile(uint32_t percent);

 private:
  std::vector<uint32_t> nanoseconds_;
  bool sorted_ = false;
};
double Median(std::vector<double> values);

// Key i: 100 bytes, of which the last 8 differ, as those of one model do.
class BenchKey {
 public:
  static constexpr size_t kBytes = 100;
  BenchKey() { text_.fill('m'); }
  std::string_view Of(uint64_t i) {
    const uint64_t tail = i * 0x9e3779b97f4a7c15;
    std::memcpy(text_.data() + kBytes - sizeof(tail), &tail, sizeof(tail));
    return {text_.data(), text_.size()};
  }

 private:
  std::array<char, kBytes> text_;
};

// A worker process. The destructor ends it.
class BenchWorker {
 public:
  // `core` < 0: any. `table`: what "reads" reads, see bench_worker.cc; may be null.
  static Result<std::unique_ptr<BenchWorker>> Start(const BenchSpec& spec, uint64_t keys, int core,
                                                    const os::File* table);
  // `descriptor` goes with it; negative: none.
  Status Order(const std::string& order, int descriptor = -1);
  // The numbers of the answer; its error when it is one.
  Result<std::vector<double>> Answer();
  os::SeqpacketSocket& socket() { return socket_; }
  int32_t pid() const { return child_.pid(); }

 private:
  BenchWorker(os::Child child, os::SeqpacketSocket socket)
      : child_(std::move(child)), socket_(std::move(socket)) {}

  os::Child child_;
  os::SeqpacketSocket socket_;
};

// The answers of the first `count` workers to one order that is given to them at once, each with a
// seed of its own behind it.
struct BenchTogether {
  double per_second = 0, p50_ns = 0, p99_ns = 0;  // calls of all; medians over the workers
};
Result<BenchTogether> OrderAll(std::span<const std::unique_ptr<BenchWorker>> workers,
                               uint32_t count, const std::string& order, uint64_t seed);

// What was measured of one operation, round by round beside the limit.
class BenchRounds {
 public:
  void Add(double p50_ns, double p99_ns, double limit_ns, double calls_per_second = 0);
  // Into the row: medians, and rates where there were any.
  void Fill(BenchRow* row) const;

 private:
  std::vector<double> p50_, p99_, limit_, ratio_, rate_;
};

// What `readers` processes do, each with a seed of its own from `seed` on.
using BenchTurn = std::function<Result<BenchTogether>(uint64_t seed)>;
// Ours and the machine's limit by turns, as often as the spec says.
Result<BenchRounds> TakeTurns(const BenchSpec& spec, uint32_t readers, const BenchTurn& ours,
                              const BenchTurn& limit);

Result<std::unique_ptr<Client>> BenchClient(const BenchSpec& spec, uint64_t page_bytes);

// Each adds its rows. `note` tells people what is being done.
using BenchNote = std::function<void(const std::string&)>;
Status BenchFill(const BenchSpec& spec, uint64_t keys, const BenchNote& note,
                 std::vector<BenchRow>* rows);
// Deletes all keys of the bench's namespace.
Status BenchEmpty(const BenchSpec& spec);
Status BenchCatalogue(const BenchSpec& spec, uint64_t keys, const BenchNote& note,
                      std::vector<BenchRow>* rows);
Status BenchSocket(const BenchSpec& spec, uint64_t keys, const BenchNote& note,
                   std::vector<BenchRow>* rows);
// Look-ups by message, as in a catalogue that is not shared.
Status BenchFinds(const BenchSpec& spec, uint64_t keys, const BenchNote& note,
                  std::vector<BenchRow>* rows);
Status BenchPayload(const BenchSpec& spec, const BenchNote& note, std::vector<BenchRow>* rows);
// What the server costs: memory for each key, processor time while clients only read.
Status BenchServer(const BenchSpec& spec, uint64_t keys, const BenchNote& note,
                   std::vector<BenchRow>* rows);

// Which cores the client's side and the server run on while messages are measured.
struct BenchPlacement {
  std::string name;
  std::span<const int> clients, server;  // none: they stay where they are
};
std::vector<BenchPlacement> PlacementsOf(const BenchSpec& spec);
// Puts the server and `workers` there, and this process on the first of the clients' cores.
Status Place(const BenchSpec& spec, const BenchPlacement& placement,
             std::span<const std::unique_ptr<BenchWorker>> clients, const BenchWorker& bare_server);
// All as they were.
Status Unplace(const BenchSpec& spec);

enum class BenchForm : uint8_t { kText, kJson, kMarkdown };
void PrintBench(const BenchSpec& spec, const std::vector<BenchRow>& rows, BenchForm form);
std::string KeysText(uint64_t keys);  // "1M"
std::string TimeText(double nanoseconds);
std::string CountText(double count);
std::string FixedText(double value, int digits);
// Tables as in docs/performance.md: look-ups in the catalogue and over the socket side by side.
std::string BenchMarkdown(const BenchSpec& spec, const std::vector<BenchRow>& rows);

}  // namespace maru::tools
