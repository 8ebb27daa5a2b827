// How long the server is away for one step: the longest of each kind, over a pool in plain memory
// with --keys=N keys (1,000,000) on pages of 512 bytes. What is walked in parts shows both the
// longest part and the sum of them; clients wait for the former. Times are of the processor, so
// that what else runs on the machine lengthens no step. Regions are cut from a file in /dev/shm of
// its own, since their memory is what takes the time: --region-mib=N (1,024) of it, given back at
// the end.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "engine/engine.h"
#include "engine/metadata_context.h"
#include "layout/frame.h"
#include "os/temp_folder.h"
#include "pool/memory_backing.h"
#include "pool/new_pool.h"
#include "pool/pool.h"
#include "pool/pool_file.h"

namespace {

using namespace maru;  // NOLINT

constexpr uint64_t kPageBytes = 512;
constexpr uint32_t kBatch = 64;
constexpr uint64_t kPoolBytesPerKey = 1200;

double ProcessorSeconds() {
  timespec time{};
  MARU_CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// What steps of one kind took, in seconds.
struct Steps {
  double longest = 0, all = 0;

  void Add(double took) {
    longest = std::max(longest, took);
    all += took;
  }
};

class Locks final : public engine::Liveness {
 public:
  Status Take(ClientSlot) override { return OkStatus(); }
  bool Held(ClientSlot slot, PoolIndex) const override { return slot != dead; }
  ClientSlot dead{0xFFFF};
};

class Bench {
 public:
  explicit Bench(uint64_t keys)
      : keys_(keys),
        memory_(pool::MakeMemoryPool(
            AlignUp(kPoolBytesPerKey * keys + 64 * layout::kUnitBytes, layout::kUnitBytes))) {
    auto opened = pool::Pool::Open(std::make_unique<pool::MemoryBacking>(memory_),
                                   {.boot_id = {1, 2}, .epoch = 1});
    MARU_CHECK_OK(opened.status());
    pool_ = std::move(*opened);
    auto created =
        engine::Engine::Create({.server_version = "bench"}, {pool_.get()}, &locks_, 1, 0, 0);
    MARU_CHECK_OK(created.status());
    engine_ = std::move(*created);
    for (engine::ConnectionId connection = 1; connection <= kClients; ++connection) {
      wire::AttachRequest attach;
      attach.protocol_version = layout::kProtocolVersion;
      attach.layout_version = layout::kLayoutVersion;
      attach.label = "bench";
      attach.name_space = connection == 1 ? "first" : "rest";
      Ask(connection, attach);
    }
  }

  static void Show(const char* what, const Steps& steps) {
    std::printf("%-48s %12.3f ms longest %12.1f ms in all\n", what, steps.longest * 1e3,
                steps.all * 1e3);
    std::fflush(stdout);
  }

  double Ask(engine::ConnectionId connection, const wire::Request& request) {
    reply_ = {};
    return Time([&] { MARU_CHECK_OK(engine_->Handle(connection, {}, request, now_ns_, &reply_)); });
  }
  template <typename Work>
  double Time(const Work& work) {
    const double begin = ProcessorSeconds();
    work();
    return ProcessorSeconds() - begin;
  }
  template <typename Reply>
  Reply& reply() {
    return std::get<Reply>(reply_);
  }

  // Keys of each client in turn, so that every list is long.
  void Fill() {
    Steps steps;
    for (uint64_t key = 0; key < keys_; key += kBatch) {
      const engine::ConnectionId connection = 1 + key / kBatch % kClients;
      steps.Add(Ask(connection, wire::GrantRequest{kPageBytes, kBatch}));
      wire::RegisterRequest request;
      std::vector<std::string> texts;
      for (uint64_t i = 0; i < kBatch; ++i) {
        texts.push_back("model/layer/chunk/" + std::to_string(key + i) + std::string(70, 'k'));
      }
      const auto pages = reply<wire::GrantReply>().pages;
      for (uint64_t i = 0; i < pages.size(); ++i)
        request.entries.push_back({pages[i], 100, 0, texts[i]});
      steps.Add(Ask(connection, request));
    }
    Show("grant and register of 64", steps);
  }

  void Audit() {
    wire::AuditRequest request;
    Steps steps;
    do {
      steps.Add(Ask(1, request));
      request.audit = reply<wire::AuditReply>().audit;
    } while (request.audit != 0);
    MARU_CHECK(reply<wire::AuditReply>().clean) << reply<wire::AuditReply>().json;
    Show("audit", steps);
    const double whole = Time([&] { MARU_CHECK(engine_->Audit().empty()); });
    Show("audit at once (tests alone)", {whole, whole});
  }

  void Views() {
    for (const auto& [name, topic] :
         {std::pair{"stat", wire::InspectTopic::kSummary},
          std::pair{"stat --clients", wire::InspectTopic::kClients},
          std::pair{"stat --regions", wire::InspectTopic::kRegions},
          std::pair{"stat --condemned", wire::InspectTopic::kCondemned}}) {
      wire::InspectRequest request{topic, 0};
      Steps steps;
      do {
        steps.Add(Ask(1, request));
        request.cursor = reply<wire::InspectReply>().next_cursor;
      } while (request.cursor != 0);
      Show(name, steps);
    }
    wire::ListRequest request{"none has this prefix", 0, 0};
    Steps steps;
    do {
      steps.Add(Ask(1, request));
      request.cursor = reply<wire::ListReply>().next_cursor;
    } while (request.cursor != 0);
    Show("ls", steps);
  }

  void Upstream() {
    const double stats = Time([&] {
      engine_->HandleMetadata({}, wire::compat::MetadataType::kGetStats,
                              wire::compat::PlainRequest{}, now_ns_);
    });
    Show("upstream's GET_STATS", {stats, stats});
    const double usage = Time([&] {
      engine_->HandleMetadata({}, wire::compat::MetadataType::kGetUsage,
                              wire::compat::PlainRequest{}, now_ns_);
    });
    Show("upstream's GET_USAGE", {usage, usage});
  }

  void MakeRoom() {
    const double idle = Time([&] { engine_->FreeIdleRegions(0, now_ns_); });
    Show("free idle regions", {idle, idle});
    // A sixteenth of the keys of a namespace that has one in forty.
    const uint64_t bytes = keys_ / kClients * kPageBytes;
    engine::Engine::Trimmed trimmed{.rest = engine::Engine::Trimmed::Rest::kLater};
    Steps steps;
    while (trimmed.rest == engine::Engine::Trimmed::Rest::kLater) {
      steps.Add(Time([&] { trimmed = engine_->TrimNamespace("first", bytes / 16 * 15, now_ns_); }));
    }
    Show("trim a namespace by a sixteenth", steps);
  }

  void Deaths() {
    // One with many grants and, as all, many keys.
    for (uint64_t i = 0; i < keys_ / 64; i += wire::kPagesPerMessageMax) {
      wire::Reply reply;
      const wire::GrantRequest request{kPageBytes, wire::kPagesPerMessageMax};
      if (!engine_->Handle(2, {}, request, now_ns_, &reply).ok()) break;
    }
    const double first = Die(2);
    Show("death of a client, 1/64 as many grants as keys", {first, first});
    now_ns_ += 2'000'000'000;
    Steps steps;
    while (true) {
      uint64_t next_ns = 0;
      steps.Add(Time([&] { next_ns = engine_->Tick(now_ns_); }));
      if (next_ns > now_ns_) break;
    }
    Show("end of their quarantine", steps);
    steps = {};
    for (engine::ConnectionId connection = 3; connection <= kClients; ++connection) {
      steps.Add(Die(connection));
    }
    Show("deaths of the others, with keys alone", steps);
  }
  double Die(engine::ConnectionId connection) {
    locks_.dead = ClientSlot(static_cast<uint16_t>(connection - 1));
    return Time([&] { engine_->Disconnected(connection, now_ns_); });
  }

 private:
  static constexpr engine::ConnectionId kClients = 40;

  const uint64_t keys_;
  std::shared_ptr<pool::PlainMemory> memory_;
  Locks locks_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<engine::Engine> engine_;
  wire::Reply reply_;
  uint64_t now_ns_ = 1'000'000'000;
};

// From the first grant of a size on until its first region is whole.
class CutBench {
 public:
  explicit CutBench(uint64_t region_bytes) : region_bytes_(region_bytes) {}

  void Run(const char* what, uint64_t page_bytes) {
    auto folder = os::TempFolder::Create("/dev/shm");
    MARU_CHECK_OK(folder.status());
    const std::string path = folder->File("pool");
    MARU_CHECK_OK(pool::InitPool(path, 16 * region_bytes_, {}).status());
    auto backing = pool::FileBacking::OpenForServing(path);
    MARU_CHECK_OK(backing.status());
    auto opened = pool::Pool::Open(std::move(*backing), {.boot_id = {1, 2}, .epoch = 1});
    MARU_CHECK_OK(opened.status());
    Locks locks;
    engine::EngineOptions options{.region_bytes_min = region_bytes_, .server_version = "bench"};
    auto engine = engine::Engine::Create(options, {opened->get()}, &locks, 1, 0, 0);
    MARU_CHECK_OK(engine.status());
    wire::AttachRequest attach;
    attach.protocol_version = layout::kProtocolVersion;
    attach.layout_version = layout::kLayoutVersion;
    attach.label = "bench";
    wire::Reply reply;
    MARU_CHECK_OK((*engine)->Handle(1, {}, attach, 0, &reply));

    Steps grants, idle;
    const auto timed = [](Steps* steps, const auto& step) {
      const double begin = ProcessorSeconds();
      step();
      steps->Add(ProcessorSeconds() - begin);
    };
    const auto count =
        static_cast<uint32_t>(std::min<uint64_t>(kBatch, region_bytes_ / page_bytes));
    for (int i = 0; i < 8; ++i) {
      timed(&grants, [&] {
        MARU_CHECK_OK((*engine)->Handle(1, {}, wire::GrantRequest{page_bytes, count}, 0, &reply));
      });
    }
    for (uint64_t unit = 0; unit < region_bytes_ / layout::kUnitBytes; ++unit) {
      timed(&idle, [&] { (*engine)->Tick(0); });
    }
    std::printf("%s: %llu pages\n", what,
                static_cast<unsigned long long>((*engine)->Count(PoolIndex(0)).pages));
    Bench::Show("  grants", grants);
    Bench::Show("  idle turns", idle);
  }

 private:
  const uint64_t region_bytes_;
};

}  // namespace

int main(int argc, char** argv) {
  uint64_t keys = 1'000'000, region_bytes = 1ull << 30;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--keys=", 7) == 0) {
      keys = std::strtoull(argv[i] + 7, nullptr, 10);
    } else if (std::strncmp(argv[i], "--region-mib=", 13) == 0) {
      region_bytes = std::strtoull(argv[i] + 13, nullptr, 10) << 20;
    } else {
      std::fprintf(stderr, "unknown argument %s; known: --keys=N, --region-mib=N\n", argv[i]);
      return 2;
    }
  }
  CutBench cut(region_bytes);
  cut.Run("a region of pages of 1 MiB", 1ull << 20);
  cut.Run("a region of pages of a sixteenth of it", region_bytes / 16);
  cut.Run("a region of pages of 512 bytes", kPageBytes);
  Bench bench(keys);
  bench.Fill();
  bench.Audit();
  bench.Views();
  bench.Upstream();
  bench.MakeRoom();
  bench.Deaths();
  return 0;
}
