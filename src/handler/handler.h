// The client's state machine: grants in hand, stores, pages of unknown fate, leases and pins,
// reconnection and settlement. No I/O: a Link carries requests, and the catalogue is read where the
// Link has mapped it.
//
// Thread-safe. Lookups, leases and views take no lock that a round trip holds; round trips are
// serialised.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "catalogue/leases.h"
#include "catalogue/reader.h"
#include "maru/result.h"
#include "wire/messages.h"

namespace maru::handler {

// A pool as it is mapped in this process. Views keep it alive after close and reconnection.
class MappedPool {
 public:
  virtual ~MappedPool() = default;
  virtual const catalogue::PoolView& view() const = 0;
  virtual const layout::Uuid& uuid() const = 0;
  virtual bool checksums() const = 0;
  virtual catalogue::Leases& leases() = 0;
  // The page's bytes for writing. REQUIRES: granted. Maps the region on first use.
  virtual Result<std::byte*> Writable(uint64_t offset_bytes, uint64_t length_bytes) = 0;
  // Where the blocks of leases() lie, in the server's order; the header's is the first.
  virtual std::vector<uint64_t> LeaseBlocks() const = 0;
  // Maps further lease blocks at these offsets and adds them to leases().
  virtual Status AddLeaseBlocks(std::span<const uint64_t> offsets) = 0;
};

// One connection at a time to a server.
class Link {
 public:
  virtual ~Link() = default;
  // Finds the server, before each Connect. The whole name there of the namespace that the
  // application calls OWN; another than at the last Connect means another place for keys, so that
  // the handler begins anew.
  virtual Result<std::string> Find(std::string_view own) { return std::string(own); }
  // Connects, attaches and maps. On success `reply` says whether the same client goes on, and
  // `pools` has the mapped pools in the server's order; those with a uuid that was mapped before
  // are the same objects as before when the same client goes on. Meanwhile the handler calls
  // nothing but connected() and last_request().
  virtual Status Connect(const wire::AttachRequest& request, wire::AttachReply* reply,
                         std::vector<std::shared_ptr<MappedPool>>* pools) = 0;
  // Sends one request and waits for its reply, up to the time-out. The status of an error reply is
  // told in `server_status`; the returned status is of the road. When it is not OK the link has
  // closed the connection, and `sent` tells whether the request may have reached the server: then
  // its fate is unknown.
  enum class Sent : uint8_t { kNo, kMaybe };
  virtual Status Call(const wire::Request& request, Status* server_status, wire::Reply* reply,
                      Sent* sent) = 0;
  // Without waiting: notices that the server has closed the connection.
  virtual void Probe() = 0;
  virtual void Disconnect() = 0;
  // For good: lets go of the mapped pools first, so that a client without views is known to be gone
  // when its connection closes, then disconnects. A later Connect makes a new client.
  virtual void Close() = 0;
  virtual bool connected() const = 0;
  // Number of the last request whose reply came in, for audit.
  virtual uint64_t last_request() const = 0;
};

struct HandlerOptions {
  std::string label;
  std::string name_space;
  uint64_t page_bytes = 1ull << 20;
  uint64_t budget_bytes = 0;  // pool_size; 0: no limit
  // Free pages kept in hand, all together; and never more than a sixteenth of the pools.
  uint64_t hand_bytes_max = 64ull << 20;
  uint32_t hand_pages_max = 256;
  uint64_t grant_idle_ns = 1'000'000'000;
  // How long a call waits for its turn to talk to the server. 0: as long as the others take.
  uint64_t turn_wait_ns_max = 0;
};

// A page in the application's hands, to be written.
struct PageHandle {
  wire::PageRef page;
  std::byte* data = nullptr;
  uint64_t size_bytes = 0;  // as asked of Alloc
  uint64_t handler = 0;     // of which handler of this process: others refuse it
  uint64_t session = 0;     // of which attachment: another one's handles are stale
  uint32_t handout = 0;     // which handing out of the page: an earlier one's handles are stale
  uint32_t region_id = 0;
  uint32_t page_index = 0;
  // Keeps `data` mapped, and with it the lock of the client that the page is granted to: nobody
  // else is granted it while the application may write there.
  std::shared_ptr<MappedPool> mapping;
};

// What keeps a page's memory from reuse after its handle's life is over, since somebody may still
// write there: a page that is free again lingers outside the hand, one that became a key's is
// leased by its writer.
struct MemoryHold {
  // REQUIRES: of a page that is held by the application; see Handler::HoldOn.
  MemoryHold(const wire::PageRef& held, uint64_t of_session, std::shared_ptr<MappedPool> pool)
      : page(held), session(of_session), mapping(std::move(pool)) {}
  ~MemoryHold();
  MemoryHold(const MemoryHold&) = delete;
  MemoryHold& operator=(const MemoryHold&) = delete;

  const wire::PageRef page;
  const uint64_t session;
  const std::shared_ptr<MappedPool> mapping;
  // Both written under the handler's state lock. Not 0: that life of the page is leased.
  Generation leased{0};
  uint64_t count = 0;  // LetGo calls to come
};

// A lease and where its bytes lie. Move-only; the destructor releases. Outlives its handler.
class View {
 public:
  View() = default;
  View(View&& other) noexcept;
  View& operator=(View&& other) noexcept;
  ~View();
  std::span<const std::byte> bytes() const { return bytes_; }
  explicit operator bool() const { return pool_ != nullptr; }
  uint32_t region_id() const { return region_id_; }
  uint32_t page_index() const { return page_index_; }
  const wire::PageRef& page() const { return page_; }
  void Release();

