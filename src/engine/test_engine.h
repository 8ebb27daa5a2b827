// For tests: an engine over pools in memory that can be killed and started again, and clients that
// do what a client process does to it: messages, leases in their own areas, locks, death.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "catalogue/leases.h"
#include "catalogue/reader.h"
#include "engine/engine.h"
#include "layout/frame.h"
#include "pool/memory_backing.h"
#include "pool/pool.h"
#include "pool/test_scarce_backing.h"
#include "wire/messages.h"

namespace maru::engine {

// Locks as the kernel keeps them, of each pool: held from Take until the client's process lets go.
class TestLocks final : public Liveness {
 public:
  // Which pools are served, by their memories.
  void Serve(std::vector<size_t> served) { served_ = std::move(served); }
  const std::vector<size_t>& served() const { return served_; }

  Status Take(ClientSlot slot) override {
    for (const size_t memory : served_) {
      if (held_.contains({slot, memory})) return FailedPrecondition("the lock is held");
    }
    for (const size_t memory : served_) held_.insert({slot, memory});
    return OkStatus();
  }
  bool Held(ClientSlot slot, PoolIndex pool) const override {
    return held_.contains({slot, served_[pool.value()]});
  }
  // In all pools, or in those of a server that its client attached to.
  void LetGo(ClientSlot slot) {
    std::erase_if(held_, [slot](const auto& lock) { return lock.first == slot; });
  }
  void LetGo(ClientSlot slot, const std::vector<size_t>& memories) {
    for (const size_t memory : memories) held_.erase({slot, memory});
  }
  std::vector<ClientSlot> held() const {
    std::set<ClientSlot> slots;
    for (const auto& [slot, memory] : held_) slots.insert(slot);
    return {slots.begin(), slots.end()};
  }

 private:
  std::vector<size_t> served_;
  std::set<std::pair<ClientSlot, size_t>> held_;
};

class TestEngine {
 public:
  struct Options {
    std::vector<uint64_t> pools{64 * kMiB};
    uint64_t flags = 0;
    std::vector<uint64_t> flags_of_pools{};  // where they differ
    EngineOptions engine = {};
    uint32_t index_entries_log2_min = layout::kIndexEntriesLog2Unit;
    bool scarce = false;  // its pools are on a machine that can be short of memory
  };

  TestEngine() : TestEngine(Options()) {}
  explicit TestEngine(Options options) : options_(std::move(options)) {
    if (options_.engine.server_version.empty()) options_.engine.server_version = "1.2.3";
    const std::vector<uint64_t>& flags = options_.flags_of_pools;
    for (size_t i = 0; i < options_.pools.size(); ++i) {
      AddMemory(options_.pools[i], i < flags.size() ? flags[i] : options_.flags);
    }
    Start();
  }

  // The server's process ends, in order or not: nothing is written at its end.
  void Kill() {
    engine_.reset();
    pools_.clear();
    connections_.clear();
  }
  void Start() {
    ++epoch_;
    locks_.Serve(served_);
    std::vector<pool::Pool*> pools;
    for (const size_t i : served_) {
      const std::string name = "pool" + std::to_string(i);
      std::unique_ptr<pool::Backing> backing;
      if (options_.scarce) {
        backing = std::make_unique<pool::ScarceBacking>(memories_[i], &scarcities_[i], name);
      } else {
        backing = std::make_unique<pool::MemoryBacking>(memories_[i], name);
      }
      auto opened = pool::Pool::Open(std::move(backing),
                                     {.boot_id = {boot_, 2},
                                      .epoch = epoch_,
                                      .index_entries_log2_min = options_.index_entries_log2_min});
      MARU_CHECK_OK(opened.status());
      pools_.push_back(std::move(*opened));
      pools.push_back(pools_.back().get());
    }
    auto created = Engine::Create(options_.engine, pools, &locks_, epoch_, now_ns_, kUnixNs);
    MARU_CHECK_OK(created.status());
    engine_ = std::move(*created);
  }
  void Restart() {
    Kill();
    Start();
  }
  // The machine starts anew after the server closed its pools in order.
  void Reboot() {
    for (const auto& pool : pools_) pool->CloseCleanly();
    Kill();
    ++boot_;
    Start();
  }
  // Another pool, served from the next start on.
  void AddMemory(uint64_t bytes) { AddMemory(bytes, options_.flags); }
  void AddMemory(uint64_t bytes, uint64_t flags) {
    served_.push_back(memories_.size());
    const uint32_t base = static_cast<uint32_t>(memories_.size() + 1) * layout::kRegionIdsPerPool;
    memories_.push_back(pool::MakeMemoryPool(bytes, flags, base));
  }
  // Which of them are served from the next start on, in this order.
  void SetServed(std::vector<size_t> served) { served_ = std::move(served); }

