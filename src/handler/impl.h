// The inside of a Handler. Lock order: call_mutex_, then state_mutex_, then session_mutex_. Only
// call_mutex_ is held across a round trip, and none while a connection is made: calls that come
// then wait for the one attempt and take its result. Lookups and views take neither call_mutex_ nor
// state_mutex_ unless they have to ask the server.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/waiting.h"
#include "catalogue/key.h"
#include "handler/handler.h"
#include "handler/ledger.h"
#include "handler/session.h"

namespace maru::handler {

class Handler::Impl {
 public:
  Impl(HandlerOptions options, Link* link, const Clock* clock);

  // connection.cc
  Status Connect() MARU_EXCLUDES(call_mutex_);
  void Close(HeldPages held) MARU_EXCLUDES(call_mutex_);
  bool connected() const;
  uint64_t Tick() MARU_EXCLUDES(call_mutex_);  // waits for no call
  Status Ask(const wire::Request& request, wire::Reply* reply) MARU_EXCLUDES(call_mutex_);
  void MakeInert();

  // pages.cc
  Result<PageHandle> Alloc(uint64_t size_bytes);
  Status Free(const PageHandle& page, IfStored if_stored);
  Result<PageHandle> FromAddress(uint32_t region_id, uint32_t page_index);

  // holds.cc
  Result<std::shared_ptr<MemoryHold>> HoldOn(const PageHandle& page);
  void LetGo(std::shared_ptr<MemoryHold> given);

  // regions.cc
  Result<std::vector<RegionOfPages>> Regions() const;
  Result<RegionMemory> RegionBytes(uint32_t region_id, uint64_t offset_bytes,
                                   uint64_t length_bytes) const;

  // store.cc
  Result<bool> Store(std::string_view key, const PageHandle& page, uint64_t length_bytes);
  Result<std::vector<bool>> BatchStore(std::span<const StoreItem> items);

  // lookup.cc
  Result<View> Retrieve(std::string_view key, Verify verify);
  Result<std::vector<View>> BatchRetrieve(std::span<const std::string_view> keys, Verify verify);
  Result<bool> Exists(std::string_view key);
  Result<std::vector<bool>> BatchExists(std::span<const std::string_view> keys);
  Result<uint64_t> MatchPrefix(std::span<const std::string_view> keys);
  Result<std::vector<wire::DeleteOutcome>> BatchDelete(std::span<const std::string_view> keys);

  // pins.cc
  Result<bool> Pin(std::string_view key);
  Result<bool> Unpin(std::string_view key);
  Result<std::vector<bool>> BatchPin(std::span<const std::string_view> keys);
  Result<std::vector<bool>> BatchUnpin(std::span<const std::string_view> keys);

  Counters counters() const;
  ClientId client() const {
    const auto now = session();
    return now == nullptr ? ClientId(0) : now->client;
  }
  uint64_t epoch_changes() const { return epoch_changes_.load(std::memory_order_relaxed); }

 private:
  // Bounds of the loops that start anew because the catalogue moved on under them.
  static constexpr int kFindAttemptsMax = 64;
  static constexpr uint32_t kLookupGroup = 256;  // keys looked up together
  static constexpr uint32_t kLeaseBlocksGrowMax = 64;
  static constexpr uint32_t kHandStartPages = 4;
  // A hand is that part of the pools at most: what lies idle there no key can have.
  static constexpr uint64_t kHandOfPools = 16;
  // After that many odd answers a handler attaches as nobody's continuation: better a new client
  // than none.
  static constexpr int kOddAnswersMax = 2;

  // When a call came: before it waited for its turn.
  struct Arrival {
    int64_t at_ns = 0;
    uint64_t failed_attempts = 0;
  };

