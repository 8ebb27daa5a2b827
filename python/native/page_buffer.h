// A granted page as Python sees it: the handle that alloc() answers with, and the memory that its
// memoryview and the arrays over that are made of.
//
// All of it is used under the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

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
class PageMemory {
 public:
  PageMemory(std::weak_ptr<handler::Handler> handler, handler::PageHandle handle,
             std::shared_ptr<PagesInHands> pages);
  ~PageMemory();
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  const handler::PageHandle& handle() const { return handle_; }
  PagesInHands::Address address() const { return {handle_.region_id, handle_.page_index}; }
  bool open() const { return open_; }

  // Before a store or free: what is done to the page does not hand its memory to anybody while
  // something is over it. Afterwards Consumed(), or, when nothing was changed, Kept().
  void Consuming();
  void Consumed();
  void Kept();
  // The handler closes: nobody may write any more, but who is over it anyway.
  void Close();

  // The memoryview, for as long as somebody has it; made anew when nobody does.
  nanobind::object View(const std::shared_ptr<PageMemory>& self);
  // Releases it, unless an array or another view is over it.
  void ReleaseView();

  // Of the buffer protocol.
  void Exported() { ++exports_; }
  void Released();

 private:
  void LetGo();

  const std::weak_ptr<handler::Handler> handler_;
  const handler::PageHandle handle_;
  const std::shared_ptr<PagesInHands> pages_;
  std::shared_ptr<handler::MemoryHold> hold_;
  nanobind::object view_;  // a weak reference
  uint64_t exports_ = 0;
  bool open_ = true;
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
      : buf_(std::move(buf)), region_id_(region_id), page_index_(page_index), size_(size) {}

  // StateError when the page was stored or freed.
  nanobind::object buf() const;
  // Ends this handle's own hold on the memory.
  void Drop() const;
  uint32_t region_id() const { return region_id_; }
  uint32_t page_index() const { return page_index_; }
  uint64_t size() const { return size_; }
  // nullptr: made by an adapter, of an address.
  const std::shared_ptr<PageMemory>& memory() const { return memory_; }

 private:
  std::shared_ptr<PageMemory> memory_;
  mutable nanobind::object buf_;
  uint32_t region_id_;
  uint32_t page_index_;
  uint64_t size_;
};

void DefinePages(nanobind::module_ module);

}  // namespace maru::python