 private:
  friend class Handler;
  std::shared_ptr<MappedPool> pool_;
  std::span<const std::byte> bytes_;
  wire::PageRef page_;
  uint32_t region_id_ = 0, page_index_ = 0;
};

// A region of pages, as the catalogue shows it.
struct RegionOfPages {
  uint32_t region_id = 0;
  uint32_t page_count = 0;
  uint64_t page_bytes = 0;
};

// Bytes of a region, read-only. No lease: they may change. Keeps them mapped. Only pages that were
// granted once are to be looked at: others may have no memory yet.
struct RegionMemory {
  std::span<const std::byte> bytes;
  std::shared_ptr<MappedPool> mapping;
};

enum class Verify : uint8_t { kNo, kChecksum };

class Handler {
 public:
  // REQUIRES: link and clock outlive the handler.
  Handler(HandlerOptions options, Link* link, const Clock* clock);
  ~Handler();
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

  Status Connect();
  // Gives back the grants in hand and disconnects. Views stay valid. Pages with the application go
  // back too, or stay granted until the last of their handles is gone.
  enum class HeldPages : uint8_t { kGiveBack, kKeepForTheirHandles };
  void Close(HeldPages held = HeldPages::kGiveBack);
  bool connected() const;
  // Who this is to the server, as its views tell it; 0 before the first connection.
  ClientId client() const;

  // From the pages in hand when there is one: no message. InvalidArgument names size and page size;
  // ResourceExhausted when the pool is full and nothing may go.
  Result<PageHandle> Alloc(uint64_t size_bytes);
  // True: the key is in the shared pool now, whoever owns the winning page. The handle is consumed
  // unless the status is an error; FailedPrecondition: its life was over before (stored or freed).
  // InvalidArgument, here and below: another handler's page.
  // One round trip. An unknown fate is False; the page is settled before it is used again.
  Result<bool> Store(std::string_view key, const PageHandle& page, uint64_t length_bytes);
  struct StoreItem {
    std::string_view key;
    PageHandle page;
    uint64_t length_bytes = 0;
  };
  // An error only before any page is consumed (not connected, closing, another handler's page);
  // then one answer for each item.
  Result<std::vector<bool>> BatchStore(std::span<const StoreItem> items);
  // A held page goes back to the hand. One that was stored meanwhile: its key is retired first, or
  // its life is over. FailedPrecondition: that life is over, nothing changed.
  enum class IfStored : uint8_t { kRetireKey, kIsOver };
  Status Free(const PageHandle& page, IfStored if_stored = IfStored::kRetireKey);
  // Until LetGo of the last hold on a page its memory is neither handed out, nor given back, nor
  // anybody else's, whatever becomes of the handle. FailedPrecondition: its life is over, or
  // soon the last that it can have. A hold that outlives the handler needs no LetGo.
  Result<std::shared_ptr<MemoryHold>> HoldOn(const PageHandle& page);
  void LetGo(std::shared_ptr<MemoryHold> hold);
  // A handle from an address alone means the generation that this handler last held for that page.
  Result<PageHandle> FromAddress(uint32_t region_id, uint32_t page_index) const;

  // Regions of pages of all pools that are there now, with all pages that each is to have.
  Result<std::vector<RegionOfPages>> Regions() const;
  // NotFound: no such region, or not that far.
  Result<RegionMemory> BytesOfRegion(uint32_t region_id, uint64_t offset_bytes,
                                     uint64_t length_bytes) const;

  // An empty view: not there.
  Result<View> Retrieve(std::string_view key, Verify verify);
  Result<std::vector<View>> BatchRetrieve(std::span<const std::string_view> keys, Verify verify);
  Result<bool> Exists(std::string_view key);
  Result<std::vector<bool>> BatchExists(std::span<const std::string_view> keys);
  // How many of the keys are there, from the first on.
  Result<uint64_t> MatchPrefix(std::span<const std::string_view> keys);
  Result<bool> Pin(std::string_view key);
  Result<bool> Unpin(std::string_view key);
  // An error changes nothing: what was pinned before it is unpinned again.
  Result<std::vector<bool>> BatchPin(std::span<const std::string_view> keys);
  // An error changes nothing: all keys are found before the first is unpinned.
  Result<std::vector<bool>> BatchUnpin(std::span<const std::string_view> keys);
  Result<wire::DeleteOutcome> Delete(std::string_view key);
  Result<std::vector<wire::DeleteOutcome>> BatchDelete(std::span<const std::string_view> keys);

  Status Ping();
  // Requests of tools (inspect, list, audit, unpin), passed on as they are.
  Status Ask(const wire::Request& request, wire::Reply* reply);

  // Background work, called by the client library's thread: reconnects, gives back idle grants.
  // Returns when it wants to be called next, 0: not by itself.
  uint64_t Tick();

  struct Counters {
    uint64_t allocs = 0, alloc_messages = 0, stores = 0, duplicates = 0, stale = 0, failed = 0;
    uint64_t refused = 0;  // of those that failed: the server said no
    // `held`: with the application, those that linger included.
    uint64_t hits = 0, misses = 0, server_asks = 0, reconnects = 0, settled_kept = 0,
             settled_live = 0, settled_gone = 0, free_in_hand = 0, held = 0, unknown = 0,
             leases = 0, pins = 0;
  };
  Counters counters() const;  // zeros in a forked child
  uint64_t epoch_changes() const;

  void MakeInert();  // in a forked child

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maru::handler
