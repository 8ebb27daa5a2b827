#include "engine/text_room.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/defect.h"
#include "base/sequence_point.h"
#include "engine/evict.h"

namespace maru::engine {

using layout::PageState;

bool TextRoom::Make(Stock* stock) {
  if (core_->options.eviction != Eviction::kLeastRecentlyUsed) return false;
  // One walk at a time: another pool's comes to its end by itself, in idle turns.
  if (walk_ != nullptr && walk_->stock != stock) return false;
  if (walk_ == nullptr) {
    walk_ = std::make_unique<Walk>();
    walk_->stock = stock;
    Choose();
  }
  uint64_t looks_left = kLooksMax;
  bool emptied = false;
  do {
    if (!Look(&looks_left)) return false;
    emptied = Empty();
  } while (!emptied && Advance());
  walk_.reset();
  return emptied;
}

bool TextRoom::GoOn() {
  if (walk_ != nullptr) Make(walk_->stock);
  return walk_ != nullptr;
}

bool TextRoom::Choose() {
  catalogue::Writer& writer = walk_->stock->writer();
  walk_->slabs.clear();
  const bool of_all = walk_->aim == Aim::kSparsest;
  for (const uint64_t offset : writer.SparsestText(of_all ? kSlabsMax : SIZE_MAX)) {
    if (walk_->slabs.size() == kSlabsMax) break;
    if (walk_->staying.contains(offset)) continue;
    writer.CloseText(offset);
    walk_->slabs.push_back({offset, {}, false});
  }
  return !walk_->slabs.empty();
}

bool TextRoom::Advance() {
  walk_->next_record = 1;
  switch (walk_->aim) {
    case Aim::kSparsest:
      if (walk_->slabs.size() < kSlabsMax) return false;  // there are no others
      walk_->slabs.clear();
      walk_->aim = Aim::kStaying;
      return true;
    case Aim::kStaying: walk_->aim = Aim::kOthers; return Choose();
    case Aim::kOthers: return false;
  }
  return false;
}

uint64_t TextRoom::TextOf(RecordNumber record) const {
  const layout::PageRecord* const page = walk_->stock->pool().view().Record(record);
  if (page == nullptr) return 0;
  // Relaxed, both: this process stores them.
  const layout::StateWord word(page->state_word.load(std::memory_order_relaxed));
  if (word.state() != PageState::kLive) return 0;
  return page->text_offset.load(std::memory_order_relaxed);
}

TextRoom::Slab* TextRoom::SlabOf(RecordNumber record) {
  const uint64_t text = TextOf(record);
  if (text == 0) return nullptr;
  const auto in = [text](const Slab& slab) {
    return text - slab.offset_bytes < layout::kTextSlabBytes;
  };
  const auto at = std::ranges::find_if(walk_->slabs, in);
  return at == walk_->slabs.end() ? nullptr : &*at;
}

bool TextRoom::Look(uint64_t* looks_left) {
  const uint64_t end =
      walk_->stock->pool().view().root().record_high.load(std::memory_order_relaxed);
  const uint64_t stop = std::min(end, walk_->next_record + *looks_left);
  *looks_left -= stop - std::min(stop, walk_->next_record);
  std::optional<LeasedPages> leased;
  if (walk_->aim == Aim::kStaying) leased.emplace(core_, Scope{.pool = walk_->stock});
  for (; walk_->next_record < stop; ++walk_->next_record) {
    const RecordNumber record(static_cast<uint32_t>(walk_->next_record));
    if (!leased) {
      if (Slab* const slab = SlabOf(record)) slab->keys.push_back(record);
    } else if (const uint64_t text = TextOf(record); text != 0 && Stays(record, *leased)) {
      walk_->staying.insert(AlignDown(text, layout::kTextSlabBytes));
    }
  }
  return walk_->next_record >= end;
}

bool TextRoom::Stays(RecordNumber record, const LeasedPages& leased) const {
  Stock& stock = *walk_->stock;
  // A live page in no list is of the request under way, which goes on with it.
  const bool under_way = kDefect != Defect::kTextRoomTakesNewKeys && !stock.lists().Linked(record);
  return under_way || stock.IsExtent(record) || leased.Contains(stock, record) ||
         Core::GloballyPinned(stock, record) || core_->OnHold(stock, record);
}

bool TextRoom::Empty() {
  if (walk_->slabs.empty()) return false;
  const LeasedPages leased(core_, {.pool = walk_->stock});
  for (Slab& slab : walk_->slabs) {
    // Keys may have gone meanwhile, and their records may be of others.
    std::erase_if(slab.keys, [&](RecordNumber record) { return SlabOf(record) != &slab; });
    slab.held =
        std::ranges::any_of(slab.keys, [&](RecordNumber record) { return Stays(record, leased); });
  }
  const auto emptied = std::ranges::find_if(
      walk_->slabs, [this](const Slab& slab) { return !slab.held && Empty(slab); });
  for (const Slab& slab : walk_->slabs) walk_->stock->writer().OpenText(slab.offset_bytes);
  return emptied != walk_->slabs.end();
}

bool TextRoom::Empty(const Slab& slab) {
  std::vector<Target> targets;
  targets.reserve(slab.keys.size());
  for (const RecordNumber record : slab.keys) {
    targets.push_back({walk_->stock, record, Target::Fate::kSpared});
  }
  retirement_->Retire(targets, Cause::kEvict);
  const auto spared =
      static_cast<uint64_t>(std::ranges::count(targets, Target::Fate::kSpared, &Target::fate));
  core_->counters.evicted += targets.size() - spared;
  core_->counters.eviction_spared += spared;
  if (spared == 0) MARU_SEQUENCE_POINT("text-room:emptied");
  return spared == 0;
}

}  // namespace maru::engine
