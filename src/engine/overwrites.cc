#include "engine/overwrites.h"

#include <algorithm>
#include <iterator>

namespace maru::engine {

bool Overwrites::OverlapsAPlace(const Place& place, uint64_t end) const {
  const auto next = places_.lower_bound(place);
  if (next != places_.end() && next->first.region == place.region && next->first.begin < end) {
    return true;
  }
  if (next == places_.begin()) return false;
  const auto& [before, before_end] = *std::prev(next);
  return before.region == place.region && before_end > place.begin;
}

bool Overwrites::Collect(const Lending::Lent& lent, const wire::compat::RegisterEntry& entry,
                         const Core::Hit* kept, std::vector<RecordNumber>* records) const {
  const uint64_t begin = entry.offset_bytes;
  // Beside those that are left: the kept one, one at each end that another entry takes as well, and
  // one that tells of more.
  const std::vector<RecordNumber> overlapping = lent.stock->client_regions().Overlapping(
      *lent.region, begin, begin + entry.length_bytes, left_ + 4);
  for (const RecordNumber record : overlapping) {
    const layout::PageRecord* const fields = lent.stock->pool().view().Record(record);
    // Relaxed: this process wrote it.
    const uint64_t from = fields->extent_offset_bytes.load(std::memory_order_relaxed);
    const bool own = kept != nullptr && kept->stock == lent.stock && kept->record == record;
    if (taken_.contains({lent.stock, record}) || (own && from == begin)) continue;
    if (found_.contains({lent.stock, record})) return false;
    records->push_back(record);
  }
  return true;
}

bool Overwrites::None(const Lending::Lent& lent, const wire::compat::RegisterEntry& entry,
                      const Core::Hit* there) {
  std::vector<RecordNumber> records;
  if (lent.region != nullptr) Overwrites(0).Collect(lent, entry, there, &records);
  return records.empty();
}

Overwrites::Taken Overwrites::Add(const Lending::Lent& lent,
                                  const wire::compat::RegisterEntry& entry,
                                  const Core::Hit* there) {
  if (lent.region != nullptr) {
    const Place place{lent.region, entry.offset_bytes};
    const uint64_t end = entry.offset_bytes + entry.length_bytes;
    std::vector<RecordNumber> records;
    if (OverlapsAPlace(place, end) || !Collect(lent, entry, there, &records)) return Taken::kLater;
    const bool all = records.size() <= left_;
    if (!all) records.resize(left_);
    left_ -= records.size();
    for (const RecordNumber record : records) {
      targets_.push_back({lent.stock, record, Target::Fate::kSpared});
      taken_.emplace(lent.stock, record);
    }
    if (!all) return Taken::kSome;
    places_.emplace(place, end);
  }
  if (there != nullptr) found_.emplace(there->stock, there->record);
  return Taken::kAll;
}

}  // namespace maru::engine
