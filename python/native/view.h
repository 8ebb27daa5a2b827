// What retrieve() answers with: a lease, and the read-only memory under it.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "handler/handler.h"

namespace maru::python {

class MemoryInfo;

// The leases of a handler that Python has, by address: for adapters that pass on where the bytes of
// a key lie, and not the lease itself.
class LeasedPlaces {
 private:
  // Those of the same bytes are neighbours.
  using Place = std::tuple<uint32_t, uint32_t, size_t, const std::byte*>;
  std::multimap<Place, MemoryInfo*> places_;

 public:
  using Entry = std::multimap<Place, MemoryInfo*>::iterator;
  Entry Add(MemoryInfo* info);
  void Remove(Entry entry) { places_.erase(entry); }
  // One of those at that address; nullptr: none, or of several keys, as in a region that a client
  // of upstream's protocol has cut.
  MemoryInfo* Find(uint32_t region_id, uint32_t page_index, uint64_t length_bytes) const;
};

// upstream's MemoryInfo: (view, region_id, page_index). The object is the lease; `view`, and every
// array over that, keeps it.
class MemoryInfo {
 public:
  explicit MemoryInfo(handler::View view) : view_(std::move(view)) {}
  MemoryInfo(nanobind::object given, uint32_t region_id, uint32_t page_index)
      : given_(std::move(given)), region_id_(region_id), page_index_(page_index) {}
  // REQUIRES: not listed yet.
  MemoryInfo(MemoryInfo&&) noexcept = default;
  ~MemoryInfo();

  // Where this stays: PLACES finds it from now on, as long as it lives.
  void ListIn(std::shared_ptr<LeasedPlaces> places);

  std::span<const std::byte> bytes() const { return view_.bytes(); }
  bool leased() const { return static_cast<bool>(view_); }
  nanobind::object given() const { return given_; }
  uint32_t region_id() const { return view_ ? view_.region_id() : region_id_; }
  uint32_t page_index() const { return view_ ? view_.page_index() : page_index_; }

 private:
  handler::View view_;
  nanobind::object given_;  // of one that Python made
  uint32_t region_id_ = 0, page_index_ = 0;
  std::shared_ptr<LeasedPlaces> places_;
  LeasedPlaces::Entry entry_;  // of places_
};

// Memory of a region, as get_buffer_view answers it.
class RegionBuffer {
 public:
  explicit RegionBuffer(handler::RegionMemory memory) : memory_(std::move(memory)) {}
  std::span<const std::byte> bytes() const { return memory_.bytes; }

 private:
  handler::RegionMemory memory_;
};

void DefineViews(nanobind::module_ module);

}  // namespace maru::python
