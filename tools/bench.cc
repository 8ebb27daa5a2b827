// maru bench: what every operation takes, beside what the machine takes for the bare work.

#include "tools/bench.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/units.h"
#include "layout/geometry.h"
#include "os/event.h"
#include "os/file.h"
#include "os/machine.h"
#include "pool/new_pool.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/output.h"
#include "tools/private_server.h"

namespace maru::tools {

namespace {

constexpr OptionRow kOptions[] = {
    {"keys", "LIST", "1k,1M", "How many keys the pool holds, one run for each", Takes::kOne},
    {"readers", "LIST", "1,2,4", "How many processes look keys up at once", Takes::kOne},
    {"batch", "LIST", "1,16,64,256", "How many keys one look-up names", Takes::kOne},
    {"repetitions", "N", "5", "Of each case; medians are told", Takes::kOne},
    {"time", "MS", "100", "Of each repetition of a look-up", Takes::kOne},
    {"messages", "N", "1000", "In each repetition of a message", Takes::kOne},
    {"page-size", "SIZE", "512", "Bytes of a page of the keys that are looked up", Takes::kOne},
    {"only", "LIST", "catalogue,socket,payload,server", "Which parts", Takes::kOne},
    // In place of the common row: no variable names it, by which others' keys would go.
    {"server", "URL", "",
     "Work on that running server, named as for other commands; MARU_SERVER does not name it",
     Takes::kOne},
    {"markdown", nullptr, "", "Tables as in docs/performance.md", Takes::kNothing},
};

constexpr uint64_t kKeysMax = 100'000'000;
constexpr size_t kListMax = 16;
constexpr uint64_t kBytesAKey = 360;                   // of catalogue, while an index grows
constexpr uint64_t kSpareBytes = uint64_t{512} << 20;  // payload, lease areas, the pool's head
constexpr uint64_t kTableBytesAKey = 256;              // for bare reads of the same spread

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// "1,16,1k,10M": counts in thousands and millions.
Result<std::vector<uint64_t>> Counts(const Arguments& arguments, const char* name, uint64_t most) {
  std::vector<uint64_t> counts;
  for (const std::string& text : Split(arguments.Get(name))) {
    char* end = nullptr;
    const uint64_t number = std::strtoull(text.c_str(), &end, 10);
    const std::string unit = end;
    const uint64_t scale = unit == "k" ? 1000 : unit == "M" ? 1'000'000 : unit.empty() ? 1 : 0;
    const uint64_t count = scale == 0 || number > most / scale ? 0 : number * scale;
    if (count == 0) {
      return InvalidArgument(std::string("--") + name + " " + text +
                             ": a list of numbers from 1 to " + std::to_string(most) +
                             " is wanted, as 1,1k,10M");
    }
    counts.push_back(count);
  }
  if (counts.size() > kListMax) return InvalidArgument(std::string("--") + name + ": too many");
  return counts;
}

Result<std::vector<uint32_t>> SmallCounts(const Arguments& arguments, const char* name,
                                          uint32_t most) {
  MARU_ASSIGN_OR_RETURN(const std::vector<uint64_t> counts, Counts(arguments, name, most));
  std::vector<uint32_t> small;
  for (const uint64_t count : counts) small.push_back(static_cast<uint32_t>(count));
  return small;
}

// A pool of its own, which outlives a restart of the server, and its server; both are gone
// afterwards, whatever ends this process.
class PrivateRun {
 public:
  explicit PrivateRun(ServerLog log) : log_(log) {}
  Status Start(uint64_t bytes) {
    MARU_ASSIGN_OR_RETURN(pool_,
                          pool::InitUnnamedPool("/dev/shm", AlignUp(bytes, layout::kUnitBytes),
                                                {.size_option = "--keys"}));
    return StartServer();
  }
  // From the start of the process until it listens; it has stopped in order before.
  Result<double> RestartSeconds() {
    server_.reset();
    const auto start = BenchClock::now();
    MARU_RETURN_IF_ERROR(StartServer());
    return std::chrono::duration<double>(BenchClock::now() - start).count();
  }
  const PrivateServer& server() const { return *server_; }

