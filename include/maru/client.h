#pragma once

// The client that a serving engine embeds: it maps the pool, looks keys up where they lie and asks
// the server only for what changes something.
//
//   MARU_ASSIGN_OR_RETURN(auto client, maru::Client::Connect({}));
//   MARU_ASSIGN_OR_RETURN(maru::Page page, client->Alloc(bytes.size()));
//   std::memcpy(page.data(), bytes.data(), bytes.size());
//   MARU_ASSIGN_OR_RETURN(bool stored, client->Store("prompt-17/layer-3", std::move(page)));
//   MARU_ASSIGN_OR_RETURN(maru::View view, client->Retrieve("prompt-17/layer-3"));  // may be empty
//
// Thread safety: all methods of Client may be called from several threads. A Page or a View is used
// by one thread at a time.
//
// Forks: in a forked child every Client, Page and View is inert. Calls answer FailedPrecondition,
// releasing does nothing, bytes of a view stay readable and are as safe as the parent's lease.
//
// The library never prints, exits or aborts because of what others wrote; it logs through the sink
// of maru/log.h. A broken promise of its own, and value() of a Result that is an error, end the
// process after a line to that sink.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maru/export.h"
#include "maru/result.h"
#include "maru/status.h"

namespace maru {

struct ClientOptions {
  // The server. "tcp://HOST:PORT" is its metadata endpoint, as upstream's clients name it: a server
  // on this host tells its socket there and everything goes over that, from another host the
  // client is refused. Or the socket itself: a path, or "@name" of its abstract socket, which
  // `maru serve` tells at its start, for containers that share the network but not the folder;
  // "unix:" may stand before either. Empty: MARU_SOCKET, else the default of `maru serve`.
  std::string server_url;
  // A server is trusted that runs as this process's own user, as root, or as this user, a name or a
  // number. Empty: MARU_SERVER_USER, else nobody else.
  std::string server_user;
  // A label for people (instance_id); may repeat. Empty: "host:pid".
  std::string label;
  // Keys of one namespace are not visible in another. At most 255 bytes. Over tcp:// it lies below
  // the endpoint's own (docs/upstream_clients.md) and must not begin with "tcp://".
  std::string name_space;
  std::uint64_t page_bytes = 1 << 20;  // size of a page, 512 at least
  std::uint64_t budget_bytes = 0;      // granted and own live pages together; 0: no limit
  // Free pages kept ready, all together; never more than a sixteenth of the pools.
  std::uint64_t hand_bytes_max = 64 << 20;
  std::uint32_t timeout_ms = 2000;  // of one round trip, and of asking the endpoint
};

class Client;

// Where a page lies: the region, and which of its pages. What is passed around where a Page cannot
// be, as in upstream's adapters.
struct PageAddress {
  std::uint32_t region_id = 0, page_index = 0;
};

// A page granted to this client, for writing. The destructor gives it back unless it was stored.
// While it lives its bytes may be written and are nobody else's: also after Close() of the client
// or when the server has begun anew with it, where the page can only not be stored any more. Other
// clients answer InvalidArgument to whatever is asked with it.
class MARU_EXPORT Page {
 public:
  Page();
  Page(Page&&) noexcept;
  Page& operator=(Page&&) noexcept;
  ~Page();

  std::byte* data() const { return data_; }
  std::uint64_t size_bytes() const { return size_bytes_; }  // as asked of Alloc
  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }
  std::uint32_t region_id() const { return region_id_; }
  std::uint32_t page_index() const { return page_index_; }
  PageAddress address() const { return {region_id_, page_index_}; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class Client;
  struct Rep;
  std::unique_ptr<Rep> rep_;
  std::byte* data_ = nullptr;
  std::uint64_t size_bytes_ = 0;
  std::uint32_t region_id_ = 0, page_index_ = 0;
};

// Keeps a page's memory from reuse for somebody who may still write there when the page's own life
// is over: an array over it that outlives Store or Free. A page that is free again, or whose key
// another won, waits outside the pages in hand; a key's page counts as leased by this client.
class MARU_EXPORT PageHold {
 public:
  PageHold();
  PageHold(PageHold&&) noexcept;
  PageHold& operator=(PageHold&&) noexcept;
  ~PageHold();

  explicit operator bool() const { return rep_ != nullptr; }
  void Release();

 private:
  friend class Client;
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

// The bytes of a key, read-only, where they lie. While the view lives they do not change: not after
// delete, eviction, another store, the death of their writer, the death and restart of the server,
// or Close() of the client.
class MARU_EXPORT View {
 public:
  View();
  View(View&&) noexcept;
  View& operator=(View&&) noexcept;
  ~View();

  std::span<const std::byte> bytes() const { return bytes_; }
  std::uint32_t region_id() const { return region_id_; }
  std::uint32_t page_index() const { return page_index_; }
  // False: the key is not there.
  explicit operator bool() const { return bytes_.data() != nullptr; }
  void Release();