  // --- attach.cc
  // One attempt. Lets go of call_mutex_ while it is under way.
  Status Reconnect() MARU_REQUIRES(call_mutex_);
  Status AttachAndSettle() MARU_REQUIRES(call_mutex_);
  // Until no attempt is under way. Lets go of call_mutex_ meanwhile.
  void AwaitAttempt() MARU_REQUIRES(call_mutex_);
  // The same for a call, which takes the result when that is a failure.
  Status ShareAttempt(const Arrival& arrival) MARU_REQUIRES(call_mutex_);
  bool FailedSince(const Arrival& arrival) const MARU_REQUIRES(call_mutex_);
  struct Attached {
    std::string name_space;  // its whole name there
    wire::AttachReply reply;
    std::vector<std::shared_ptr<MappedPool>> pools;
  };
  // Finds the server, connects, attaches and takes over the lease blocks: as the client of FORMER
  // where there is one and its namespace and pools are what they were, else as a new one. REQUIRES:
  // connecting_, by which the link is the caller's.
  Status Attach(const Session* former, Attached* attached) MARU_EXCLUDES(call_mutex_);
  Status AttachAs(const Session* former, wire::AttachRequest request, Attached* attached)
      MARU_EXCLUDES(call_mutex_);
  static Status CheckPoolCount(size_t pools);
  static bool SamePools(const Session* former, const wire::AttachReply& reply,
                        std::span<const std::shared_ptr<MappedPool>> pools);
  // The server has begun anew with this client: what that ends.
  void ForgetFormer(const Session& former) MARU_REQUIRES(call_mutex_);
  void Adopt(Attached attached) MARU_REQUIRES(call_mutex_);
  static Status AdoptLeaseBlocks(const wire::AttachReply& reply,
                                 std::span<const std::shared_ptr<MappedPool>> pools);

  // --- connection.cc
  Status CheckUsable() const;
  std::shared_ptr<const Session> session() const MARU_EXCLUDES(session_mutex_);
  // What each call of the application begins with: usable, and attached at least once.
  Result<std::shared_ptr<const Session>> OpenSession() const MARU_EXCLUDES(session_mutex_);
  Arrival Arrive() const;
  // DeadlineExceeded: the call has waited for its turn longer than it may.
  Status CheckTurn(const Arrival& arrival) const MARU_REQUIRES(call_mutex_);
  uint64_t Waited(const Arrival& arrival) const;  // ns
  // Connected and settled, or the reason why not: at most one attempt to connect, and when one has
  // failed since the call came, its result. May let go of call_mutex_.
  Status EnsureReady(const Arrival& arrival) MARU_REQUIRES(call_mutex_);
  Status Settle() MARU_REQUIRES(call_mutex_);
  void ApplySettled(std::span<const wire::PageRef> named, const wire::SettleReply& reply)
      MARU_REQUIRES(call_mutex_);
  // How often a request that did not reach the server is tried: the first try may meet a connection
  // that a restarted server had closed.
  static constexpr int kSendAttempts = 2;
  // One round trip on a settled connection. `road` is not OK: the fate of the request is unknown.
  struct Answer {
    Status road;
    Status server;
    Link::Sent sent = Link::Sent::kMaybe;
    bool ok() const { return road.ok() && server.ok(); }
    Status status() const { return road.ok() ? server : road; }
  };
  Answer CallLocked(const wire::Request& request, wire::Reply* reply) MARU_REQUIRES(call_mutex_);
  // Makes ready and calls; again when the request did not reach the server. A request that names
  // pages, and the answer to one that asks for pages, are of one session (its `serial`): when
  // making ready finds another pool, such a request is not sent, and the road is Unavailable.
  static constexpr uint64_t kAnySession = 0;
  Answer CallReadyLocked(const Arrival& arrival, const wire::Request& request, wire::Reply* reply,
                         uint64_t serial = kAnySession) MARU_REQUIRES(call_mutex_);
  Status CallReady(const wire::Request& request, wire::Reply* reply, uint64_t serial = kAnySession)
      MARU_EXCLUDES(call_mutex_);
  // The counts of the ledger, for audit, with the number of the last request whose reply is in it.
  void PublishCounts() MARU_EXCLUDES(state_mutex_);
  // The same where every reply that came in is in the ledger.
  void PublishInTurn() MARU_REQUIRES(call_mutex_) MARU_EXCLUDES(state_mutex_);
  // Gives back pages in hand until `keep` are left.
  void GiveBackHand(uint64_t keep) MARU_REQUIRES(call_mutex_);
  // Gives back the pages in hand that are of those pools.
  using PoolBits = std::bitset<layout::kPoolsMax>;
  void GiveBackPagesOf(const PoolBits& pools) MARU_REQUIRES(call_mutex_);
  void GiveBack(const wire::GiveBackRequest& request) MARU_REQUIRES(call_mutex_);
  // Out of the hand; its place in the list is the caller's.
  wire::PageRef LeaveHand(const wire::PageRef& page) MARU_REQUIRES(state_mutex_);
  uint64_t TickInTurn() MARU_REQUIRES(call_mutex_);
  static constexpr uint64_t kBusyTickNs = 10'000'000;
  void GiveBackAll(HeldPages held) MARU_REQUIRES(call_mutex_);

