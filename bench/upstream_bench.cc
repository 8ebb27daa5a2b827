// What a client of upstream's metadata protocol gets from the server, beside a bare ZeroMQ round
// trip of the same sizes in the same run: a DEALER here, a ROUTER that answers at once there, each
// in a process of its own, pinned as the server is.
//
//   upstream_bench --server=PROGRAM [--keys=N] [--messages=N] [--repetitions=N]
//
// Ours and the bare one take turns. Processor time is that of all threads of the server. Every
// reply must say yes, to each key; that is read while no time is taken.
#include <signal.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "os/file.h"
#include "os/line_reader.h"
#include "os/machine.h"
#include "os/process.h"
#include "wire/compat/metadata.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/msgpack_reader.h"
#include "wire/compat/msgpack_writer.h"

namespace {

using namespace maru;  // NOLINT
using wire::compat::MetadataType;
using wire::compat::MsgpackItem;
using wire::compat::MsgpackKind;
using wire::compat::MsgpackWriter;
using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

constexpr size_t kBatch = 64;
constexpr size_t kInFlight = 64;
constexpr uint64_t kValueBytes = 64;
constexpr size_t kProcTextMax = 4096;
constexpr size_t kThreadsMax = 256;

struct Settings {
  std::string server;
  uint64_t keys = 100'000;
  uint64_t messages = 2'000;
  uint64_t repetitions = 5;

  // Of one pipelined repetition, with so many keys in each.
  uint64_t MessagesOf(uint64_t batch) const {
    return std::max<uint64_t>(kInFlight, messages / batch * 4);
  }
  // With those that are registered while that is measured.
  uint64_t AllKeys() const { return keys + repetitions * MessagesOf(kBatch) * kBatch; }
};

// --- Messages.

std::string KeyOf(uint64_t i) {
  std::array<char, 101> text{};
  std::snprintf(text.data(), text.size(), "%080d%020llu", 0, static_cast<unsigned long long>(i));
  return text.data();
}

Bytes Message(MetadataType type, const std::function<void(MsgpackWriter&)>& fill) {
  Bytes message(wire::compat::kMetadataHeaderBytes);
  MsgpackWriter writer(&message);
  fill(writer);
  const auto put = [&](size_t at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      message[at + i] = static_cast<std::byte>(value >> (8 * (bytes - 1 - i)));
    }
  };
  put(0, wire::compat::kMetadataMagic, 2);
  put(2, wire::compat::kMetadataVersion, 1);
  put(3, static_cast<uint8_t>(type), 1);
  put(8, 1, 4);
  put(12, message.size() - wire::compat::kMetadataHeaderBytes, 4);
  return message;
}

Bytes OneKey(MetadataType type, uint64_t key) {
  return Message(type, [&](MsgpackWriter& out) {
    out.Map(1);
    out.Text("key");
    out.Text(KeyOf(key));
  });
}

Bytes Keys(MetadataType type, uint64_t first) {
  return Message(type, [&](MsgpackWriter& out) {
    out.Map(1);
    out.Text("keys");
    out.Array(kBatch);
    for (uint64_t i = 0; i < kBatch; ++i) out.Text(KeyOf(first + i));
  });
}

void PutEntry(MsgpackWriter& out, uint64_t key, uint64_t region) {
  out.Map(4);
  out.Text("key");
  out.Text(KeyOf(key));
  out.Text("region_id");
  out.Number(region);
  out.Text("kv_offset");
  out.Number(key * kValueBytes);
  out.Text("kv_length");
  out.Number(kValueBytes);
}

Bytes Register(uint64_t key, uint64_t region) {
  return Message(MetadataType::kRegister, [&](MsgpackWriter& out) { PutEntry(out, key, region); });
}

Bytes Registers(uint64_t first, uint64_t region) {
  return Message(MetadataType::kBatchRegister, [&](MsgpackWriter& out) {
    out.Map(1);
    out.Text("entries");
    out.Array(kBatch);
    for (uint64_t i = 0; i < kBatch; ++i) PutEntry(out, first + i, region);
  });
}

