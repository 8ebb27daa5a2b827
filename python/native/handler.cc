#include "native/handler.h"

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "client/client_impl.h"
#include "native/errors.h"
#include "native/log.h"
#include "native/waits.h"

namespace maru::python {

namespace nb = nanobind;
using handler::Handler;
using handler::Verify;

namespace {

// A server that is away is no error of a look-up: it says no, as upstream's handler does, and the
// log says why.
template <typename T>
T ValueOr(Result<T> result, T otherwise, const char* call) {
  if (result.ok()) return *std::move(result);
  const StatusCode code = result.status().code();
  if (code != StatusCode::kUnavailable && code != StatusCode::kDeadlineExceeded) {
    Raise(result.status());
  }
  LogWarning(std::string(call) + ": " + result.status().ToString());
  return otherwise;
}

// A checksum takes as long as a copy.
template <typename Call>
auto Looking(bool verify, const Call& call) {
  if (verify) {
    const WithoutLock released;
    return call(Verify::kChecksum);
  }
  const LetGoInWaits waits;
  return call(Verify::kNo);
}

}  // namespace

nb::list ListOf(const std::vector<bool>& answers) {
  nb::list list;
  for (const bool answer : answers) list.append(nb::bool_(answer));
  return list;
}

NativeHandler::~NativeHandler() { Close(); }

std::shared_ptr<Client> NativeHandler::client() const {
  TellLog();
  if (client_ == nullptr) RaiseNotConnected();
  return client_;
}

Handler& NativeHandler::handler() const { return client()->impl().handler(); }

void NativeHandler::Connect() {
  if (std::shared_ptr<Client> there = client_; there != nullptr) {
    const Status connected = [&] {
      const WithoutLock released;
      const Status again = there->impl().handler().Connect();
      there.reset();  // the last one, where it was closed meanwhile
      return again;
    }();
    TellLog();
    return OkOrRaise(connected);
  }
  Result<std::unique_ptr<Client>> connected = [&] {
    const WithoutLock released;
    return Client::Connect(options_);
  }();
  std::shared_ptr<Client> made = ValueOrRaise(std::move(connected));
  if (client_ != nullptr) {  // by another thread meanwhile
    const WithoutLock released;
    made.reset();
    return;
  }
  client_ = std::move(made);
  TellLog();
}

void NativeHandler::Close() {
  if (client_ == nullptr) return;
  std::shared_ptr<Client> closing = std::exchange(client_, nullptr);
  // Write access ends here; what an array is over goes back with that array.
  for (const auto& page : pages_->All()) page->Close();
  const WithoutLock released;
  closing->Close();
  closing.reset();
}

nb::object NativeHandler::InfoOf(handler::View view) const {
  if (!view) return nb::none();
  nb::object info = nb::cast(MemoryInfo(std::move(view)));
  if (leased_ != nullptr) nb::inst_ptr<MemoryInfo>(info)->ListIn(leased_);
  return info;
}

void NativeHandler::ListLeases() {
  if (leased_ == nullptr) leased_ = std::make_shared<LeasedPlaces>();
}

nb::object NativeHandler::LeasedAt(uint32_t region_id, uint32_t page_index,
                                   uint64_t length_bytes) const {
  MemoryInfo* const info =
      leased_ == nullptr ? nullptr : leased_->Find(region_id, page_index, length_bytes);
  return info == nullptr ? nb::none() : nb::find(info);
}

nb::object NativeHandler::RegionView(uint32_t region_id, int64_t offset, int64_t size) {
  if (offset < 0 || size < 0) return nb::none();
  auto memory = handler().BytesOfRegion(region_id, static_cast<uint64_t>(offset),
                                        static_cast<uint64_t>(size));
  if (!memory.ok()) {
    if (memory.status().code() == StatusCode::kNotFound) return nb::none();
    Raise(memory.status());
  }
  const nb::object buffer = nb::cast(RegionBuffer(*std::move(memory)));
  return nb::steal(PyMemoryView_FromObject(buffer.ptr()));
}

nb::object NativeHandler::Retrieve(nb::handle key, bool verify) {
  const auto client = this->client();
  const Key named(key);
  const std::string_view text = named.view();
  return InfoOf(ValueOr(
      Looking(verify, [&](Verify how) { return client->impl().handler().Retrieve(text, how); }),
      handler::View(), "retrieve"));
}

nb::list NativeHandler::BatchRetrieve(nb::handle keys, bool verify) {
  const auto client = this->client();
  const Keys texts(keys);
  auto views = ValueOr(Looking(verify,
                               [&](Verify how) {
                                 return client->impl().handler().BatchRetrieve(texts.views(), how);
                               }),
                       std::vector<handler::View>(texts.size()), "batch_retrieve");
  nb::list list;
  for (handler::View& view : views) list.append(InfoOf(std::move(view)));
  return list;
}

bool NativeHandler::Exists(nb::handle key) {
  const auto client = this->client();
  const Key named(key);
  const std::string_view text = named.view();
  const LetGoInWaits waits;
  return ValueOr(client->impl().handler().Exists(text), false, "exists");
}

nb::list NativeHandler::BatchExists(nb::handle keys) {
  const auto client = this->client();
  const Keys texts(keys);
  const LetGoInWaits waits;
  return ListOf(ValueOr(client->impl().handler().BatchExists(texts.views()),
                        std::vector<bool>(texts.size()), "batch_exists"));
}

uint64_t NativeHandler::MatchPrefix(nb::handle keys) {
  const auto client = this->client();
  const Keys texts(keys);
  const LetGoInWaits waits;
  return ValueOr(client->impl().handler().MatchPrefix(texts.views()), uint64_t{0}, "match_prefix");
}

bool NativeHandler::Pin(nb::handle key) {
  const auto client = this->client();
  const Key named(key);
  const std::string_view text = named.view();
  const LetGoInWaits waits;
  return ValueOr(client->impl().handler().Pin(text), false, "pin");
}

bool NativeHandler::Unpin(nb::handle key) {
  const auto client = this->client();
  const Key named(key);
  const std::string_view text = named.view();
  const LetGoInWaits waits;
  return ValueOr(client->impl().handler().Unpin(text), false, "unpin");
}

nb::list NativeHandler::BatchPin(nb::handle keys) {
  const auto client = this->client();
  const Keys texts(keys);
  Handler& pins = client->impl().handler();
  std::vector<bool> pinned = [&] {
    const LetGoInWaits waits;
    return ValueOr(pins.BatchPin(texts.views()), std::vector<bool>(texts.size()), "batch_pin");
  }();
  // As upstream's server does it: none from the first missing key on.
  bool missing = false;
  for (size_t i = 0; i < pinned.size(); ++i) {
    if (missing && pinned[i]) {
      const LetGoInWaits waits;
      pins.Unpin(texts.views()[i]).ok();
      pinned[i] = false;
    }
    missing |= !pinned[i];
  }
  return ListOf(pinned);
}

nb::list NativeHandler::BatchUnpin(nb::handle keys) {
  const auto client = this->client();
  const Keys texts(keys);
  const LetGoInWaits waits;
  return ListOf(ValueOr(client->impl().handler().BatchUnpin(texts.views()),
                        std::vector<bool>(texts.size()), "batch_unpin"));
}

bool NativeHandler::Delete(nb::handle key) {
  const auto client = this->client();
  const Key named(key);
  const std::string_view text = named.view();
  const Result<Deleted> deleted = [&] {
    const WithoutLock released;
    return client->Delete(text);
  }();
  return ValueOr(deleted, Deleted::kMissing, "delete") == Deleted::kDeleted;
}

nb::list NativeHandler::BatchDelete(nb::handle keys) {
  const auto client = this->client();
  const Keys texts(keys);
  const auto deleted = [&] {
    const WithoutLock released;
    return client->impl().handler().BatchDelete(texts.views());
  }();
  const std::vector<wire::DeleteOutcome> missing(texts.size(), wire::DeleteOutcome::kMissing);
  nb::list answers;
  for (const wire::DeleteOutcome outcome : ValueOr(deleted, missing, "batch_delete")) {
    answers.append(nb::bool_(outcome == wire::DeleteOutcome::kDeleted));
  }
  return answers;
}

bool NativeHandler::Ping() {
  const auto client = client_;
  if (client == nullptr) return false;
  const WithoutLock released;
  return client->Ping().ok();
}

nb::tuple NativeHandler::Inspect(uint8_t topic, uint64_t cursor) const {
  const auto client = this->client();
  wire::Reply reply;
  const Status asked = [&] {
    const WithoutLock released;
    return client->impl().handler().Ask(
        wire::InspectRequest{static_cast<wire::InspectTopic>(topic), cursor}, &reply);
  }();
  OkOrRaise(asked);
  const auto* const summary = std::get_if<wire::InspectReply>(&reply);
  if (summary == nullptr) Raise(DataLoss("the answer to a question for a summary is another"));
  return nb::make_tuple(nb::str(summary->json.c_str(), summary->json.size()), summary->next_cursor);
}

nb::tuple NativeHandler::ListKeys(nb::handle prefix, uint64_t cursor) const {
  const auto client = this->client();
  wire::ListRequest request;
  const Key named(prefix);
  request.prefix = named.view();
  request.cursor = cursor;
  wire::Reply reply;
  const Status asked = [&] {
    const WithoutLock released;
    return client->impl().handler().Ask(request, &reply);
  }();
  OkOrRaise(asked);
  const auto* const listed = std::get_if<wire::ListReply>(&reply);
  if (listed == nullptr) Raise(DataLoss("the answer to a question for keys is another"));
  nb::list keys;
  for (const wire::ListReply::Item& item : listed->items) {
    keys.append(nb::bytes(item.key.data(), item.key.size()));
  }
  return nb::make_tuple(keys, listed->next_cursor);
}

nb::list NativeHandler::Regions() const {
  nb::list regions;
  for (const handler::RegionOfPages& region : ValueOrRaise(handler().Regions())) {
    regions.append(nb::make_tuple(region.region_id, region.page_count, region.page_bytes));
  }
  return regions;
}

nb::dict NativeHandler::Statistics() const {
  const Client::Statistics counts = client()->statistics();
  nb::dict all;
  const auto set = [&](const char* name, uint64_t value) { all[name] = nb::int_(value); };
  set("allocs", counts.allocs);
  set("alloc_messages", counts.alloc_messages);
  set("stores", counts.stores);
  set("duplicates", counts.duplicates);
  set("stores_failed", counts.stores_failed);
  set("stores_refused", counts.stores_refused);
  set("hits", counts.hits);
  set("misses", counts.misses);
  set("server_asks", counts.server_asks);
  set("reconnects", counts.reconnects);
  set("pages_in_hand", counts.pages_in_hand);
  set("pages_held", counts.pages_held);
  set("pages_unknown", counts.pages_unknown);
  set("leases", counts.leases);
  set("pins", counts.pins);
  return all;
}

}  // namespace maru::python