  // --- pages.cc
  // Pages in hand at most, by the options and the pools of the session.
  void BoundHand(const Session& session);
  uint64_t HandPagesMax() const { return hand_pages_max_.load(std::memory_order_relaxed); }
  // Pages that may stay in hand: fewer when the server wants some back.
  uint64_t HandKeep() MARU_REQUIRES(state_mutex_);
  uint64_t Recalled() const;
  Status RequestGrants(const Arrival& arrival) MARU_REQUIRES(call_mutex_);
  // How many answers of a request for pages may name none.
  uint64_t AnswersMax() const;
  void TakeGrants(std::span<const wire::PageRef> pages) MARU_REQUIRES(state_mutex_);
  // A page with the number of its handing out, and of which session it is: in the pools of a later
  // one its record is another page.
  struct Handout {
    wire::PageRef page;
    uint32_t number = 0;
    std::shared_ptr<const Session> session;
  };
  // Which pages of the hand a key may find no room for.
  enum class Pick : uint8_t {
    kFitting,  // none of a pool that refused the last key that was to be stored there
    kAny,
  };
  bool PopHand(Pick pick, Handout* handout) MARU_REQUIRES(state_mutex_);
  // The last of the hand that is of none of those pools.
  bool PopHandBeside(const PoolBits& pools, Handout* handout) MARU_REQUIRES(state_mutex_);
  void Pop(Handout* handout) MARU_REQUIRES(state_mutex_);
  Result<PageHandle> MakeHandle(const Handout& handout, uint64_t page_bytes,
                                uint64_t size_bytes) const;
  // A page that was handed out and could not be: it is settled before it is used again.
  void TakeBack(const Handout& handout) MARU_EXCLUDES(call_mutex_, state_mutex_);
  void ReturnToHand(PoolIndex pool, RecordNumber record, Ledger::Entry& entry)
      MARU_REQUIRES(state_mutex_);
  // InvalidArgument: the handle is another handler's. Its numbers mean nothing here; with small
  // ones, as most are, they would fit a page of this one.
  Status CheckOwn(const PageHandle& page) const;
  // What whoever uses a handle again is told.
  static Status LifeIsOver(const PageHandle& page);
  // The entry of a handle whose life goes on, in that holding; nullptr: over. REQUIRES: CURRENT was
  // read under state_mutex_ or call_mutex_, since the ledger is of the session that is current
  // then: in a later one the same record and number are another page. The handle is this handler's.
  Ledger::Entry* EntryOf(const Session* current, const PageHandle& page, Holding holding)
      MARU_REQUIRES(state_mutex_);

  // --- holds.cc
  using PlaceKey = std::pair<uint8_t, uint32_t>;  // pool, record
  static PlaceKey KeyOf(const wire::PageRef& page) {
    return {page.pool.value(), page.record.value()};
  }
  void Linger(PoolIndex pool, RecordNumber record, Ledger::Entry& entry)
      MARU_REQUIRES(state_mutex_);
  // Leases the pages of INDICES that are held on, before they can become keys'. Those that cannot
  // be are taken out: they are not stored.
  void LeaseHeldOn(const Arrival& arrival, std::span<const StoreItem> items,
                   std::vector<size_t>* indices) MARU_REQUIRES(call_mutex_);