// It answers REQUEST, with nothing that is false or an error, and with a yes for each of `keys`.
void CheckReply(std::span<const std::byte> reply, const Bytes& request, uint64_t keys) {
  wire::compat::MetadataHeader asked, answered;
  MARU_CHECK_OK(wire::compat::DecodeMetadataHeader(request, &asked));
  MARU_CHECK_OK(wire::compat::DecodeMetadataHeader(reply, &answered));
  MARU_CHECK_EQ(answered.type, asked.type | wire::compat::kMetadataReplyBit);
  MARU_CHECK_EQ(answered.sequence, asked.sequence);
  wire::compat::MsgpackReader items(reply.subspan(wire::compat::kMetadataHeaderBytes));
  uint64_t yes = 0;
  while (items.bytes_left() > 0) {
    MsgpackItem item;
    MARU_CHECK(items.Next(&item)) << items.error();
    const bool is_no = item.kind == MsgpackKind::kBool && item.number == 0;
    const bool is_error = item.kind == MsgpackKind::kText && item.text == "error";
    MARU_CHECK(!is_no && !is_error) << "the answer to type " << int{asked.type} << " is no";
    if (item.kind == MsgpackKind::kBool) ++yes;
  }
  MARU_CHECK(yes >= keys) << yes << " of " << keys << " keys";
}

// --- Sockets.

class Dealer {
 public:
  explicit Dealer(const std::string& address) : context_(zmq_ctx_new()) {
    socket_ = zmq_socket(context_, ZMQ_DEALER);
    const int none = 0;
    MARU_CHECK_EQ(zmq_setsockopt(socket_, ZMQ_LINGER, &none, sizeof(none)), 0);
    MARU_CHECK_EQ(zmq_connect(socket_, address.c_str()), 0) << address;
  }
  Dealer(const Dealer&) = delete;
  Dealer& operator=(const Dealer&) = delete;
  ~Dealer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  void Send(const Bytes& message) {
    MARU_CHECK_EQ(zmq_send(socket_, "", 0, ZMQ_SNDMORE), 0);
    MARU_CHECK_EQ(zmq_send(socket_, message.data(), message.size(), 0),
                  static_cast<int>(message.size()));
  }
  // The reply, until the next one.
  std::span<const std::byte> Receive() {
    zmq_msg_t delimiter;
    zmq_msg_init(&delimiter);
    MARU_CHECK_EQ(zmq_msg_recv(&delimiter, socket_, 0), 0);
    zmq_msg_close(&delimiter);
    const int size = zmq_recv(socket_, reply_.data(), reply_.size(), 0);
    MARU_CHECK(size >= 0 && static_cast<size_t>(size) <= reply_.size());
    return std::span(reply_).first(static_cast<size_t>(size));
  }
  std::span<const std::byte> Ask(const Bytes& message) {
    Send(message);
    return Receive();
  }

 private:
  void* context_;
  void* socket_;
  Bytes reply_ = Bytes(1 << 20);
};

// The other end of the bare round trip: the last four bytes of a request say how long its answer
// is.
int Echo() {
  void* const context = zmq_ctx_new();
  void* const router = zmq_socket(context, ZMQ_ROUTER);
  MARU_CHECK_EQ(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
  std::array<char, 128> name{};
  size_t size = name.size();
  MARU_CHECK_EQ(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, name.data(), &size), 0);
  std::printf("listening on %s\n", name.data());
  std::fflush(stdout);
  const Bytes answer(1 << 20);
  while (true) {
    zmq_msg_t identity, delimiter, message;
    for (zmq_msg_t* const part : {&identity, &delimiter, &message}) {
      zmq_msg_init(part);
      MARU_CHECK(zmq_msg_recv(part, router, 0) >= 0);
    }
    uint32_t wanted = 0;
    const size_t bytes = zmq_msg_size(&message);
    MARU_CHECK(bytes >= sizeof(wanted));
    std::memcpy(&wanted, static_cast<const char*>(zmq_msg_data(&message)) + bytes - sizeof(wanted),
                sizeof(wanted));
    zmq_msg_close(&message);
    MARU_CHECK(wanted <= answer.size());
    zmq_msg_send(&identity, router, ZMQ_SNDMORE);
    zmq_msg_send(&delimiter, router, ZMQ_SNDMORE);
    zmq_send(router, answer.data(), wanted, 0);
  }
}

