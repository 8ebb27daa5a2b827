// maru bench-worker: a process that does what its bench orders. Not for people.
//
// Orders, each a text; the answer is "ok NUMBER...", or "error TEXT":
//   lookup exists|retrieve hit|miss BATCH MS SEED  ->  calls, seconds, p50 ns, p99 ns
//   reads BATCH MS SEED                            ->  the same, of the bare memory reads
//   echo BYTES                                     ->  each message is answered with BYTES bytes,
//                                                      without an "ok"; one of a single byte ends
//                                                      it
#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/random.h"
#include "os/machine.h"
#include "os/mapping.h"
#include "tools/bench.h"
#include "tools/commands.h"
#include "tools/connect.h"

namespace maru::tools {

namespace {

constexpr int kOrdersFd = 3, kTableFd = 4;
constexpr size_t kMessageBytesMax = 1 << 20;
constexpr size_t kBatchMax = 4096;
constexpr size_t kBlock = 256;
constexpr uint64_t kLineBytes = 64;

constexpr OptionRow kOptions[] = {
    {"keys", "N", "0", "Keys in the pool; 0: no client is needed", Takes::kOne},
    {"namespace", "NAME", "", "Of the keys", Takes::kOne},
    {"core", "N", "", "Run there", Takes::kOne},
    {"table", nullptr, "", "A table for reads comes as descriptor 4", Takes::kNothing},
};

struct Case {
  uint64_t batch = 1;
  uint64_t time_ms = 0;
  uint64_t seed = 0;
};

// Calls `call` until the time is over; each is timed, of short ones every 16th, so that the clock
// does not slow the rest.
template <typename Call>
Result<std::string> Measure(const Case& c, const Call& call) {
  constexpr uint64_t kCheckEvery = 64;
  const uint64_t sample_mask = c.batch == 1 ? 15 : 0;
  Samples samples(1 << 16);
  const auto start = BenchClock::now();
  const auto end = start + std::chrono::milliseconds(c.time_ms);
  uint64_t calls = 0;
  auto now = start;
  do {
    for (uint64_t i = 0; i < kCheckEvery; ++i, ++calls) {
      if ((calls & sample_mask) != 0) {
        if (!call()) return Internal("an answer is wrong");
        continue;
      }
      const auto before = BenchClock::now();
      if (!call()) return Internal("an answer is wrong");
      samples.Add(BenchClock::now() - before);
    }
    now = BenchClock::now();
  } while (now < end);
  std::ostringstream out;
  out << "ok " << calls << ' ' << std::chrono::duration<double>(now - start).count() << ' '
      << samples.Percentile(50) << ' ' << samples.Percentile(99);
  return out.str();
}

class Worker {
 public:
  Worker(std::unique_ptr<Client> client, uint64_t keys, os::Mapping table)
      : client_(std::move(client)),
        keys_(keys),
        table_(std::move(table)),
        texts_(kBatchMax),
        views_(kBatchMax) {}

  // Until the bench closes its end.
  Status Run() {
    os::SeqpacketSocket socket{os::UniqueFd(kOrdersFd)};
    std::vector<std::byte> buffer(kMessageBytesMax);
    while (true) {
      const Result<size_t> size = socket.Receive(buffer);
      if (!size.ok()) return OkStatus();
      const std::string order(reinterpret_cast<const char*>(buffer.data()), *size);
      if (order.starts_with("echo ")) {
        MARU_RETURN_IF_ERROR(Echo(socket, std::strtoull(order.c_str() + 5, nullptr, 10), buffer));
        continue;
      }
      const Result<std::string> done = Do(order);
      const std::string answer =
          done.ok() ? *done : "error " + std::string(done.status().message());
      MARU_RETURN_IF_ERROR(socket.Send(std::as_bytes(std::span(answer))));
    }
  }

 private:
  static Status Echo(os::SeqpacketSocket& socket, uint64_t bytes, std::span<std::byte> buffer) {
    if (bytes == 0 || bytes > buffer.size()) return InvalidArgument("echo of no size");
    const std::vector<std::byte> answer(bytes);
    while (true) {
      MARU_ASSIGN_OR_RETURN(const size_t size, socket.Receive(buffer));
      if (size == 1) return OkStatus();
      MARU_RETURN_IF_ERROR(socket.Send(answer));
    }
  }

  Result<std::string> Do(const std::string& order) {
    std::istringstream words(order);
    std::string what, operation, outcome;
    Case c;
    words >> what;
    if (what == "lookup") words >> operation >> outcome;
    words >> c.batch >> c.time_ms >> c.seed;
    if (words.fail() || c.batch == 0 || c.batch > kBatchMax) return InvalidArgument(order);
    if (what == "reads" && table_.valid()) return Reads(c);
    if (what != "lookup" || keys_ == 0) return InvalidArgument(order);
    const bool hit = outcome == "hit";
    return operation == "exists" ? Exists(c, hit) : Retrieve(c);
  }