  // --- store.cc
  enum class Stored : uint8_t {
    kNo,
    kYes,
    kRefused,  // for now; the page is in flight still
  };
  void StoreFrames(const Arrival& arrival, std::span<const StoreItem> items,
                   std::span<const uint64_t> checksums, std::span<const uint8_t> taken,
                   std::span<Stored> stored) MARU_REQUIRES(call_mutex_);
  void StoreFrame(const Arrival& arrival, std::span<const StoreItem> items,
                  std::span<const uint64_t> checksums, std::vector<size_t>* indices,
                  std::span<Stored> stored) MARU_REQUIRES(call_mutex_);
  void BuildRegister(std::span<const StoreItem> items, std::span<const uint64_t> checksums,
                     std::vector<size_t>* indices, wire::RegisterRequest* request)
      MARU_REQUIRES(call_mutex_);
  void ApplyRegistered(std::span<const StoreItem> items, std::span<const size_t> indices,
                       const Answer& answer, const wire::Reply& reply, std::span<Stored> stored)
      MARU_REQUIRES(call_mutex_);
  void ApplyOutcome(const StoreItem& item, const wire::RegisterReply::Item& outcome, Stored* stored)
      MARU_REQUIRES(state_mutex_);
  // Once more what was refused: where there are several pools, copied to pages of others of them,
  // and where those have none, in its own page, for which keys go then. Nothing is kRefused
  // afterwards.
  void StoreElsewhere(const Arrival& arrival, std::span<const StoreItem> items,
                      std::span<Stored> stored) MARU_REQUIRES(call_mutex_);
  // What of ITEMS was refused, in pages to try next; which items those are. False: all in the
  // pages that refused them, since there are no others.
  bool MoveRefused(const Arrival& arrival, std::span<const StoreItem> items,
                   std::span<const Stored> stored, const PoolBits& refusing,
                   std::vector<StoreItem>* moved, std::vector<size_t>* from)
      MARU_REQUIRES(call_mutex_);
  // A page of none of those pools: from the hand, or granted for it. Nothing: there is none.
  std::optional<PageHandle> PageBeside(const Arrival& arrival, const PoolBits& refusing)
      MARU_REQUIRES(call_mutex_);
  // Where the bytes of a handle went; nothing: nowhere, or too long ago.
  std::optional<PageHandle> WhereMoved(const PageHandle& page) MARU_REQUIRES(state_mutex_);
  void NoteMoved(const PageHandle& from, const PageHandle& to) MARU_EXCLUDES(state_mutex_);
  // A page that no key came to, of which nothing is in doubt.
  void ReturnInFlight(const StoreItem& item) MARU_REQUIRES(call_mutex_);
  Status CheckItem(const StoreItem& item) const;
  static uint64_t ChecksumOf(const StoreItem& item);

  // --- lookup.cc
  // Where a key is, or that it is not there. `retiring`: the server must say whether it lives.
  struct Place {
    size_t pool = 0;
    catalogue::Found found;
    catalogue::FindVerdict verdict = catalogue::FindVerdict::kMiss;
  };
  Place FindIn(const Session& session, const catalogue::KeyRef& key) const;
  Result<Place> FindSettled(const Session& session, const catalogue::KeyRef& key);
  Result<Place> AskFind(const Session& session, const catalogue::KeyRef& key);
  Result<bool> AskLive(const Session& session, const Place& place);
  enum class Want : uint8_t { kLease, kPin };
  // Held, or not there (then Place's verdict is kMiss).
  Result<Place> Hold(const Session& session, const catalogue::KeyRef& key, Want want);
  Result<catalogue::LeaseOutcome> HoldPlace(const Session& session, const Place& place, Want want);
  Status GrowLeases(const Session& session, size_t pool);
  Status GrowLeasesLocked(const Arrival& arrival, const Session& session, size_t pool)
      MARU_REQUIRES(call_mutex_);
  static void Touch(const Session& session, const Place& place);
  Result<View> MakeView(const Session& session, const Place& place, Verify verify);
  // Makes keys of texts; InvalidArgument names the first that is over its limit.
  static Status MakeKeys(const Session& session, std::span<const std::string_view> texts,
                         std::vector<catalogue::KeyRef>* keys);
  void FindGroup(const Session& session, std::span<const catalogue::KeyRef> keys,
                 std::span<Place> places) const;