// --- Processes.

class Peer {
 public:
  // What it prints before the address that it listens at.
  Peer(const std::vector<std::string>& words, std::string_view before) {
    os::ChildOptions options;
    options.life = os::ChildLife::kWithParent;
    options.output = os::ChildStream::kPipe;
    auto child = os::Child::Start(words, options);
    MARU_CHECK(child.ok()) << child.status().ToString();
    child_ = std::make_unique<os::Child>(std::move(*child));
    os::LineReader lines(child_->output_fd());
    bool listening = false;
    while (!listening) {
      const auto read = lines.Next();
      MARU_CHECK(read.ok()) << read.status().ToString();
      const std::optional<std::string>& line = *read;
      if (!line.has_value()) break;
      if (line->starts_with(before)) address_ = line->substr(before.size());
      listening = line->starts_with("listening on ");
    }
    MARU_CHECK(listening) << words.front() << " did not start";
  }
  ~Peer() {
    child_->Signal(SIGTERM).ok();
    child_->Wait().ok();
  }
  const std::string& address() const { return address_; }
  // Of all its threads.
  double ProcessorSeconds() const {
    const std::string tasks = "/proc/" + std::to_string(child_->pid()) + "/task";
    double nanoseconds = 0;
    const auto threads = os::ListDirectory(tasks, kThreadsMax);
    MARU_CHECK(threads.ok());
    for (const std::string& thread : *threads) {
      const auto text = os::ReadTextFile(tasks + "/" + thread + "/schedstat", kProcTextMax);
      if (text.ok()) nanoseconds += std::strtod(text->c_str(), nullptr);
    }
    return nanoseconds / 1e9;
  }

 private:
  std::unique_ptr<os::Child> child_;
  std::string address_;
};

// --- What is measured.

double Percentile(std::vector<double> values, size_t percent) {
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, values.size() * percent / 100)];
}

// What is wanted of a reply to that message.
using Check = std::function<void(std::span<const std::byte> reply, const Bytes& message)>;

// Messages from number FIRST on.
std::vector<double> Times(Dealer& dealer, const std::function<Bytes(uint64_t)>& make,
                          const Check& check, uint64_t first, uint64_t messages) {
  std::vector<double> times;
  times.reserve(messages);
  for (uint64_t i = 0; i < messages; ++i) {
    const Bytes message = make(first + i);
    const auto before = Clock::now();
    const std::span<const std::byte> reply = dealer.Ask(message);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
    check(reply, message);
  }
  return times;
}

class Run {
 public:
  Run(const Settings& settings, const char* placement, const Peer* server, const Peer* echo)
      : settings_(settings),
        placement_(placement),
        server_(server),
        ours_(server->address()),
        bare_(echo->address()) {}

  // A region for all keys, and the keys.
  void Fill() {
    const Bytes wanted = Message(MetadataType::kRequestAlloc, [&](MsgpackWriter& out) {
      out.Map(2);
      out.Text("instance_id");
      out.Text("bench");
      out.Text("size");
      out.Number(settings_.AllKeys() * kValueBytes);
    });
    const std::span<const std::byte> reply = ours_.Ask(wanted);
    CheckReply(reply, wanted, 0);
    const std::string_view name = "region_id\xce";
    const size_t at = AsText(reply).find(name);
    MARU_CHECK(at != std::string_view::npos) << "no region";
    for (size_t i = 0; i < 4; ++i) {
      region_ = region_ << 8 | std::to_integer<uint64_t>(reply[at + name.size() + i]);
    }
    for (uint64_t i = 0; i < settings_.keys; i += kBatch) {
      const Bytes keys = Registers(i, region_);
      CheckReply(ours_.Ask(keys), keys, kBatch);
    }
  }