  // The next keys to ask for, at random. They are drawn by the block: a key that is written just
  // before it is looked up would hold its hash up until the store has left the processor.
  std::span<const std::string_view> Draw(Random& random, const Case& c, bool hit) {
    // Small enough for the first cache where the batch is.
    const size_t block = std::max<size_t>(kBlock, c.batch);
    if (drawn_ + c.batch > block) {
      for (size_t i = 0; i < block; ++i) {
        views_[i] = texts_[i].Of(random.Below(keys_) + (hit ? 0 : keys_));
      }
      drawn_ = 0;
    }
    drawn_ += c.batch;
    return std::span(views_).subspan(drawn_ - c.batch, c.batch);
  }

  Result<std::string> Exists(const Case& c, bool hit) {
    Random random(c.seed);
    drawn_ = kBatchMax;
    return Measure(c, [&] {
      const auto keys = Draw(random, c, hit);
      if (c.batch == 1) {
        const Result<bool> there = client_->Exists(keys[0]);
        return there.ok() && *there == hit;
      }
      const auto there = client_->BatchExists(keys);
      return there.ok() && (*there)[0] == hit && (*there)[keys.size() - 1] == hit;
    });
  }

  // With the release of what was got.
  Result<std::string> Retrieve(const Case& c) {
    Random random(c.seed);
    drawn_ = kBatchMax;
    return Measure(c, [&] {
      const auto keys = Draw(random, c, true);
      if (c.batch == 1) {
        const Result<View> view = client_->Retrieve(keys[0]);
        return view.ok() && bool{*view};
      }
      const auto views = client_->BatchRetrieve(keys);
      return views.ok() && bool{(*views)[0]} && bool{(*views)[keys.size() - 1]};
    });
  }

  // What a look-up reads at least: the lines of an index entry, of a record and two of text. For
  // one key each at an address that the one before tells; for a batch all at once.
  Result<std::string> Reads(const Case& c) {
    Random random(c.seed);
    const auto* const words = reinterpret_cast<const uint64_t*>(table_.data());
    constexpr uint64_t kLineWords = kLineBytes / sizeof(uint64_t);
    const uint64_t lines = table_.size() / kLineBytes - 1;
    // The line that random bits name.
    const auto line = [&](uint64_t bits) {
      return words + ((bits >> 32) * lines >> 32) * kLineWords;
    };
    uint64_t sum = 0;
    auto result = Measure(c, [&] {
      if (c.batch == 1) {
        const uint64_t* at = line(random());
        at = line(*at);
        at = line(*at);
        sum += *at + at[kLineWords];
        return true;
      }
      for (uint64_t i = 0; i < c.batch; ++i) {
        const uint64_t bits = random();
        const uint64_t* const text = line(bits << 24);
        sum += *line(bits) + *line(bits << 12) + *text + text[kLineWords];
      }
      return true;
    });
    if (sum == 0) return Internal("the table is empty");
    return result;
  }

  const std::unique_ptr<Client> client_;
  const uint64_t keys_;
  const os::Mapping table_;
  std::vector<BenchKey> texts_;
  std::vector<std::string_view> views_;
  size_t drawn_ = kBatchMax;  // of the block, used by now
};

Result<Exit> Work(const Arguments& arguments) {
  if (arguments.Has("core")) {
    MARU_ASSIGN_OR_RETURN(const uint64_t core, arguments.Number("core", 0, os::kCpusMax - 1));
    const int cores[] = {static_cast<int>(core)};
    MARU_RETURN_IF_ERROR(os::RunOnCpus(cores));
  }
  os::Mapping table;
  if (arguments.Has("table")) {
    const os::File file(os::UniqueFd(kTableFd), "table");
    MARU_ASSIGN_OR_RETURN(table, os::Mapping::MapWhole(file, {.pages = os::PageHint::kHuge}));
    table.FaultIn(0, table.size());
  }
  MARU_ASSIGN_OR_RETURN(const uint64_t keys, arguments.Number("keys", 0, UINT64_MAX));
  std::unique_ptr<Client> client;
  if (keys > 0) {
    ClientOptions options;
    options.label = "bench reader";
    options.name_space = arguments.Get("namespace");
    MARU_ASSIGN_OR_RETURN(client, ConnectTo(arguments, options));
  }
  MARU_RETURN_IF_ERROR(Worker(std::move(client), keys, std::move(table)).Run());
  return Exit::kDone;
}

}  // namespace

extern const Command kBenchWorker = {"bench-worker", "", "", kOptions, {}, &Work};

// --- The bench's side.

Result<std::unique_ptr<BenchWorker>> BenchWorker::Start(const BenchSpec& spec, uint64_t keys,
                                                        int core, const os::File* table) {
  MARU_ASSIGN_OR_RETURN(auto ends, os::SeqpacketSocket::Pair());
  MARU_RETURN_IF_ERROR(ends.first.SetBufferBytes(kMessageBytesMax));
  MARU_RETURN_IF_ERROR(ends.second.SetBufferBytes(kMessageBytesMax));
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

Status BenchWorker::Order(const std::string& order) {
  return socket_.Send(std::as_bytes(std::span(order)));
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

}  // namespace maru::tools
