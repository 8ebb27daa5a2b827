#include "engine/text_room.h"

#include <algorithm>

#include "base/defect.h"
#include "base/sequence_point.h"
#include "engine/evict.h"

namespace maru::engine {

using layout::PageState;

bool TextRoom::Make(Stock* stock) {
  if (core_->options.eviction != Eviction::kLeastRecentlyUsed) return false;
  // One walk at a time: another pool's comes to its end by itself, in idle turns.
  if (walk_ != nullptr && walk_->stock != stock) return false;
  if (walk_ == nullptr) Begin(stock);
  if (!Look()) return false;
  const bool emptied = Empty();
  walk_.reset();
  return emptied;
}

bool TextRoom::GoOn() {
  if (walk_ != nullptr) Make(walk_->stock);
  return walk_ != nullptr;
}

void TextRoom::Begin(Stock* stock) {
  walk_ = std::make_unique<Walk>();
  walk_->stock = stock;
  for (const uint64_t offset : stock->writer().SparsestText(kSlabsMax)) {
    stock->writer().CloseText(offset);
    walk_->slabs.push_back({offset, {}, false});
  }
}

TextRoom::Slab* TextRoom::SlabOf(RecordNumber record) {
  const layout::PageRecord* const page = walk_->stock->pool().view().Record(record);
  if (page == nullptr) return nullptr;
  // Relaxed, both: this process stores them.
  const layout::StateWord word(page->state_word.load(std::memory_order_relaxed));
  if (word.state() != PageState::kLive) return nullptr;
  const uint64_t text = page->text_offset.load(std::memory_order_relaxed);
  const auto in = [text](const Slab& slab) {
    return text - slab.offset_bytes < layout::kTextSlabBytes;
  };
  const auto at = std::ranges::find_if(walk_->slabs, in);
  return at == walk_->slabs.end() ? nullptr : &*at;
}

bool TextRoom::Look() {
  const uint64_t end =
      walk_->stock->pool().view().root().record_high.load(std::memory_order_relaxed);
  const uint64_t stop = std::min(end, walk_->next_record + kLooksMax);
  for (; walk_->next_record < stop; ++walk_->next_record) {
    const RecordNumber record(static_cast<uint32_t>(walk_->next_record));
    if (Slab* const slab = SlabOf(record)) slab->keys.push_back(record);
  }
  return walk_->next_record >= end;
}

bool TextRoom::Empty() {
  const LeasedPages leased(core_, {.pool = walk_->stock});
  for (Slab& slab : walk_->slabs) {
    // Keys may have gone meanwhile, and their records may be of others.
    std::erase_if(slab.keys, [&](RecordNumber record) { return SlabOf(record) != &slab; });
    slab.held = std::ranges::any_of(slab.keys, [&](RecordNumber record) {
      // A live page in no list is of the request under way, which goes on with it.
      const bool under_way =
          kDefect != Defect::kTextRoomTakesNewKeys && !walk_->stock->lists().Linked(record);
      return under_way || walk_->stock->IsExtent(record) ||
             leased.Contains(*walk_->stock, record) ||
             Core::GloballyPinned(*walk_->stock, record) || core_->OnHold(*walk_->stock, record);
    });
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
