// Lookups in a mapped catalogue, without a message, a lock or a wait. The protocol, its orders and
// the models that prove them: docs/memory_model.md.
//
// Thread-safe: a Reader has no state of its own but hints, which its copies share.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/ids.h"
#include "catalogue/key.h"
#include "catalogue/text_places.h"
#include "catalogue/view.h"

namespace maru::catalogue {

enum class FindVerdict : uint8_t {
  kMiss = 0,       // not there
  kLive = 1,       // LIVE under this key at one moment of the call
  kRetiring = 2,   // RETIRING under this key: keep what you hold and ask the server (Resolve)
  kAskServer = 3,  // the retries are used up (the tables kept changing), or the pool has no index
                   // at the moment: ask the server (Find)
};

struct Found {
  RecordNumber record{0};
  Generation generation{0};
  uint64_t length_bytes = 0;  // as the record says: compare it with PageExtent::page_bytes
  uint64_t checksum = 0;
};

class Reader {
 public:
  static constexpr int kRetriesMax = 16;

  Reader() = default;
  explicit Reader(PoolView view) : view_(view), places_(std::make_shared<TextPlaces>()) {}
  const PoolView& view() const { return view_; }

  // A key that is LIVE for the whole call is never missed; nothing that was never true is found.
  FindVerdict Find(const KeyRef& key, Found* out) const;

  // The same for many keys: overlaps their cache misses. REQUIRES: equal sizes.
  void FindBatch(std::span<const KeyRef> keys, std::span<FindVerdict> verdicts,
                 std::span<Found> found) const;

 private:
  void FindGroup(std::span<const KeyRef> keys, std::span<FindVerdict> verdicts,
                 std::span<Found> found) const;

  PoolView view_;
  std::shared_ptr<TextPlaces> places_;
};

}  // namespace maru::catalogue