  // --- pins.cc
  // Where a pin of the key would be: no message unless the catalogue keeps changing.
  Result<Place> FindPinned(const Session& session, const catalogue::KeyRef& key);
  // False: this client has no pin there.
  static bool UnpinAt(const Session& session, const Place& place);

  const uint64_t number_;  // of this handler, in its handles; no other of this process has it
  const HandlerOptions options_;
  Link* const link_;
  const Clock* const clock_;

  Mutex call_mutex_;
  // An attempt to connect is under way, and the link is its own.
  bool connecting_ MARU_GUARDED_BY(call_mutex_) = false;
  CondVar attempt_over_;
  Status last_failure_ MARU_GUARDED_BY(call_mutex_);
  // Attempts that have failed. Relaxed: written under call_mutex_; a call reads it before it waits
  // for that, and one that misses the latest makes an attempt of its own.
  std::atomic<uint64_t> failed_attempts_{0};
  bool settle_needed_ MARU_GUARDED_BY(call_mutex_) = false;
  bool ever_connected_ MARU_GUARDED_BY(call_mutex_) = false;
  // In a row, answers to an attach as a former client that made no sense.
  int odd_answers_ MARU_GUARDED_BY(call_mutex_) = 0;
  uint64_t last_serial_ MARU_GUARDED_BY(call_mutex_) = 0;

  mutable Mutex state_mutex_ MARU_ACQUIRED_AFTER(call_mutex_);
  Ledger ledger_ MARU_GUARDED_BY(state_mutex_);
  std::vector<wire::PageRef> hand_ MARU_GUARDED_BY(state_mutex_);  // generations: the ledger's
  // Pools that had no room for a key of ours and of which nothing was granted since: their pages
  // are given back, those that are held on as soon as they are not.
  PoolBits refusing_ MARU_GUARDED_BY(state_mutex_);
  // Handles whose bytes went to another page when they were stored, the newest of them: who frees
  // one means its key.
  struct Moved {
    PageHandle from, to;
  };
  static constexpr size_t kMovedMax = 1024;
  std::deque<Moved> moved_ MARU_GUARDED_BY(state_mutex_);
  // Of pages whose entry says held_on, and no others.
  std::map<PlaceKey, std::shared_ptr<MemoryHold>> holds_ MARU_GUARDED_BY(state_mutex_);
  uint64_t batch_pages_ MARU_GUARDED_BY(state_mutex_) = kHandStartPages;
  int64_t last_alloc_ns_ MARU_GUARDED_BY(state_mutex_) = 0;
  uint64_t applied_request_ MARU_GUARDED_BY(state_mutex_) = 0;

  mutable SharedMutex session_mutex_ MARU_ACQUIRED_AFTER(state_mutex_);
  std::shared_ptr<const Session> session_ MARU_GUARDED_BY(session_mutex_);

  // Written by Connect, Close and MakeInert; read by every call (relaxed: a call that races with
  // Close may still be answered).
  enum class Phase : uint8_t { kNew, kOpen, kClosed, kInert };
  std::atomic<Phase> phase_{Phase::kNew};
  std::atomic<uint64_t> epoch_changes_{0};
  std::atomic<uint64_t> hand_pages_max_{1};  // relaxed: a bound, no fact about pages
  std::atomic<uint32_t> lease_growths_[layout::kPoolsMax] = {};

  // Relaxed everywhere: statistics.
  struct AtomicCounters {
    std::atomic<uint64_t> allocs{0}, alloc_messages{0}, stores{0}, duplicates{0}, stale{0},
        failed{0}, refused{0}, hits{0}, misses{0}, server_asks{0}, reconnects{0}, settled_kept{0},
        settled_live{0}, settled_gone{0};
  };
  mutable AtomicCounters counts_;
};

inline void Add(std::atomic<uint64_t>& counter, uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace maru::handler
