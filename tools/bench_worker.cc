// maru bench-worker: a process that does what its bench orders. Not for people.
//
// Orders, each a text; the answer is "ok NUMBER...", or "error TEXT":
//   lookup exists|retrieve hit|miss BATCH MS SEED  ->  calls, seconds, p50 ns, p99 ns
//   reads BATCH MS SEED                            ->  the same, of the bare memory reads
//   find hit|miss BATCH MS SEED                    ->  the same, of look-ups by message
//   peer, with a descriptor                        ->  "ok"; the end of a socket to another worker
//   trips REQUEST REPLY MS SEED                    ->  as above, of bare round trips with the peer
//   serve REPLY PEERS                              ->  answers the first PEERS peers with so many
//                                                      bytes until each has ended its trips; "ok"
//   echo BYTES                                     ->  each message is answered with BYTES bytes,
//                                                      without an "ok"; one of a single byte ends
//                                                      it
#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "base/random.h"
#include "os/event.h"
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

// A look-up in shared memory is so short that reading the clock around each would slow it.
enum class Clocked : uint8_t { kEvery16th, kEach };

struct Case {
  uint64_t batch = 1;
  uint64_t time_ms = 0;
  uint64_t seed = 0;
};

Status Right(bool right) { return right ? OkStatus() : Internal("an answer is wrong"); }

// Calls `call` until the time is over.
template <typename Call>
Result<std::string> Measure(const Case& c, Clocked clocked, const Call& call) {
  const uint64_t sample_mask = clocked == Clocked::kEvery16th ? 15 : 0;
  const uint64_t check_every = clocked == Clocked::kEvery16th ? 64 : 16;
  Samples samples(1 << 16);
  const auto start = BenchClock::now();
  const auto end = start + std::chrono::milliseconds(c.time_ms);
  uint64_t calls = 0;
  auto now = start;
  do {
    for (uint64_t i = 0; i < check_every; ++i, ++calls) {
      if ((calls & sample_mask) != 0) {
        MARU_RETURN_IF_ERROR(call());
        continue;
      }
      const auto before = BenchClock::now();
      MARU_RETURN_IF_ERROR(call());
      samples.Add(BenchClock::now() - before);
    }
    now = BenchClock::now();
  } while (now < end);
  std::ostringstream out;
  out << "ok " << calls << ' ' << std::chrono::duration<double>(now - start).count() << ' '
      << samples.Percentile(50) << ' ' << samples.Percentile(99);
  return out.str();
}