  Engine& engine() { return *engine_; }
  Engine* operator->() { return engine_.get(); }
  bool running() const { return engine_ != nullptr; }
  TestLocks& locks() { return locks_; }
  Options& options() { return options_; }
  pool::Pool& pool(size_t i = 0) { return *pools_[i]; }
  catalogue::PoolView view(size_t i = 0) const {
    return catalogue::PoolView(base(i), memories_[served_[i]]->bytes());
  }
  pool::Scarcity& scarcity(size_t i = 0) { return scarcities_[served_[i]]; }
  std::byte* base(size_t i = 0) const { return memories_[served_[i]]->base(); }
  size_t pools() const { return served_.size(); }

  uint64_t now_ns() const { return now_ns_; }
  void Advance(uint64_t by_ns) { now_ns_ += by_ns; }
  uint64_t Tick() { return engine_->Tick(now_ns_); }
  // Time passes while the server serves: it is woken when it asks for it. Advance alone is a pause.
  uint64_t Pass(uint64_t by_ns) {
    const uint64_t end_ns = now_ns_ + by_ns;
    for (uint64_t next_ns = Tick(); next_ns != 0 && next_ns < end_ns; next_ns = Tick()) {
      now_ns_ = std::max(now_ns_, next_ns);
    }
    now_ns_ = end_ns;
    return Tick();
  }
  // Idle turns, until regions that are being cut are whole.
  void EndCuts() {
    for (const auto& pool : pools_) {
      for (uint64_t unit = pool->usage().pool_bytes / layout::kUnitBytes; unit > 0; --unit) Tick();
    }
  }

  ConnectionId NewConnection() {
    connections_.insert(++last_connection_);
    return last_connection_;
  }
  // Closes it once; after a kill all connections are closed.
  void Close(ConnectionId connection) {
    if (connections_.erase(connection) != 0) engine_->Disconnected(connection, now_ns_);
  }
  bool Open(ConnectionId connection) const { return connections_.contains(connection); }
  Status Ask(ConnectionId connection, const wire::Request& request, wire::Reply* reply,
             uint64_t number = 0) {
    return engine_->Handle(connection, {.pid = 77, .uid = 1000}, request, now_ns_, reply, number);
  }

  layout::StateWord State(const wire::PageRef& page) const {
    const layout::PageRecord* const record = view(page.pool.value()).Record(page.record);
    MARU_CHECK(record != nullptr);
    return layout::StateWord(record->state_word.load(std::memory_order_relaxed));
  }
  // Of a page that no client uses: what is left of its generations.
  void SetGeneration(const wire::PageRef& page, uint32_t generation) {
    auto* const record =
        const_cast<layout::PageRecord*>(view(page.pool.value()).Record(page.record));
    const layout::StateWord word(record->state_word.load(std::memory_order_relaxed));
    record->state_word.store(
        layout::StateWord::Make(word.state(), Generation(generation), word.client()).bits(),
        std::memory_order_relaxed);
  }

  static constexpr uint64_t kUnixNs = 1'700'000'000'000'000'000;

 private:
  Options options_;
  std::vector<std::shared_ptr<pool::PlainMemory>> memories_;
  std::map<size_t, pool::Scarcity> scarcities_;  // by index into memories_
  std::vector<size_t> served_;                   // indices into memories_
  std::vector<std::unique_ptr<pool::Pool>> pools_;
  TestLocks locks_;
  std::unique_ptr<Engine> engine_;
  std::set<ConnectionId> connections_;
  ConnectionId last_connection_ = 0;
  uint64_t epoch_ = 0;
  uint64_t boot_ = 1;
  uint64_t now_ns_ = 1'000'000'000;
};

class TestClient {
 public:
  struct Options {
    std::string label = "client";
    std::string name_space = {};
    uint64_t budget_bytes = 0;
  };

  explicit TestClient(TestEngine* host) : TestClient(host, Options()) {}
  // Attached.
  TestClient(TestEngine* host, Options options) : host_(host), options_(std::move(options)) {
    MARU_CHECK_OK(Attach());
  }

  Options& options() { return options_; }
  ConnectionId connection() const { return connection_; }
  ClientId id() const { return attached_.client; }
  ClientSlot slot() const { return attached_.slot; }
  const wire::AttachReply& attached() const { return attached_; }

  // On a new connection, as the client it was before, if it was one.
  Status Attach() {
    connection_ = host_->NewConnection();
    wire::AttachRequest request;
    request.protocol_version = layout::kProtocolVersion;
    request.layout_version = layout::kLayoutVersion;
    request.label = options_.label;
    request.name_space = options_.name_space;
    request.budget_bytes = options_.budget_bytes;
    request.previous_client = attached_.client;
    if (!attached_.pools.empty()) request.previous_pool = attached_.pools[0].uuid;
    wire::Reply reply;
    MARU_RETURN_IF_ERROR(host_->Ask(connection_, request, &reply));
    auto& attached = std::get<wire::AttachReply>(reply);
    if (!attached.same_client) {
      if (attached_.client.value() != 0) host_->locks().LetGo(attached_.slot, locked_);
      locked_ = host_->locks().served();
      leases_.clear();
      for (size_t i = 0; i < host_->pools(); ++i) {
        leases_.push_back(MakeLeases(i, attached.pools[i].lease_blocks));
      }
    }
    attached_ = std::move(attached);
    return OkStatus();
  }
  // Its connection breaks; it lives on.
  void Disconnect() { host_->Close(connection_); }
  // Its process ends.
  void Die() {
    host_->locks().LetGo(slot(), locked_);
    Disconnect();
  }

