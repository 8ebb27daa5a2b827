#include "maru/client.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "client/client_impl.h"
#include "client/defaults.h"
#include "os/clock.h"
#include "os/process.h"

namespace maru {

namespace {

std::vector<Deleted> Translate(const std::vector<wire::DeleteOutcome>& outcomes) {
  std::vector<Deleted> deleted;
  deleted.reserve(outcomes.size());
  for (wire::DeleteOutcome outcome : outcomes) deleted.push_back(static_cast<Deleted>(outcome));
  return deleted;
}

handler::Verify Translate(Verification verification) {
  return verification == Verification::kChecksum ? handler::Verify::kChecksum
                                                 : handler::Verify::kNo;
}

handler::HandlerOptions HandlerOptionsOf(const ClientOptions& options) {
  handler::HandlerOptions inner;
  inner.label = options.label.empty() ? client::DefaultLabel() : options.label;
  inner.name_space = options.name_space;
  inner.page_bytes = options.page_bytes;
  inner.budget_bytes = options.budget_bytes;
  inner.hand_bytes_max = options.hand_bytes_max;
  inner.turn_wait_ns_max = uint64_t{options.timeout_ms} * kNanosPerMilli;
  return inner;
}

// The process is somebody else's: nothing is written to its standard error. A handler that is there
// already (a tool's, a simulator's) stays.
void LogFailedChecks() {
  // Not a static that is made by whoever comes first: a fork meanwhile would leave it half made.
  static constinit std::atomic<bool> done{false};
  if (done.exchange(true, std::memory_order_relaxed)) return;
  const CheckHandler former =
      SetCheckHandler([](const CheckFailure& failure) { LogError(failure.ToString()); });
  if (former != nullptr) SetCheckHandler(former);
}

}  // namespace

struct Page::Rep {
  std::weak_ptr<handler::Handler> handler;
  handler::PageHandle handle;
};

Page::Page() = default;
Page::Page(Page&& other) noexcept
    : rep_(std::move(other.rep_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      region_id_(other.region_id_),
      page_index_(other.page_index_) {}

Page& Page::operator=(Page&& other) noexcept {
  if (this == &other) return *this;
  Page former(std::move(*this));
  rep_ = std::move(other.rep_);
  data_ = std::exchange(other.data_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  region_id_ = other.region_id_;
  page_index_ = other.page_index_;
  return *this;
}

Page::~Page() {
  if (rep_ == nullptr) return;
  // A page whose client is closed or gone goes back with the mapping that its handle keeps.
  if (const auto handler = rep_->handler.lock()) {
    handler->Free(rep_->handle, handler::Handler::IfStored::kIsOver).ok();
  }
}

struct PageHold::Rep {
  std::weak_ptr<handler::Handler> handler;
  std::shared_ptr<handler::MemoryHold> hold;
};

PageHold::PageHold() = default;
PageHold::PageHold(PageHold&&) noexcept = default;
PageHold& PageHold::operator=(PageHold&& other) noexcept {
  if (this == &other) return *this;
  Release();
  rep_ = std::move(other.rep_);
  return *this;
}
PageHold::~PageHold() { Release(); }

void PageHold::Release() {
  if (rep_ == nullptr) return;
  // Without its handler what is held ends with the mapping.
  if (const auto handler = rep_->handler.lock()) handler->LetGo(rep_->hold);
  rep_.reset();
}

struct View::Rep {
  handler::View view;
};

View::View() = default;
View::~View() = default;
View::View(View&& other) noexcept
    : rep_(std::move(other.rep_)),
      bytes_(std::exchange(other.bytes_, {})),
      region_id_(other.region_id_),
      page_index_(other.page_index_) {}
View& View::operator=(View&& other) noexcept {
  if (this == &other) return *this;
  rep_ = std::move(other.rep_);
  bytes_ = std::exchange(other.bytes_, {});
  region_id_ = other.region_id_;
  page_index_ = other.page_index_;
  return *this;
}
void View::Release() {
  rep_.reset();
  bytes_ = {};
}

Client::Impl::Impl(const ClientOptions& options, client::ServerAddress server,
                   std::optional<uint32_t> server_user)
    : link_(std::move(server), server_user, options.timeout_ms),
      handler_(std::make_shared<handler::Handler>(HandlerOptionsOf(options), &link_,
                                                  &os::RealClock())) {}

Client::Impl::~Impl() { Close(); }

Status Client::Impl::Connect() {
  MARU_RETURN_IF_ERROR(handler_->Connect());
  return AddBackgroundTask(this);
}

void Client::Impl::Close() {
  RemoveBackgroundTask(this);
  // A Page that the application still has stays its own until it is destroyed.
  handler_->Close(handler::Handler::HeldPages::kKeepForTheirHandles);
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Client::~Client() {
  if (!impl_->inert()) return;
  // What another thread of the parent was changing at the fork may be half changed in the child.
  [[maybe_unused]] const Impl* const left_as_it_is = impl_.release();
}

Result<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  LogFailedChecks();
  MARU_RETURN_IF_ERROR(client::CheckOptions(options));
  MARU_ASSIGN_OR_RETURN(const auto server_user, client::TrustedServerUser(options));
  MARU_ASSIGN_OR_RETURN(client::ServerAddress server,
                        client::ParseServer(options.server_url.empty() ? client::DefaultSocketPath()
                                                                       : options.server_url));
  auto impl = std::make_unique<Impl>(options, std::move(server), server_user);
  MARU_RETURN_IF_ERROR(impl->Connect());
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

void Client::Close() { impl_->Close(); }
bool Client::connected() const { return impl_->handler().connected(); }

Result<Page> Client::Alloc(std::uint64_t size_bytes) {
  MARU_ASSIGN_OR_RETURN(handler::PageHandle handle, impl_->handler().Alloc(size_bytes));
  Page page;
  page.data_ = handle.data;
  page.size_bytes_ = size_bytes;
  page.region_id_ = handle.region_id;
  page.page_index_ = handle.page_index;
  page.rep_ = std::make_unique<Page::Rep>(Page::Rep{impl_->weak_handler(), std::move(handle)});
  return page;
}

Result<bool> Client::Store(std::string_view key, Page&& page, std::uint64_t length_bytes) {
  if (!page) return InvalidArgument("store of an empty page: it was stored or moved before");
  const std::uint64_t length = length_bytes == 0 ? page.size_bytes() : length_bytes;
  Result<bool> stored = impl_->handler().Store(key, page.rep_->handle, length);
  if (!stored.ok()) return stored;
  const Page consumed(std::move(page));
  consumed.rep_->handler.reset();
  return stored;
}

Result<bool> Client::Store(std::string_view key, const PageAddress& page,
                           std::uint64_t length_bytes) {
  MARU_ASSIGN_OR_RETURN(const handler::PageHandle handle,
                        impl_->handler().FromAddress(page.region_id, page.page_index));
  return impl_->handler().Store(key, handle, length_bytes);
}

Status Client::Free(Page&& page) {
  if (!page) return InvalidArgument("free of an empty page: it was stored, freed or moved before");
  MARU_RETURN_IF_ERROR(
      impl_->handler().Free(page.rep_->handle, handler::Handler::IfStored::kIsOver));
  const Page consumed(std::move(page));
  consumed.rep_->handler.reset();
  return OkStatus();
}

Status Client::Free(const PageAddress& page) {
  MARU_ASSIGN_OR_RETURN(const handler::PageHandle handle,
                        impl_->handler().FromAddress(page.region_id, page.page_index));
  return impl_->handler().Free(handle);
}

Result<PageHold> Client::Hold(const Page& page) {
  if (!page) return InvalidArgument("hold of an empty page: it was stored or moved before");
  MARU_ASSIGN_OR_RETURN(auto hold, impl_->handler().HoldOn(page.rep_->handle));
  PageHold out;
  out.rep_ = std::make_unique<PageHold::Rep>(PageHold::Rep{impl_->weak_handler(), std::move(hold)});
  return out;
}

Result<std::vector<bool>> Client::BatchStore(std::span<const std::string_view> keys,
                                             std::span<Page> pages) {
  if (keys.size() != pages.size()) {
    return InvalidArgument("batch store of " + std::to_string(keys.size()) + " keys and " +
                           std::to_string(pages.size()) + " pages");
  }
  std::vector<handler::Handler::StoreItem> items;
  items.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!pages[i]) {
      return InvalidArgument("page " + std::to_string(i) +
                             " is empty: it was stored or moved before");
    }
    items.push_back({keys[i], pages[i].rep_->handle, pages[i].size_bytes()});
  }
  Result<std::vector<bool>> stored = impl_->handler().BatchStore(items);
  if (!stored.ok()) return stored;
  for (Page& page : pages) {
    const Page consumed(std::move(page));
    consumed.rep_->handler.reset();
  }
  return stored;
}

Result<bool> Client::Put(std::string_view key, std::span<const std::byte> bytes) {
  MARU_ASSIGN_OR_RETURN(Page page, Alloc(bytes.size()));
  std::memcpy(page.data(), bytes.data(), bytes.size());
  return Store(key, std::move(page));
}

View Client::Impl::Wrap(handler::View view) {
  View out;
  out.bytes_ = view.bytes();
  out.region_id_ = view.region_id();
  out.page_index_ = view.page_index();
  if (view) out.rep_ = std::make_unique<View::Rep>(View::Rep{std::move(view)});
  return out;
}

Result<View> Client::Retrieve(std::string_view key, Verification verification) {
  MARU_ASSIGN_OR_RETURN(handler::View view,
                        impl_->handler().Retrieve(key, Translate(verification)));
  return Impl::Wrap(std::move(view));
}

Result<std::vector<View>> Client::BatchRetrieve(std::span<const std::string_view> keys,
                                                Verification verification) {
  MARU_ASSIGN_OR_RETURN(std::vector<handler::View> views,
                        impl_->handler().BatchRetrieve(keys, Translate(verification)));
  std::vector<View> wrapped;
  wrapped.reserve(views.size());
  for (handler::View& view : views) wrapped.push_back(Impl::Wrap(std::move(view)));
  return wrapped;
}

Result<bool> Client::Exists(std::string_view key) { return impl_->handler().Exists(key); }
Result<std::vector<bool>> Client::BatchExists(std::span<const std::string_view> keys) {
  return impl_->handler().BatchExists(keys);
}
Result<std::uint64_t> Client::MatchPrefix(std::span<const std::string_view> keys) {
  return impl_->handler().MatchPrefix(keys);
}
Result<bool> Client::Pin(std::string_view key) { return impl_->handler().Pin(key); }
Result<bool> Client::Unpin(std::string_view key) { return impl_->handler().Unpin(key); }
Result<std::vector<bool>> Client::BatchPin(std::span<const std::string_view> keys) {
  return impl_->handler().BatchPin(keys);
}
Result<std::vector<bool>> Client::BatchUnpin(std::span<const std::string_view> keys) {
  return impl_->handler().BatchUnpin(keys);
}

Result<Deleted> Client::Delete(std::string_view key) {
  MARU_ASSIGN_OR_RETURN(const wire::DeleteOutcome outcome, impl_->handler().Delete(key));
  return static_cast<Deleted>(outcome);
}
Result<std::vector<Deleted>> Client::BatchDelete(std::span<const std::string_view> keys) {
  MARU_ASSIGN_OR_RETURN(const std::vector<wire::DeleteOutcome> outcomes,
                        impl_->handler().BatchDelete(keys));
  return Translate(outcomes);
}

Status Client::Ping() { return impl_->handler().Ping(); }

Client::Statistics Client::statistics() const {
  const handler::Handler::Counters counters = impl_->handler().counters();
  Statistics out;
  out.allocs = counters.allocs;
  out.alloc_messages = counters.alloc_messages;
  out.stores = counters.stores;
  out.duplicates = counters.duplicates;
  out.stores_failed = counters.failed;
  out.stores_refused = counters.refused;
  out.hits = counters.hits;
  out.misses = counters.misses;
  out.server_asks = counters.server_asks;
  out.reconnects = counters.reconnects;
  out.pages_in_hand = counters.free_in_hand;
  out.pages_held = counters.held;
  out.pages_unknown = counters.unknown;
  out.leases = counters.leases;
  out.pins = counters.pins;
  return out;
}

}  // namespace maru