  // One message of `keys` keys at a time, beside the bare round trip. Ours gets each number once.
  void Single(const char* name, uint64_t keys, const std::function<Bytes(uint64_t)>& make) {
    const uint64_t messages = settings_.messages;
    const auto reply_bytes = static_cast<uint32_t>(ours_.Ask(make(0)).size());
    const auto as_bare = [&](uint64_t i) {
      Bytes message = make(i);
      std::memcpy(message.data() + message.size() - sizeof(reply_bytes), &reply_bytes,
                  sizeof(reply_bytes));
      return message;
    };
    const Check says_yes = [keys](auto reply, const Bytes& message) {
      CheckReply(reply, message, keys);
    };
    const Check as_long = [reply_bytes](auto reply, const Bytes&) {
      MARU_CHECK_EQ(reply.size(), reply_bytes);
    };
    std::vector<double> p50, limit, times;
    for (uint64_t i = 0; i < settings_.repetitions; ++i) {
      const uint64_t first = 1 + i * messages;
      p50.push_back(Percentile(Times(ours_, make, says_yes, first, messages), 50));
      limit.push_back(Percentile(Times(bare_, as_bare, as_long, first, messages), 50));
      times.push_back(p50.back() / limit.back());
    }
    std::printf("%-9s %-28s %8.1f us %8.1f us bare %6.2f times\n", placement_, name,
                Percentile(p50, 50), Percentile(limit, 50), Percentile(times, 50));
  }

  // As many in flight as upstream's client has, of `keys` keys each.
  void Pipelined(const char* name, uint64_t keys, const std::function<Bytes(uint64_t)>& make) {
    const uint64_t messages = settings_.MessagesOf(keys);
    const Bytes request = make(0);
    std::vector<Bytes> replies(messages);
    std::vector<double> rate, processor;
    for (uint64_t round = 0; round < settings_.repetitions; ++round) {
      const double used = server_->ProcessorSeconds();
      const auto before = Clock::now();
      uint64_t answered = 0;
      const auto receive = [&] {
        const std::span<const std::byte> reply = ours_.Receive();
        replies[answered++].assign(reply.begin(), reply.end());
      };
      for (uint64_t i = 0; i < messages; ++i) {
        if (i - answered >= kInFlight) receive();
        ours_.Send(make(round * messages + i));
      }
      while (answered < messages) receive();
      const std::chrono::duration<double> wall = Clock::now() - before;
      const auto total = static_cast<double>(messages * keys);
      rate.push_back(total / wall.count());
      processor.push_back((server_->ProcessorSeconds() - used) / total * 1e6);
      for (const Bytes& reply : replies) CheckReply(reply, request, keys);
    }
    std::printf("%-9s %-28s %10.0f keys/s %8.2f us of the server a key\n", placement_, name,
                Percentile(rate, 50), Percentile(processor, 50));
  }

  void All() {
    const uint64_t keys = settings_.keys;
    const auto one = [keys](MetadataType type) {
      return [=](uint64_t i) { return OneKey(type, i % keys); };
    };
    const auto batch = [keys](MetadataType type) {
      return [=](uint64_t i) { return Keys(type, i * kBatch % keys / kBatch * kBatch); };
    };
    Single("exists", 1, one(MetadataType::kExists));
    Single("lookup", 1, one(MetadataType::kLookup));
    // New keys behind those that are there; each goes again.
    Single("register", 1, [this, keys](uint64_t i) { return Register(keys + i, region_); });
    Single("delete", 1, [keys](uint64_t i) { return OneKey(MetadataType::kDelete, keys + i); });
    Single("pin", 1, one(MetadataType::kPin));
    Single("unpin", 1, one(MetadataType::kUnpin));
    Single("heartbeat", 0, [](uint64_t) {
      return Message(MetadataType::kHeartbeat, [](MsgpackWriter& out) { out.Map(0); });
    });
    Single("batch_lookup of 64", kBatch, batch(MetadataType::kBatchLookup));
    Single("get_stats", 0, [](uint64_t) {
      return Message(MetadataType::kGetStats, [](MsgpackWriter& out) { out.Map(0); });
    });
    Pipelined("exists, 64 in flight", 1, one(MetadataType::kExists));
    Pipelined("lookup, 64 in flight", 1, one(MetadataType::kLookup));
    Pipelined("batch_exists of 64", kBatch, batch(MetadataType::kBatchExists));
    Pipelined("batch_lookup of 64", kBatch, batch(MetadataType::kBatchLookup));
    // New keys behind those that are there.
    Pipelined("batch_register of 64", kBatch,
              [this, keys](uint64_t i) { return Registers(keys + i * kBatch, region_); });
  }

