// The native half of MaruHandler: a client, and the pages of it that Python has.
//
// Used under the interpreter lock; calls let go of it while they wait.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "maru/client.h"
#include "native/keys.h"
#include "native/page_buffer.h"
#include "native/view.h"

namespace maru::python {

class NativeHandler {
 public:
  explicit NativeHandler(ClientOptions options) : options_(std::move(options)) {}
  ~NativeHandler();

  void Connect();
  void Close();
  bool connected() const { return client_ != nullptr && client_->connected(); }

  AllocHandle Alloc(uint64_t size);
  void Free(const AllocHandle& handle);
  bool Store(nanobind::handle key, const AllocHandle* handle, nanobind::handle data);
  nanobind::list BatchStore(nanobind::handle keys, nanobind::handle handles);

  nanobind::object Retrieve(nanobind::handle key, bool verify);
  nanobind::list BatchRetrieve(nanobind::handle keys, bool verify);
  bool Exists(nanobind::handle key);
  nanobind::list BatchExists(nanobind::handle keys);
  uint64_t MatchPrefix(nanobind::handle keys);
  bool Pin(nanobind::handle key);
  bool Unpin(nanobind::handle key);
  nanobind::list BatchPin(nanobind::handle keys);
  nanobind::list BatchUnpin(nanobind::handle keys);
  bool Delete(nanobind::handle key);
  nanobind::list BatchDelete(nanobind::handle keys);
  bool Ping();
  nanobind::dict Statistics() const;
  // JSON of the server, and where it goes on; 0: nowhere.
  nanobind::tuple Inspect(uint8_t topic, uint64_t cursor) const;
  // Some keys that begin so, and where it goes on; 0: nowhere.
  nanobind::tuple ListKeys(nanobind::handle prefix, uint64_t cursor) const;
  // (region id, pages, bytes of a page) of each region of pages.
  nanobind::list Regions() const;
  // Read-only memory of a region, without a lease: None when there is none such.
  nanobind::object RegionView(uint32_t region_id, int64_t offset, int64_t size);
  // From now on LeasedAt finds what retrieve and batch_retrieve answer.
  void ListLeases();
  // A MemoryInfo that lives, by what it says of itself; None.
  nanobind::object LeasedAt(uint32_t region_id, uint32_t page_index, uint64_t length_bytes) const;
  // Frees the page unless its life is over; whether it was.
  bool FreeIfHeld(const AllocHandle& handle);

 private:
  handler::Handler& handler() const;
  std::shared_ptr<Client> client() const;
  // The page that a handle means, and its memory where Python has that. InvalidArgument: another
  // handler's.
  handler::PageHandle Open(const AllocHandle& handle, std::shared_ptr<PageMemory>* memory) const;
  AllocHandle Filled(nanobind::handle data);
  nanobind::object InfoOf(handler::View view) const;

  const ClientOptions options_;
  std::shared_ptr<Client> client_;
  const std::shared_ptr<PagesInHands> pages_ = std::make_shared<PagesInHands>();
  std::shared_ptr<LeasedPlaces> leased_;  // nullptr: nobody asks
};

// One answer for each key.
nanobind::list ListOf(const std::vector<bool>& answers);

void DefineHandler(nanobind::module_ module);

}  // namespace maru::python