 private:
  friend class Client;
  struct Rep;
  std::unique_ptr<Rep> rep_;
  std::span<const std::byte> bytes_;
  std::uint32_t region_id_ = 0, page_index_ = 0;
};

enum class Deleted : std::uint8_t { kDeleted = 1, kMissing = 2, kPinned = 3 };
enum class Verification : std::uint8_t { kNone, kChecksum };

class MARU_EXPORT Client {
 public:
  // Unavailable when no server listens (names the socket and the command that starts one);
  // FailedPrecondition when versions differ (names both and which side to upgrade), when the server
  // at a tcp:// address is on another host or not ours;
  // PermissionDenied when the server does not admit this user, or runs as one that is not trusted;
  // ResourceExhausted when the process can have no more threads.
  static Result<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  ~Client();  // Close()
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Gives back what is in hand. Views and pages of the application stay valid; until the last of
  // them is gone the server lists the client.
  void Close();
  bool connected() const;

  // A page to write at most `size_bytes` to. InvalidArgument names size and page size;
  // ResourceExhausted: the pool is full and nothing may go. Usually no message.
  Result<Page> Alloc(std::uint64_t size_bytes);
  // True: the key is in the shared pool now, whoever's page won; all readers see it. False: it is
  // not, or that is unknown. The page is consumed unless the status is an error. The first
  // length_bytes are stored; 0: as many as were asked of Alloc. One message.
  // This thread's writes may be non-temporal; others' must be fenced, a device's have completed.
  Result<bool> Store(std::string_view key, Page&& page, std::uint64_t length_bytes = 0);
  // The page that this client last had at that address, in that life.
  Result<bool> Store(std::string_view key, const PageAddress& page, std::uint64_t length_bytes);
  // Consumes all pages unless the status is an error. One answer for each key, in order.
  Result<std::vector<bool>> BatchStore(std::span<const std::string_view> keys,
                                       std::span<Page> pages);
  // Gives a page back before its destructor does. Consumed unless the status is an error:
  // FailedPrecondition when its life was over (stored or freed by its address, or the server has
  // begun anew with this client) and nothing is changed.
  Status Free(Page&& page);
  // The page that this client last had at that address: its Page must not be written to any more.
  // One that was stored: its key is deleted, unless that is pinned (FailedPrecondition). Once more
  // is FailedPrecondition, a page that was never this client's NotFound.
  Status Free(const PageAddress& page);
  // Until the hold is released, by any thread, at any time. FailedPrecondition: the page's life is
  // over. No message.
  Result<PageHold> Hold(const Page& page);
  // Alloc, copy, Store.
  Result<bool> Put(std::string_view key, std::span<const std::byte> bytes);

  // An empty view: no such key. kChecksum: DataLoss when the bytes do not match (of a batch: "key
  // 2 of 7"). Usually no message: the server is asked about keys that are about to go.
  Result<View> Retrieve(std::string_view key, Verification verification = Verification::kNone);
  Result<std::vector<View>> BatchRetrieve(std::span<const std::string_view> keys,
                                          Verification verification = Verification::kNone);
  Result<bool> Exists(std::string_view key);
  Result<std::vector<bool>> BatchExists(std::span<const std::string_view> keys);
  // How many of the keys are there, from the first on.
  Result<std::uint64_t> MatchPrefix(std::span<const std::string_view> keys);

  // A pinned key is neither deleted nor evicted. Pins are counted and end with the client.
  // Pin: false when the key is not there. Unpin: false when this client has no pin on it.
  Result<bool> Pin(std::string_view key);
  Result<bool> Unpin(std::string_view key);
  // Of a batch all or, with an error, none.
  Result<std::vector<bool>> BatchPin(std::span<const std::string_view> keys);
  Result<std::vector<bool>> BatchUnpin(std::span<const std::string_view> keys);

  // Anyone may delete any key of the namespace.
  Result<Deleted> Delete(std::string_view key);
  Result<std::vector<Deleted>> BatchDelete(std::span<const std::string_view> keys);

  // Whether the server answers: one round trip.
  Status Ping();

  struct Statistics {
    std::uint64_t allocs = 0, alloc_messages = 0;
    std::uint64_t stores = 0, duplicates = 0, stores_failed = 0;
    // Of those that failed: the key is not there, for want of room.
    std::uint64_t stores_refused = 0;
    std::uint64_t hits = 0, misses = 0, server_asks = 0;
    std::uint64_t reconnects = 0, pages_in_hand = 0, pages_held = 0, pages_unknown = 0;
    std::uint64_t leases = 0, pins = 0;
  };
  Statistics statistics() const;  // zeros in a forked child

  // For tools of this project: the handler inside.
  class Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace maru