  Status TryAsk(const wire::Request& request, wire::Reply* reply) {
    return host_->Ask(connection_, request, reply, ++request_number_);
  }
  template <typename Reply>
  Reply Ask(const wire::Request& request) {
    wire::Reply reply;
    MARU_CHECK_OK(TryAsk(request, &reply));
    return std::move(std::get<Reply>(reply));
  }

  Result<std::vector<wire::PageRef>> TryGrant(uint64_t page_bytes, uint32_t count = 1) {
    // A large page takes several answers without one; each is a unit nearer to it.
    for (uint64_t answers = 0; answers <= page_bytes / layout::kUnitBytes + 1; ++answers) {
      wire::Reply reply;
      MARU_RETURN_IF_ERROR(TryAsk(wire::GrantRequest{page_bytes, count}, &reply));
      auto& pages = std::get<wire::GrantReply>(reply).pages;
      if (!pages.empty()) return std::move(pages);
    }
    return Internal("a grant that never comes");
  }
  std::vector<wire::PageRef> Grant(uint64_t page_bytes, uint32_t count = 1) {
    auto pages = TryGrant(page_bytes, count);
    MARU_CHECK_OK(pages.status());
    return *pages;
  }
  wire::RegisterReply::Item Register(std::string_view key, const wire::PageRef& page,
                                     uint64_t length_bytes = 1, uint64_t checksum = 0) {
    wire::RegisterRequest request;
    request.entries.push_back({page, length_bytes, checksum, key});
    return Ask<wire::RegisterReply>(request).items[0];
  }
  // Grant and register; REQUIRES: the key is new.
  wire::PageRef Put(std::string_view key, uint64_t page_bytes = 4096) {
    const wire::PageRef page = Grant(page_bytes)[0];
    MARU_CHECK_EQ(Register(key, page).outcome, wire::RegisterOutcome::kRegistered);
    return page;
  }
  bool Exists(std::string_view key) { return Find(key).found; }
  wire::FindReply::Item Find(std::string_view key) {
    return Ask<wire::FindReply>(wire::FindRequest{{key}}).items[0];
  }
  wire::DeleteOutcome Delete(std::string_view key) {
    return Ask<wire::DeleteReply>(wire::DeleteRequest{{key}}).outcomes[0];
  }
  wire::FreeOutcome Free(const wire::PageRef& page) {
    return Ask<wire::FreeReply>(wire::FreeRequest{page}).outcome;
  }
  uint32_t GiveBack(std::vector<wire::PageRef> pages) {
    return Ask<wire::GiveBackReply>(wire::GiveBackRequest{std::move(pages)}).returned;
  }
  wire::SettleReply Settle(std::vector<wire::PageRef> pages, bool last = true) {
    return Ask<wire::SettleReply>(wire::SettleRequest{last, std::move(pages)});
  }

  // A whole audit, step by step.
  wire::AuditReply Audit(wire::AuditRequest request = {}) {
    while (true) {
      auto reply = Ask<wire::AuditReply>(request);
      if (reply.audit == 0) return reply;
      request.audit = reply.audit;
    }
  }

  catalogue::Leases& leases(size_t pool = 0) { return *leases_[pool]; }
  bool Lease(const wire::PageRef& page) {
    return leases(page.pool.value()).Acquire(page.record, page.generation) ==
           catalogue::LeaseOutcome::kHeld;
  }
  void Release(const wire::PageRef& page) {
    leases(page.pool.value()).Release(page.record, page.generation);
  }
  bool Pin(const wire::PageRef& page) {
    return leases(page.pool.value()).Pin(page.record, page.generation) ==
           catalogue::LeaseOutcome::kHeld;
  }
  bool Unpin(const wire::PageRef& page) {
    return leases(page.pool.value()).Unpin(page.record, page.generation);
  }
  uint64_t last_request() const { return request_number_; }

 private:
  std::unique_ptr<catalogue::Leases> MakeLeases(size_t pool, const std::vector<uint64_t>& blocks) {
    std::byte* const base = host_->base(pool);
    std::vector<layout::LeaseSlots*> slots;
    for (size_t i = 1; i < blocks.size(); ++i) {
      slots.push_back(reinterpret_cast<layout::LeaseSlots*>(base + blocks[i]));
    }
    return std::make_unique<catalogue::Leases>(
        host_->view(pool), reinterpret_cast<layout::LeaseHeader*>(base + blocks[0]), slots);
  }

  TestEngine* host_;
  Options options_;
  ConnectionId connection_ = 0;
  wire::AttachReply attached_;
  std::vector<size_t> locked_;  // memories of the pools in which it has its lock
  std::vector<std::unique_ptr<catalogue::Leases>> leases_;
  uint64_t request_number_ = 0;
};

// No offender, as a message.
inline std::string Offenders(const Engine& engine) {
  std::string text;
  for (const std::string& offender : engine.Audit()) text += offender + "\n";
  return text;
}

}  // namespace maru::engine