Clocked ClockedOf(const Case& c) { return c.batch == 1 ? Clocked::kEvery16th : Clocked::kEach; }

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
      std::vector<os::UniqueFd> descriptors;
      const Result<size_t> size = socket.Receive(buffer, &descriptors);
      if (!size.ok()) return OkStatus();
      const std::string order(reinterpret_cast<const char*>(buffer.data()), *size);
      if (order.starts_with("echo ")) {
        MARU_RETURN_IF_ERROR(Echo(socket, std::strtoull(order.c_str() + 5, nullptr, 10), buffer));
        continue;
      }
      for (os::UniqueFd& fd : descriptors) peers_.emplace_back(std::move(fd));
      const Result<std::string> done = Do(order, buffer);
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

  Result<std::string> Do(const std::string& order, std::span<std::byte> buffer) {
    std::istringstream words(order);
    std::string what, operation, outcome;
    Case c;
    words >> what;
    if (what == "peer") return "ok";
    if (what == "serve" || what == "trips") {
      uint64_t first = 0, second = 0;
      words >> first >> second;
      if (words.fail() || peers_.empty()) return InvalidArgument(order);
      if (what == "serve") return Serve(first, second, buffer);
      words >> c.time_ms >> c.seed;
      return Trips(c, first, second);
    }
    if (what == "lookup") words >> operation;
    if (what == "lookup" || what == "find") words >> outcome;
    words >> c.batch >> c.time_ms >> c.seed;
    if (words.fail() || c.batch == 0 || c.batch > kBatchMax) return InvalidArgument(order);
    if (what == "reads" && table_.valid()) return Reads(c);
    if (what == "reads" || keys_ == 0) return InvalidArgument(order);
    const bool hit = outcome == "hit";
    if (what == "find") return Find(c, hit);
    return operation == "exists" ? Exists(c, hit) : Retrieve(c);
  }

  // As a server that has nothing to do but to answer: for one peer it waits in its receive, for
  // several in a poll.
  Result<std::string> Serve(uint64_t bytes, uint64_t peers, std::span<std::byte> buffer) {
    if (bytes == 0 || bytes > buffer.size() || peers == 0 || peers > peers_.size()) {
      return InvalidArgument("peers to serve");
    }
    if (peers == 1) {
      MARU_RETURN_IF_ERROR(Echo(peers_[0], bytes, buffer));
      return "ok";
    }
    MARU_ASSIGN_OR_RETURN(os::Poller poller, os::Poller::Create());
    for (uint64_t i = 0; i < peers; ++i) {
      MARU_RETURN_IF_ERROR(poller.Add(peers_[i].fd(), os::Interest::kRead, i));
    }
    const std::vector<std::byte> answer(bytes);
    std::array<os::ReadyEvent, os::kReadyEventsMax> events;
    for (uint64_t ended = 0; ended < peers;) {
      MARU_ASSIGN_OR_RETURN(const size_t ready, poller.Wait(events, -1));
      for (size_t i = 0; i < ready; ++i) {
        os::SeqpacketSocket& peer = peers_[events[i].token];
        MARU_ASSIGN_OR_RETURN(const size_t size, peer.Receive(buffer));
        if (size == 1) {
          ++ended;
        } else {
          MARU_RETURN_IF_ERROR(peer.Send(answer));
        }
      }
    }
    return "ok";
  }

  Result<std::string> Trips(const Case& c, uint64_t request_bytes, uint64_t reply_bytes) {
    if (request_bytes < 2 || std::max(request_bytes, reply_bytes) > kMessageBytesMax) {
      return InvalidArgument("round trips of no size");
    }
    const std::vector<std::byte> request(request_bytes);
    std::vector<std::byte> reply(reply_bytes);
    os::SeqpacketSocket& peer = peers_[0];
    auto result = Measure(c, Clocked::kEach, [&] {
      const Status sent = peer.Send(request);
      return sent.ok() ? peer.Receive(reply).status() : sent;
    });
    MARU_RETURN_IF_ERROR(peer.Send(std::span(request).first(1)));
    return result;
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
    return Measure(c, ClockedOf(c), [&]() -> Status {
      const auto keys = Draw(random, c, hit);
      if (c.batch == 1) {
        MARU_ASSIGN_OR_RETURN(const bool there, client_->Exists(keys[0]));
        return Right(there == hit);
      }
      MARU_ASSIGN_OR_RETURN(const auto there, client_->BatchExists(keys));
      return Right(there[0] == hit && there[keys.size() - 1] == hit);
    });
  }

  // The same by message.
  Result<std::string> Find(const Case& c, bool hit) {
    Random random(c.seed);
    drawn_ = kBatchMax;
    wire::FindRequest request;
    return Measure(c, Clocked::kEach, [&]() -> Status {
      const auto keys = Draw(random, c, hit);
      request.keys.assign(keys.begin(), keys.end());
      MARU_ASSIGN_OR_RETURN(const auto reply, Ask<wire::FindReply>(*client_, request));
      return Right(reply.items.size() == c.batch && reply.items[0].found == hit &&
                   reply.items[c.batch - 1].found == hit);
    });
  }

  // With the release of what was got.
  Result<std::string> Retrieve(const Case& c) {
    Random random(c.seed);
    drawn_ = kBatchMax;
    return Measure(c, ClockedOf(c), [&]() -> Status {
      const auto keys = Draw(random, c, true);
      if (c.batch == 1) {
        MARU_ASSIGN_OR_RETURN(const View view, client_->Retrieve(keys[0]));
        return Right(bool{view});
      }
      MARU_ASSIGN_OR_RETURN(const auto views, client_->BatchRetrieve(keys));
      return Right(bool{views[0]} && bool{views[keys.size() - 1]});
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
    auto result = Measure(c, ClockedOf(c), [&]() -> Status {
      if (c.batch == 1) {
        const uint64_t* at = line(random());
        at = line(*at);
        at = line(*at);
        sum += *at + at[kLineWords];
        return OkStatus();
      }
      for (uint64_t i = 0; i < c.batch; ++i) {
        const uint64_t bits = random();
        const uint64_t* const text = line(bits << 24);
        sum += *line(bits) + *line(bits << 12) + *text + text[kLineWords];
      }
      return OkStatus();
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
  std::vector<os::SeqpacketSocket> peers_;
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

}  // namespace maru::tools
