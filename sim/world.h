// A simulated host: the memory of the pools, the server that comes and goes, the kernel's locks,
// the connections, the time. Single-threaded; everything follows from the seed.
//
// The engine, the pools, the catalogue, the codec and the handlers are the real ones. Simulated are
// only what lies between: the socket, the locks, the clock, and death.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/sequence_point.h"
#include "engine/engine.h"
#include "pool/memory_backing.h"
#include "pool/pool.h"
#include "sim/tally.h"
#include "wire/messages.h"

namespace maru::sim {

// A broken promise: the message says which.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown at a publication point: the server dies there.
struct ServerDeath {
  std::string point;
};

struct WorldOptions {
  uint64_t seed = 1;
  uint32_t pools = 1;
  uint64_t pool_bytes = 32ull << 20;
  uint64_t page_bytes = 128 * 1024;
  uint64_t other_page_bytes = 0;  // of some of the processes; 0: all have the same
  engine::Eviction eviction = engine::Eviction::kLeastRecentlyUsed;
  bool checksums = false;
  uint32_t index_entries_log2_min = layout::kIndexEntriesLog2Unit;
  // Pages have had nearly as many lives as they can have: see AgePages.
  bool aged = false;
  // Stores are repeated oftener than by chance.
  bool repeats = false;
  // Keys of many lengths, up to tens of KiB: their text fills the pool.
  bool long_keys = false;
  // The server dies at this publication point oftener than by chance. Empty: at none.
  std::string_view target_point;
};

// A life of the kernel's lock on a liveness byte: held while anybody has the token.
using LockToken = std::shared_ptr<const ClientSlot>;

class World : private engine::Liveness {
 public:
  World(const WorldOptions& options, Tally* tally);
  ~World() override;

  Random& chance() { return chance_; }
  FakeClock& clock() { return clock_; }
  Tally& tally() { return *tally_; }
  const WorldOptions& options() const { return options_; }
  // True in `in_thousand` of 1,000 cases.
  bool Happens(uint32_t in_thousand) { return chance_.Below(1000) < in_thousand; }

  // --- The server.
  bool server_up() const { return engine_ != nullptr; }
  engine::Engine* engine() { return engine_.get(); }
  // Brings the server up; it may die at publication points on the way and is started again.
  void StartServer();
  void StopServer();  // in order: the clean mark is set
  void KillServer();
  // A pool that has been used for long: most FREE pages have a few lives left. Stops the server.
  void AgePages();
  // Dies at one of the next publication points within the next request or tick.
  void ArmDeath(uint64_t points) { death_in_ = points; }
  void DisarmDeath() { death_in_ = 0; }
  void TickServer();

  // What a full pool makes an engine do, one of it drawn by chance: idle grants recalled, regions
  // without a page in use freed for another page size, a namespace trimmed to a quota.
  void MakeRoom();
  // The last store of a process that is dead: a copy of a device that was under way.
  void WriteLate(std::byte* to, uint64_t delay_ns);
  void WriteWhatIsDue();

  // --- Connections. An id is used once; those of a dead server are gone.
  engine::ConnectionId Connect();
  bool ConnectionAlive(engine::ConnectionId connection) const;
  // Handles one frame now. Empty: the server died over it, or the connection is gone.
  std::optional<std::vector<std::byte>> Deliver(engine::ConnectionId connection, uint32_t pid,
                                                std::span<const std::byte> frame);
  // What the server will read some time later, in order.
  void QueueFrame(engine::ConnectionId connection, uint32_t pid, std::vector<std::byte> frame);
  void QueueClose(engine::ConnectionId connection);
  // The server reads one thing that waits, if there is any.
  void DeliverQueued();
  // The lock that came with an attach answer.
  LockToken TakeToken(ClientSlot slot);

  // --- Memory.
  std::byte* base(size_t pool) { return memory_[pool]->base(); }
  const layout::Superblock& superblock(size_t pool) const;
  catalogue::PoolView view(size_t pool) const;
  // Truth by brute force: the page that is LIVE or RETIRING under a key.
  struct Truth {
    wire::PageRef page;
    layout::PageState state;
  };
  // For each key: what is there.
  std::vector<std::vector<Truth>> Scan(std::string_view name_space,
                                       std::span<const std::string> keys) const;

  // Every invariant of the server's side. Throws Violation.
  void CheckInvariants();
  // All clients are gone: after the quarantine nothing is granted, condemned or retiring.
  void CheckNothingLeaks();

  // Set by the simulation: lets somebody else act in the middle of a call.
  std::function<void()> interleave;
  uint64_t steps_taken = 0;  // grows with whatever anybody does

 private:
  Status Take(ClientSlot slot) override;
  bool Held(ClientSlot slot, PoolIndex pool) const override;
  void OnPoint(std::string_view point);
  bool DiesAt(std::string_view point);
  // Runs what the server does; false when it died.
  bool Guarded(const std::function<void()>& work);
  void NoteTransitions();
  // Every record that is LIVE or RETIRING, by brute force: its pool, itself, what it is.
  template <typename Visit>
  void VisitKeyed(const Visit& visit) const;
  uint64_t LiveKeys() const;
  void ExpectKeysKept(uint64_t before, const char* over) const;
  void CheckBudgets() const;

  struct Waiting {
    uint32_t pid = 0;
    bool close = false;
    std::vector<std::byte> frame;
  };

  const WorldOptions options_;
  Tally* const tally_;
  Random chance_;
  FakeClock clock_;
  std::vector<std::shared_ptr<pool::PlainMemory>> memory_;  // outlives every server
  std::vector<std::unique_ptr<pool::Pool>> pools_;
  std::unique_ptr<engine::Engine> engine_;
  struct LateWrite {
    std::byte* to = nullptr;
    int64_t at_ns = 0;
  };
  std::vector<LateWrite> late_writes_;
  uint64_t epoch_ = 0;
  engine::ConnectionId next_connection_ = 1;
  std::map<engine::ConnectionId, std::deque<Waiting>> connections_;
  std::map<uint16_t, std::weak_ptr<const ClientSlot>> locks_;
  std::map<uint16_t, LockToken> tokens_on_their_way_;
  uint64_t death_in_ = 0;  // 0: not armed
  bool guarded_ = false;   // the server is at work, and what it does may end anywhere
  uint64_t target_deaths_ = 0;
  std::optional<std::string> died_at_;
  ScopedHook hook_;
  std::vector<std::vector<uint64_t>> former_words_;  // state words at the last check, by pool
};

}  // namespace maru::sim
