// A granted page as Python sees it: the handle that alloc() answers with, and the memory that its
// memoryview and the arrays over that are made of.
//
// All of it is used under the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "handler/handler.h"

namespace maru::python {

class PageMemory;

// The pages of a handler that are in Python's hands, by address: for store() of a handle that an
// adapter has made from an address alone, and for close().
class PagesInHands {
 public:
  using Address = std::pair<uint32_t, uint32_t>;  // region id, page index
  std::shared_ptr<PageMemory> Find(const Address& address) const;
  void Add(const std::shared_ptr<PageMemory>& page);
  void Remove(const PageMemory& page);
  std::vector<std::shared_ptr<PageMemory>> All() const;

 private:
  std::map<Address, std::weak_ptr<PageMemory>> pages_;
};

// One handing out of a page. When the last owner (a handle, its memoryview, an array) is gone and
// it was neither stored nor freed, the page goes back.
class PageMemory : public std::enable_shared_from_this<PageMemory> {
 public:
  PageMemory(std::weak_ptr<handler::Handler> handler, handler::PageHandle handle,
             std::shared_ptr<PagesInHands> pages);
  ~PageMemory();
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  const handler::PageHandle& handle() const { return handle_; }
  PagesInHands::Address address() const { return {handle_.region_id, handle_.page_index}; }
  bool open() const { return open_; }

  // Whether HANDLER is the one that the page is granted to.
  bool OfHandler(const std::weak_ptr<handler::Handler>& handler) const;
  // Ends the page's life, of a call that stored or freed it. HOLD is the call's own (HoldOn); it
  // stays while anything is over the memory.
  void Consumed(std::shared_ptr<handler::MemoryHold> hold);
  // The handler closes: nobody may write any more, but who is over it anyway.
  void Close();

  // Keeps the memory from being anybody else's, whatever becomes of the page; nullptr where its
  // life is over. One LetGo each.
  std::shared_ptr<handler::MemoryHold> HoldOn() const;
  void LetGo(std::shared_ptr<handler::MemoryHold> hold) const;

  // The memoryview, for as long as somebody has it; made anew when nobody does. The place that
  // handles keep it in is emptied when the write access ends.
  using KeptView = std::shared_ptr<nanobind::object>;
  KeptView View();

  // Something is over the memory: an array, a memoryview, whoever fills it.
  void Exported() { ++exports_; }
  void Released();

 private:
  // Releases the memoryview, unless an array is over it. Who has the object yet counts as if it
  // were over the memory: a tensor may be, which keeps the object alone.
  void EndView();

  const std::weak_ptr<handler::Handler> handler_;
  const handler::PageHandle handle_;
  const std::shared_ptr<PagesInHands> pages_;
  std::shared_ptr<handler::MemoryHold> hold_;  // of a page whose life is over
  nanobind::object view_;                      // a weak reference
  std::weak_ptr<nanobind::object> kept_view_;
  uint64_t exports_ = 0;
  bool open_ = true;
};

// A page in a call that may end its life. Until this is gone, what the call does to the page does
// not hand its memory to anybody while something is over it.
class PageInCall {
 public:
  // MEMORY may be nullptr, and closed: then there is nothing to hold.
  explicit PageInCall(std::shared_ptr<PageMemory> memory);
  ~PageInCall();
  PageInCall(PageInCall&&) noexcept = default;
  PageInCall& operator=(PageInCall&&) = delete;

  // The call has stored or freed it. Else nothing was changed.
  void Consumed();

 private:
  std::shared_ptr<PageMemory> memory_;
  std::shared_ptr<handler::MemoryHold> hold_;
};

// What the buffer protocol exports from.
class PageBuffer {
 public:
  explicit PageBuffer(std::shared_ptr<PageMemory> memory) : memory_(std::move(memory)) {}
  PageMemory& memory() { return *memory_; }

 private:
  const std::shared_ptr<PageMemory> memory_;
};

// upstream's AllocHandle: (buf, _region_id, _page_index, _size).
class AllocHandle {
 public:
  explicit AllocHandle(std::shared_ptr<PageMemory> memory);
  AllocHandle(nanobind::object buf, uint32_t region_id, uint32_t page_index, uint64_t size)
      : given_(std::move(buf)), region_id_(region_id), page_index_(page_index), size_(size) {}

  // StateError when the page was stored or freed.
  nanobind::object buf() const;
  uint32_t region_id() const { return region_id_; }
  uint32_t page_index() const { return page_index_; }
  uint64_t size() const { return size_; }
  // nullptr: made by an adapter, of an address.
  const std::shared_ptr<PageMemory>& memory() const { return memory_; }

 private:
  std::shared_ptr<PageMemory> memory_;
  mutable PageMemory::KeptView view_;  // of memory_
  nanobind::object given_;             // of an adapter
  uint32_t region_id_;
  uint32_t page_index_;
  uint64_t size_;
};

void DefinePages(nanobind::module_ module);

}  // namespace maru::python