 private:
  const Settings settings_;
  const char* const placement_;
  const Peer* const server_;
  Dealer ours_, bare_;
  uint64_t region_ = 0;
};

void Measure(const Settings& settings, const char* placement, std::span<const int> client,
             std::span<const int> server) {
  const std::string self = os::ProgramPath().value();
  const std::string pool = "/dev/shm/maru-upstream-bench-" + std::to_string(os::ProcessId());
  const uint64_t bytes =
      AlignUp((uint64_t{256} << 20) + settings.AllKeys() * (kValueBytes + 800), uint64_t{2} << 20);
  // Threads and children are where the thread is that starts them.
  MARU_CHECK(os::RunOnCpus(server).ok());
  {
    const Peer ours(
        {settings.server, "serve", "--pool", "file:" + pool + ",size=" + std::to_string(bytes),
         "--fresh", "--socket", "@" + pool, "--listen", "tcp://127.0.0.1:0", "--rm-listen", "none",
         "--log-level", "warning"},
        "upstream's metadata protocol at ");
    const Peer echo({self, "--echo"}, "listening on ");
    os::RemoveFile(pool).ok();
    os::RemoveFile(pool + ".key").ok();
    MARU_CHECK(os::RunOnCpus(client).ok());
    Run run(settings, placement, &ours, &echo);
    run.Fill();
    run.All();
  }
}

// Whether it is an argument of the settings.
bool Take(std::string_view word, Settings* settings) {
  constexpr std::string_view kServer = "--server=";
  if (word.starts_with(kServer)) {
    settings->server = word.substr(kServer.size());
    return !settings->server.empty();
  }
  const std::pair<std::string_view, uint64_t*> numbers[] = {
      {"--keys=", &settings->keys},
      {"--messages=", &settings->messages},
      {"--repetitions=", &settings->repetitions}};
  for (const auto& [name, number] : numbers) {
    if (!word.starts_with(name)) continue;
    const auto [end, error] =
        std::from_chars(word.data() + name.size(), word.data() + word.size(), *number);
    return error == std::errc() && end == word.data() + word.size() && *number > 0;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words == std::vector<std::string_view>{"--echo"}) return Echo();
  Settings settings;
  for (const std::string_view word : words) {
    if (Take(word, &settings)) continue;
    std::fprintf(stderr, "wrong argument \"%.*s\"\n", static_cast<int>(word.size()), word.data());
    settings.server.clear();
    break;
  }
  if (settings.server.empty()) {
    std::fprintf(stderr,
                 "usage: upstream_bench --server=PROGRAM [--keys=N] [--messages=N] "
                 "[--repetitions=N]\n");
    return 2;
  }
  settings.keys = (settings.keys + kBatch - 1) / kBatch * kBatch;
  const std::vector<int> cores = os::AllowedCpus().value();
  const std::span<const int> all(cores);
  Measure(settings, "anywhere", all, all);
  Measure(settings, "one core", all.first(1), all.first(1));
  if (cores.size() > 1) Measure(settings, "two cores", all.first(1), all.last(1));
  return 0;
}
