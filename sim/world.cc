#include "sim/world.h"

#include <cstring>

#include "base/check.h"
#include "layout/describe.h"
#include "layout/state_word.h"
#include "wire/codec.h"

namespace maru::sim {

namespace {

constexpr int kStartAttemptsMax = 64;
// Of these the server may die; further ones go through, so that a seed always goes on.
constexpr int kStartDeathsMax = 3;
// A server that dies at each turn does nothing else.
constexpr uint64_t kTargetDeathsMax = 8;
constexpr uint32_t kTargetDeathPerThousand = 900;
constexpr uint32_t kLivesLeftMax = 24;
constexpr uint64_t kPagesOfLongKeysMin = 48;  // fewer leave room for key text
constexpr uint64_t kUnixStartNs = 1'700'000'000'000'000'000;

}  // namespace

World::World(const WorldOptions& options, Tally* tally)
    : options_(options),
      tally_(tally),
      chance_(options.seed),
      clock_(1'000'000'000),
      hook_([this](std::string_view point) { OnPoint(point); }) {
  for (uint32_t i = 0; i < options.pools; ++i) {
    memory_.push_back(pool::MakeMemoryPool(options.pool_bytes,
                                           options.checksums ? layout::kFlagChecksums : 0,
                                           (1 + i) * layout::kRegionIdsPerPool));
  }
  former_words_.resize(options.pools);
  StartServer();
}

World::~World() = default;

const layout::Superblock& World::superblock(size_t pool) const { return view(pool).superblock(); }

catalogue::PoolView World::view(size_t pool) const {
  return catalogue::PoolView(memory_[pool]->base(), options_.pool_bytes);
}

void World::OnPoint(std::string_view point) {
  // Points of the handler's side are not the server's to die at.
  for (std::string_view client : {"handler:", "lease:", "find:", "pin:", "region:copied"}) {
    if (point.starts_with(client)) return;
  }
  tally_->Count("point " + std::string(point));
  if (!guarded_ || !DiesAt(point)) return;
  tally_->Count("death at " + std::string(point));
  throw ServerDeath{std::string(point)};
}

bool World::DiesAt(std::string_view point) {
  if (death_in_ != 0) {
    --death_in_;
    if (death_in_ == 0) return true;
  }
  if (point != options_.target_point || target_deaths_ >= kTargetDeathsMax) return false;
  if (!Happens(kTargetDeathPerThousand)) return false;
  ++target_deaths_;
  return true;
}

bool World::Guarded(const std::function<void()>& work) {
  guarded_ = true;
  try {
    work();
    guarded_ = false;
    return true;
  } catch (const ServerDeath& death) {
    guarded_ = false;
    tally_->Count("fault: server died at a publication point");
    KillServer();
    return false;
  }
}

void World::StartServer() {
  for (int attempt = 0; attempt < kStartAttemptsMax && engine_ == nullptr; ++attempt) {
    death_in_ = attempt < kStartDeathsMax && Happens(300) ? 1 + chance_.Below(12) : 0;
    const uint64_t keys = LiveKeys();
    Guarded([&] {
      pools_.clear();
      epoch_ = chance_() | 1;
      std::vector<pool::Pool*> pools;
      for (size_t i = 0; i < memory_.size(); ++i) {
        pool::OpenOptions open;
        open.boot_id[0] = 7;
        open.boot_id[1] = 11;
        open.epoch = epoch_;
        open.index_entries_log2_min = options_.index_entries_log2_min;
        auto opened = pool::Pool::Open(
            std::make_unique<pool::MemoryBacking>(memory_[i], "pool " + std::to_string(i)), open);
        if (!opened.ok()) throw Violation("restart: " + opened.status().ToString());
        pools_.push_back(std::move(*opened));
        pools.push_back(pools_.back().get());
      }
      engine::EngineOptions engine_options;
      engine_options.eviction = options_.eviction;
      engine_options.region_bytes_min = options_.pool_bytes / 16;
      engine_options.region_bytes_max = options_.pool_bytes / 16;
      // Few at a time may go without a slab of key text that is empty then.
      engine_options.evict_batch = options_.long_keys ? 1 : 4;
      // Audits of few and of many steps.
      engine_options.audit_work = static_cast<uint32_t>(16 * (1 + options_.seed % 16));
      engine_options.server_version = "sim";
      const auto now = static_cast<uint64_t>(clock_.Now());
      auto created =
          engine::Engine::Create(engine_options, pools, this, epoch_, now, kUnixStartNs + now);
      if (!created.ok()) throw Violation("restart: " + created.status().ToString());
      engine_ = std::move(*created);
      ExpectKeysKept(keys, "a restart");
    });
  }
  death_in_ = 0;
  if (engine_ == nullptr) throw Violation("the server does not come up");
  tally_->Count("server started");
}

void World::KillServer() {
  death_in_ = 0;
  engine_.reset();
  pools_.clear();
  connections_.clear();
  tokens_on_their_way_.clear();
}

void World::StopServer() {
  if (engine_ == nullptr) return;
  tally_->Count("server stopped in order");
  engine_.reset();
  Guarded([&] {
    for (auto& pool : pools_) pool->CloseCleanly();
  });
  KillServer();
}

void World::AgePages() {
  StopServer();
  for (size_t p = 0; p < memory_.size(); ++p) {
    const catalogue::PoolView pool = view(p);
    const uint64_t high = pool.root().record_high.load(std::memory_order_relaxed);
    for (uint32_t n = 1; n < high; ++n) {
      auto* record = const_cast<layout::PageRecord*>(pool.Record(RecordNumber(n)));
      if (record == nullptr) continue;
      const layout::StateWord word(record->state_word.load(std::memory_order_relaxed));
      const auto lives = static_cast<uint32_t>(chance_.Below(kLivesLeftMax));
      const Generation generation(layout::kGenerationMax - lives);
      if (word.state() != layout::PageState::kFree || generation < word.generation()) continue;
      record->state_word.store(layout::StateWord::Make(layout::PageState::kFree, generation).bits(),
                               std::memory_order_relaxed);
      tally_->Count("pages aged");
    }
  }
}

void World::TickServer() {
  if (engine_ == nullptr) return;
  const uint64_t keys = LiveKeys();
  Guarded([&] {
    engine_->Tick(static_cast<uint64_t>(clock_.Now()));
    ExpectKeysKept(keys, "a tick");
  });
}

void World::MakeRoom() {
  if (engine_ == nullptr) return;
  const auto now = static_cast<uint64_t>(clock_.Now());
  if (Happens(100)) ArmDeath(1 + chance_.Below(6));
  const bool other = options_.other_page_bytes != 0 && Happens(500);
  const uint64_t page_bytes = other ? options_.other_page_bytes : options_.page_bytes;
  Guarded([&] {
    switch (chance_.Below(3)) {
      case 0: {
        const uint64_t asked = engine_->RecallIdle(page_bytes, chance_.Below(8), now);
        for (uint64_t i = 0; i < asked; ++i) tally_->Count("transition: idle grant recalled");
        return;
      }
      case 1: {
        const uint32_t freed = engine_->FreeIdleRegions(Happens(300) ? 0 : page_bytes, now);
        for (uint32_t i = 0; i < freed; ++i) tally_->Count("transition: region freed");
        return;
      }
      default: {
        const std::string_view name_space = Happens(500) ? "other" : "";
        const uint64_t before = LiveKeys();
        const uint64_t pages = chance_.Below(12) + (options_.long_keys ? kPagesOfLongKeysMin : 0);
        const uint64_t quota = pages * options_.page_bytes;
        engine::Engine::Trimmed trimmed;
        do {
          trimmed = engine_->TrimNamespace(name_space, quota, now);
        } while (trimmed.rest == engine::Engine::Trimmed::Rest::kLater);
        if (trimmed.bytes_left > quota) return tally_->Count("transition: quota not met");
        tally_->Count(LiveKeys() < before ? "transition: trimmed to quota"
                                          : "transition: within quota");
      }
    }
  });
  DisarmDeath();
}

void World::WriteLate(std::byte* to, uint64_t delay_ns) {
  tally_->Count("fault: a dead process's last write");
  late_writes_.push_back({to, clock_.Now() + static_cast<int64_t>(delay_ns)});
}

void World::WriteWhatIsDue() {
  std::erase_if(late_writes_, [&](const LateWrite& write) {
    if (write.at_ns > clock_.Now()) return false;
    std::memset(write.to, 0xDD, 16);
    return true;
  });
}

engine::ConnectionId World::Connect() {
  const engine::ConnectionId id = next_connection_++;
  connections_[id];
  return id;
}

bool World::ConnectionAlive(engine::ConnectionId connection) const {
  return engine_ != nullptr && connections_.contains(connection);
}

std::optional<std::vector<std::byte>> World::Deliver(engine::ConnectionId connection, uint32_t pid,
                                                     std::span<const std::byte> frame) {
  if (!ConnectionAlive(connection)) return std::nullopt;
  ++steps_taken;
  std::vector<std::byte> answer(layout::kFrameBytesMax);
  const bool alive = Guarded([&] {
    wire::Decoder decoder;
    layout::FrameHeader header;
    wire::Request request;
    const Status decoded = decoder.DecodeRequest(frame, &header, &request);
    if (!decoded.ok()) throw Violation("request: " + decoded.ToString());
    wire::Reply reply;
    const Status status =
        engine_->Handle(connection, {pid, 0}, request, static_cast<uint64_t>(clock_.Now()), &reply,
                        header.request_number);
    const auto encoded =
        wire::EncodeReply(static_cast<wire::MessageType>(header.type), status, reply,
                          RequestNumber(header.request_number), Epoch(epoch_), answer);
    if (!encoded.ok()) throw Violation("reply: " + encoded.status().ToString());
    answer.resize(*encoded);
  });
  if (!alive) return std::nullopt;
  return answer;
}

void World::QueueFrame(engine::ConnectionId connection, uint32_t pid,
                       std::vector<std::byte> frame) {
  const auto at = connections_.find(connection);
  if (at != connections_.end()) at->second.push_back({pid, false, std::move(frame)});
}

void World::QueueClose(engine::ConnectionId connection) {
  const auto at = connections_.find(connection);
  if (at != connections_.end()) at->second.push_back({0, true, {}});
}

void World::DeliverQueued() {
  if (engine_ == nullptr) return;
  std::vector<engine::ConnectionId> waiting;
  for (const auto& [id, queue] : connections_) {
    if (!queue.empty()) waiting.push_back(id);
  }
  if (waiting.empty()) return;
  const engine::ConnectionId id = waiting[chance_.Below(waiting.size())];
  Waiting next = std::move(connections_[id].front());
  connections_[id].pop_front();
  if (!next.close) {
    tally_->Count("late frame read");
    Deliver(id, next.pid, next.frame);
    return;
  }
  const uint64_t keys = LiveKeys();
  Guarded([&] {
    engine_->Disconnected(id, static_cast<uint64_t>(clock_.Now()));
    ExpectKeysKept(keys, "the end of a client");
  });
  connections_.erase(id);
}

Status World::Take(ClientSlot slot) {
  if (Held(slot, PoolIndex(0))) {
    return FailedPrecondition("the liveness byte of slot " + std::to_string(slot.value()) +
                              " is locked");
  }
  auto token = std::make_shared<const ClientSlot>(slot);
  locks_[slot.value()] = token;
  tokens_on_their_way_[slot.value()] = std::move(token);
  return OkStatus();
}

// All pools are served together, always: a client has its locks in each of them.
bool World::Held(ClientSlot slot, PoolIndex) const {
  const auto at = locks_.find(slot.value());
  return at != locks_.end() && !at->second.expired();
}

LockToken World::TakeToken(ClientSlot slot) {
  const auto at = tokens_on_their_way_.find(slot.value());
  if (at == tokens_on_their_way_.end()) return nullptr;
  LockToken token = std::move(at->second);
  tokens_on_their_way_.erase(at);
  return token;
}

template <typename Visit>
void World::VisitKeyed(const Visit& visit) const {
  for (size_t p = 0; p < memory_.size(); ++p) {
    const catalogue::PoolView pool = view(p);
    const uint64_t high = pool.root().record_high.load(std::memory_order_acquire);
    for (uint32_t n = 1; n < high; ++n) {
      const layout::PageRecord* record = pool.Record(RecordNumber(n));
      if (record == nullptr) continue;
      const layout::StateWord word(record->state_word.load(std::memory_order_acquire));
      if (word.state() == layout::PageState::kLive ||
          word.state() == layout::PageState::kRetiring) {
        visit(pool, *record,
              Truth{{PoolIndex(static_cast<uint8_t>(p)), RecordNumber(n), word.generation()},
                    word.state()});
      }
    }
  }
}

std::vector<std::vector<World::Truth>> World::Scan(std::string_view name_space,
                                                   std::span<const std::string> keys) const {
  std::vector<std::vector<Truth>> found(keys.size());
  VisitKeyed(
      [&](const catalogue::PoolView& pool, const layout::PageRecord& record, const Truth& truth) {
        const auto sizes = layout::KeySizes::Unpack(record.key_sizes.load());
        if (sizes.namespace_bytes != name_space.size()) return;
        const auto* text = reinterpret_cast<const char*>(pool.base() + record.text_offset.load());
        const std::string_view both(text, sizes.text_bytes());
        if (!both.starts_with(name_space)) return;
        const std::string_view key = both.substr(name_space.size());
        for (size_t i = 0; i < keys.size(); ++i) {
          if (key == keys[i]) found[i].push_back(truth);
        }
      });
  return found;
}

uint64_t World::LiveKeys() const {
  uint64_t keys = 0;
  VisitKeyed([&](const catalogue::PoolView&, const layout::PageRecord&, const Truth&) { ++keys; });
  return keys;
}

void World::ExpectKeysKept(uint64_t before, const char* over) const {
  const uint64_t now = LiveKeys();
  if (now == before) return;
  throw Violation(std::string(over) + " took keys: " + std::to_string(before) + " before, " +
                  std::to_string(now) + " now");
}

// Granted and own LIVE pages of each client, from the records alone.
void World::CheckBudgets() const {
  std::map<uint32_t, uint64_t> used, budgets;  // by client id
  for (const auto& pool : pools_) {
    std::map<uint16_t, uint32_t> id_of_slot;
    for (const ClientSlot slot : pool->leases().Clients()) {
      const layout::ClientRecord& client = pool->leases().Record(slot);
      const auto id = static_cast<uint32_t>(client.client_id.load(std::memory_order_relaxed));
      id_of_slot[slot.value()] = id;
      budgets[id] = client.budget_bytes.load(std::memory_order_relaxed);
    }
    for (const pool::Pool::PageRegion& region : pool->PageRegions()) {
      for (uint32_t i = 0; i < region.page_count; ++i) {
        const RecordNumber number(region.first_record.value() + i);
        const layout::PageRecord& record = *pool->view().Record(number);
        const layout::StateWord word(record.state_word.load(std::memory_order_relaxed));
        if (word.state() == layout::PageState::kGranted) {
          used[id_of_slot[word.client().value()]] += region.page_bytes;
        } else if (word.state() == layout::PageState::kLive) {
          used[static_cast<uint32_t>(record.owner.load(std::memory_order_relaxed))] +=
              region.page_bytes;
        }
      }
    }
  }
  for (const auto& [id, budget] : budgets) {
    if (budget == 0 || used[id] <= budget) continue;
    throw Violation("client " + std::to_string(id) + " has " + std::to_string(used[id]) +
                    " bytes of a budget of " + std::to_string(budget));
  }
}

void World::NoteTransitions() {
  for (size_t p = 0; p < memory_.size(); ++p) {
    const catalogue::PoolView pool = view(p);
    const uint64_t high = pool.root().record_high.load(std::memory_order_acquire);
    auto& former = former_words_[p];
    if (former.size() < high) former.resize(high, 0);
    for (uint32_t n = 1; n < high; ++n) {
      const layout::PageRecord* record = pool.Record(RecordNumber(n));
      if (record == nullptr) continue;
      const uint64_t bits = record->state_word.load(std::memory_order_acquire);
      if (bits == former[n]) continue;
      const layout::StateWord from(former[n]), to(bits);
      if (from.generation() > to.generation()) {
        throw Violation("generation of record " + std::to_string(n) + " fell");
      }
      if (tally_->trace) {
        std::printf("  record %u: %s %u -> %s %u client %u\n", n,
                    std::string(layout::PageStateName(from.state())).c_str(),
                    from.generation().value(),
                    std::string(layout::PageStateName(to.state())).c_str(), to.generation().value(),
                    to.client().value());
      }
      tally_->Count("seen " + std::string(layout::PageStateName(from.state())) + " -> " +
                    std::string(layout::PageStateName(to.state())));
      former[n] = bits;
    }
  }
}

void World::CheckInvariants() {
  NoteTransitions();
  if (engine_ == nullptr) return;
  const std::vector<std::string> offenders = engine_->Audit();
  if (!offenders.empty()) throw Violation("audit: " + offenders.front());
  for (size_t p = 0; p < pools_.size(); ++p) {
    const auto counts = engine_->Count(PoolIndex(static_cast<uint8_t>(p)));
    const uint64_t sum = counts.free + counts.quarantined + counts.granted + counts.live +
                         counts.retiring + counts.condemned + counts.worn;
    if (sum != counts.pages) throw Violation("page identity of pool " + std::to_string(p));
    if (counts.retiring != 0) throw Violation("RETIRING outside a step");
  }
  CheckBudgets();
}

void World::CheckNothingLeaks() {
  while (true) {
    bool waiting = false;
    for (const auto& [id, queue] : connections_) waiting = waiting || !queue.empty();
    if (!waiting) break;
    DeliverQueued();
  }
  if (engine_ == nullptr) StartServer();
  tokens_on_their_way_.clear();
  for (int i = 0; i < 8; ++i) {
    clock_.Advance(2 * kNanosPerSecond);
    TickServer();
  }
  CheckInvariants();
  for (size_t p = 0; p < pools_.size(); ++p) {
    const auto counts = engine_->Count(PoolIndex(static_cast<uint8_t>(p)));
    if (counts.granted != 0 || counts.condemned != 0 || counts.quarantined != 0) {
      throw Violation("leak in pool " + std::to_string(p) + ": granted " +
                      std::to_string(counts.granted) + ", condemned " +
                      std::to_string(counts.condemned) + ", quarantined " +
                      std::to_string(counts.quarantined));
    }
    if (!pools_[p]->leases().Clients().empty()) throw Violation("a dead client keeps its slot");
  }
}

}  // namespace maru::sim