 private:
  Status StartServer() {
    const std::string spec =
        "file:/proc/" + std::to_string(os::ProcessId()) + "/fd/" + std::to_string(pool_.fd());
    MARU_ASSIGN_OR_RETURN(server_, PrivateServer::Start(spec, 0, log_));
    return OkStatus();
  }
  const ServerLog log_;
  os::File pool_;  // without a name
  std::unique_ptr<PrivateServer> server_;
};

Status MeasureRestart(BenchSpec* spec, uint64_t keys, PrivateRun* run,
                      std::vector<BenchRow>* rows) {
  std::vector<double> seconds;
  constexpr int kRestarts = 3;
  for (int i = 0; i < kRestarts; ++i) {
    MARU_ASSIGN_OR_RETURN(const double one, run->RestartSeconds());
    seconds.push_back(one);
  }
  spec->server = run->server().socket_path();
  spec->server_pid = run->server().pid();
  MARU_ASSIGN_OR_RETURN(const auto client, BenchClient(*spec, spec->page_bytes));
  BenchKey text;
  for (const uint64_t i : {uint64_t{0}, keys / 2, keys - 1}) {
    MARU_ASSIGN_OR_RETURN(const bool there, client->Exists(text.Of(i)));
    if (!there) return DataLoss("a key is gone after the restart");
  }
  BenchRow row;
  row.section = "server";
  row.operation = "restart, until it serves all keys";
  row.keys = keys;
  row.p50_ns = Median(seconds) * 1e9;
  row.p99_ns = *std::ranges::max_element(seconds) * 1e9;
  row.value = Median(std::move(seconds));
  row.unit = "s";
  if (keys == 1'000'000) row.goal = "under 1 s with 1M keys";
  row.goal_met = row.value < 1;
  rows->push_back(std::move(row));
  return OkStatus();
}

struct Parts {
  bool catalogue = false, socket = false, payload = false, server = false;
};

Result<Parts> PartsOf(const Arguments& arguments) {
  Parts parts;
  for (const std::string& part : Split(arguments.Get("only"))) {
    if (part == "catalogue") {
      parts.catalogue = true;
    } else if (part == "socket") {
      parts.socket = true;
    } else if (part == "payload") {
      parts.payload = true;
    } else if (part == "server") {
      parts.server = true;
    } else {
      return InvalidArgument("--only " + part + ": catalogue, socket, payload or server is wanted");
    }
  }
  return parts;
}

Result<BenchSpec> SpecOf(const Arguments& arguments) {
  constexpr uint32_t kReadersMax = 64, kBatchMax = 4096;
  BenchSpec spec;
  MARU_ASSIGN_OR_RETURN(spec.keys, Counts(arguments, "keys", kKeysMax));
  MARU_ASSIGN_OR_RETURN(spec.readers, SmallCounts(arguments, "readers", kReadersMax));
  MARU_ASSIGN_OR_RETURN(spec.batches, SmallCounts(arguments, "batch", kBatchMax));
  MARU_ASSIGN_OR_RETURN(const uint64_t repetitions, arguments.Number("repetitions", 1, 1000));
  spec.repetitions = static_cast<uint32_t>(repetitions);
  MARU_ASSIGN_OR_RETURN(const uint64_t time_ms, arguments.Number("time", 1, 60'000));
  spec.time_ms = static_cast<uint32_t>(time_ms);
  MARU_ASSIGN_OR_RETURN(const uint64_t messages, arguments.Number("messages", 1, 1'000'000));
  spec.messages = static_cast<uint32_t>(messages);
  MARU_ASSIGN_OR_RETURN(spec.page_bytes, arguments.Size("page-size"));
  MARU_ASSIGN_OR_RETURN(spec.cores, os::AllowedCpus());
  spec.name_space = "maru-bench-" + std::to_string(os::ProcessId());
  return spec;
}

uint64_t PoolBytes(const BenchSpec& spec, uint64_t keys) {
  return keys * (spec.page_bytes + kBytesAKey) + kSpareBytes;
}

// One number of keys, on a server of its own.
Status RunPrivate(BenchSpec spec, const Parts& parts, uint64_t keys, const BenchNote& note,
                  std::vector<BenchRow>* rows) {
  note("a private server, and " + std::to_string(keys) + " keys");
  PrivateRun run(spec.server_log);
  MARU_RETURN_IF_ERROR(run.Start(PoolBytes(spec, keys)));
  spec.server = run.server().socket_path();
  spec.server_pid = run.server().pid();
  MARU_RETURN_IF_ERROR(BenchFill(spec, keys, note, rows));
  if (parts.server) MARU_RETURN_IF_ERROR(BenchServer(spec, keys, note, rows));
  if (parts.catalogue) MARU_RETURN_IF_ERROR(BenchCatalogue(spec, keys, note, rows));
  if (parts.socket) {
    MARU_RETURN_IF_ERROR(BenchSocket(spec, keys, note, rows));
    MARU_RETURN_IF_ERROR(BenchFinds(spec, keys, note, rows));
  }
  // The same whatever the number of keys.
  if (parts.payload && keys == spec.keys.front()) {
    MARU_RETURN_IF_ERROR(BenchPayload(spec, note, rows));
  }
  if (parts.server) {
    note("restarts");
    MARU_RETURN_IF_ERROR(MeasureRestart(&spec, keys, &run, rows));
  }
  return OkStatus();
}

// Leaves out of the spec what would need more memory than there is; all of it is refused.
Status LeaveOutTooMany(BenchSpec* spec) {
  constexpr size_t kTextMax = 64 * 1024;
  MARU_ASSIGN_OR_RETURN(const std::string text, os::ReadTextFile("/proc/meminfo", kTextMax));
  const size_t at = text.find("MemAvailable:");
  if (at == std::string::npos) return OkStatus();
  MARU_ASSIGN_OR_RETURN(const uint64_t limit, os::MemoryLimitBytes());
  const uint64_t available =
      std::min<uint64_t>(limit, std::strtoull(text.c_str() + at + 13, nullptr, 10) * 1024);
  for (const uint64_t keys : spec->keys) {
    if (PoolBytes(*spec, keys) + keys * kTableBytesAKey > available) spec->left_out.push_back(keys);
  }
  if (spec->left_out.size() == spec->keys.size()) {
    return ResourceExhausted("--keys " + KeysText(spec->keys.front()) + ": takes " +
                             FormatSize(PoolBytes(*spec, spec->keys.front())) + " of memory, " +
                             FormatSize(available) + " are there");
  }
  std::erase_if(spec->keys,
                [spec](uint64_t keys) { return std::ranges::count(spec->left_out, keys) > 0; });
  return OkStatus();
}

Status MeasureShared(const BenchSpec& spec, const Parts& parts, uint64_t keys,
                     const BenchNote& note, std::vector<BenchRow>* rows) {
  MARU_RETURN_IF_ERROR(BenchFill(spec, keys, note, rows));
  if (parts.catalogue) MARU_RETURN_IF_ERROR(BenchCatalogue(spec, keys, note, rows));
  if (parts.socket) {
    MARU_RETURN_IF_ERROR(BenchSocket(spec, keys, note, rows));
    MARU_RETURN_IF_ERROR(BenchFinds(spec, keys, note, rows));
  }
  if (!parts.payload || keys != spec.keys.front()) return OkStatus();
  return BenchPayload(spec, note, rows);
}

// On a running server, in a namespace of the bench's own; its keys are deleted afterwards, also
// when it fails or is to stop. What would disturb others is left out: its cores and its restart.
Status RunShared(BenchSpec spec, const Parts& parts, uint64_t keys, const BenchNote& note,
                 std::vector<BenchRow>* rows) {
  // One that does not answer is told before anything lies there.
  MARU_RETURN_IF_ERROR(BenchClient(spec, spec.page_bytes).status());
  MARU_ASSIGN_OR_RETURN(const os::SignalFd signals, os::StopSignals());
  Status stopped;  // the first signal ends the run, a second one its deletions
  spec.go_on = [&signals, &stopped] {
    const auto signal = signals.TryTake();
    if (!signal) return OkStatus();
    return stopped = FailedPrecondition("ended by signal " + std::to_string(*signal));
  };
  note(std::to_string(keys) + " keys on " + spec.server);
  Status status = MeasureShared(spec, parts, keys, note, rows);
  // The workers may have had the same signal, and be told as an error of theirs.
  if (!status.ok() && stopped.ok()) static_cast<void>(spec.go_on());
  if (!stopped.ok()) status = stopped;
  const Status emptied = BenchEmpty(spec);
  if (status.ok() && emptied.ok()) return OkStatus();
  const std::string why = status.ok() ? "" : std::string(status.message()) + "; ";
  return Status(status.ok() ? emptied.code() : status.code(),
                emptied.ok() ? why + "its keys are deleted"
                             : why + "up to " + std::to_string(keys) + " keys of namespace " +
                                   spec.name_space + " stay on " + spec.server + ": " +
                                   std::string(emptied.message()));
}

BenchForm FormOf(const Arguments& arguments) {
  if (arguments.json()) return BenchForm::kJson;
  return arguments.Has("markdown") ? BenchForm::kMarkdown : BenchForm::kText;
}

Result<Exit> Bench(const Arguments& arguments) {
  MARU_ASSIGN_OR_RETURN(BenchSpec spec, SpecOf(arguments));
  MARU_ASSIGN_OR_RETURN(const Parts parts, PartsOf(arguments));
  const bool shared = arguments.Has("server");
  if (shared) {
    spec.server = ServerOf(arguments);
    spec.server_user = arguments.Get("server-user");
  } else {
    MARU_RETURN_IF_ERROR(LeaveOutTooMany(&spec));
  }
  const BenchNote note = [&arguments](const std::string& text) {
    if (!arguments.json()) Note(text);
  };
  spec.server_log = arguments.json() ? ServerLog::kHidden : ServerLog::kShown;
  std::vector<BenchRow> rows;
  for (const uint64_t keys : spec.keys) {
    MARU_RETURN_IF_ERROR(shared ? RunShared(spec, parts, keys, note, &rows)
                                : RunPrivate(spec, parts, keys, note, &rows));
  }
  PrintBench(spec, rows, FormOf(arguments));
  return Exit::kDone;
}

}  // namespace

extern const Command kBench = {
    "bench",
    "Measure every operation beside the machine's own limits",
    "On a private server with a pool in /dev/shm, both gone afterwards; with --server on a\n"
    "running one, in a namespace of its own, whose keys are deleted at the end, also when it is\n"
    "stopped. There it takes pages as any client does: in a full pool others' keys are evicted\n"
    "for them. Each row has medians over the repetitions, and beside them what the\n"
    "machine takes for the bare work in the same run: random reads of as many cache lines, a "
    "round\n"
    "trip of the same sizes over a bare socket on the same cores, memcpy. The column times is "
    "ours\n"
    "divided by that. Look-ups are told twice: in the catalogue in shared memory, which costs no\n"
    "message, and by message over the socket. Numbers of keys for which there is no memory are\n"
    "left out.\n"
    "Examples:\n"
    "  maru bench\n"
    "  maru bench --keys 1k,1M,10M --json >bench.json     needs 12 GiB of memory\n"
    "  maru bench --only socket --keys 1k --messages 5000",
    kOptions,
    {},
    &Bench};

}  // namespace maru::tools
