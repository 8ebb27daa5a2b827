#include "sim/world.h"

#include <cstring>

#include "base/check.h"
#include "layout/describe.h"
#include "layout/state_word.h"
#include "wire/codec.h"

namespace maru::sim {

namespace {

constexpr int kStartAttemptsMax = 64;
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
  for (std::string_view client : {"handler:", "lease", "find:", "pin:"}) {
    if (point.starts_with(client)) return;
  }
  tally_->Count("point " + std::string(point));
  if (death_in_ == 0) return;
  --death_in_;
  if (death_in_ != 0) return;
  tally_->Count("death at " + std::string(point));
  throw ServerDeath{std::string(point)};
}

bool World::Guarded(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const ServerDeath& death) {
    tally_->Count("fault: server died at a publication point");
    KillServer();
    return false;
  }
}

void World::StartServer() {
  for (int attempt = 0; attempt < kStartAttemptsMax && engine_ == nullptr; ++attempt) {
    // The last attempts go through, so that a seed always goes on.
    death_in_ = attempt < 3 && Happens(300) ? 1 + chance_.Below(12) : 0;
    Guarded([&] {
      pools_.clear();
      epoch_ = chance_() | 1;
      std::vector<pool::Pool*> pools;
      for (size_t i = 0; i < memory_.size(); ++i) {
        pool::OpenOptions open;
        open.boot_id[0] = 7;
        open.boot_id[1] = 11;
        open.epoch = epoch_;
        auto opened = pool::Pool::Open(
            std::make_unique<pool::MemoryBacking>(memory_[i], "pool " + std::to_string(i)), open);
        if (!opened.ok()) throw Violation("restart: " + opened.status().ToString());
        pools_.push_back(std::move(*opened));
        pools.push_back(pools_.back().get());
      }
      engine::EngineOptions engine_options;
      engine_options.eviction = options_.eviction;
      engine_options.region_bytes_min = layout::kUnitBytes;
      engine_options.region_bytes_max = 2 * layout::kUnitBytes;
      engine_options.evict_batch = 4;
      engine_options.server_version = "sim";
      const auto now = static_cast<uint64_t>(clock_.Now());
      auto created =
          engine::Engine::Create(engine_options, pools, this, epoch_, now, kUnixStartNs + now);
      if (!created.ok()) throw Violation("restart: " + created.status().ToString());
      engine_ = std::move(*created);
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
  engine_.reset();
  for (auto& pool : pools_) pool->CloseCleanly();
  KillServer();
}

void World::TickServer() {
  if (engine_ == nullptr) return;
  Guarded([&] { engine_->Tick(static_cast<uint64_t>(clock_.Now())); });
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
  Guarded([&] { engine_->Disconnected(id, static_cast<uint64_t>(clock_.Now())); });
  connections_.erase(id);
}

Status World::Take(ClientSlot slot) {
  if (Held(slot)) {
    return FailedPrecondition("the liveness byte of slot " + std::to_string(slot.value()) +
                              " is locked");
  }
  auto token = std::make_shared<const ClientSlot>(slot);
  locks_[slot.value()] = token;
  tokens_on_their_way_[slot.value()] = std::move(token);
  return OkStatus();
}

bool World::Held(ClientSlot slot) const {
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

std::vector<World::Truth> World::Scan(std::string_view name_space, std::string_view key) const {
  std::vector<Truth> found;
  for (size_t p = 0; p < memory_.size(); ++p) {
    const catalogue::PoolView pool = view(p);
    const uint64_t high = pool.root().record_high.load(std::memory_order_acquire);
    for (uint32_t n = 1; n < high; ++n) {
      const layout::PageRecord* record = pool.Record(RecordNumber(n));
      if (record == nullptr) continue;
      const layout::StateWord word(record->state_word.load(std::memory_order_acquire));
      if (word.state() != layout::PageState::kLive &&
          word.state() != layout::PageState::kRetiring) {
        continue;
      }
      const auto sizes = layout::KeySizes::Unpack(record->key_sizes.load());
      if (sizes.namespace_bytes != name_space.size() || sizes.key_bytes != key.size()) continue;
      const auto* text = reinterpret_cast<const char*>(pool.base() + record->text_offset.load());
      const std::string stored(text, sizes.text_bytes());
      if (stored != std::string(name_space) + std::string(key)) continue;
      found.push_back(
          {{PoolIndex(static_cast<uint8_t>(p)), RecordNumber(n), word.generation()}, word.state()});
    }
  }
  return found;
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
