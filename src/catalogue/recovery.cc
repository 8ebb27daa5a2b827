#include "catalogue/recovery.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/prefetch.h"
#include "catalogue/key_text.h"
#include "catalogue/publication_points.h"
#include "layout/validate.h"
#include "layout/values.h"

namespace maru::catalogue {

using layout::PageRecord;
using layout::PageState;
using layout::StateWord;

namespace {

constexpr uint64_t kClientIdMax = 0xFFFFFFFF;

// Loads are relaxed throughout: the one writer has not started yet.
StateWord Word(const PageRecord& page) {
  return StateWord(page.state_word.load(std::memory_order_relaxed));
}

bool Keyed(StateWord word) {
  return word.state() == PageState::kLive || word.state() == PageState::kRetiring;
}

// Of a word that may be damaged: a generation that a page can go on from.
Generation UsableGeneration(StateWord word) {
  return Generation(std::clamp(word.generation().value(), 1u, layout::kGenerationMax));
}

}  // namespace

Status Recovery::Run(RecoverySummary* summary) {
  MARU_RETURN_IF_ERROR(ReadParts());
  for (const RegionExtent& region : regions_) {
    if (region.kind == layout::RegionKind::kPages) MARU_RETURN_IF_ERROR(ReadRun(region));
  }
  // To the end of the chunks, also where no number was ever handed out: what a record starts with
  // must be known.
  for (const auto& [first, count] : runs_->free()) {
    MARU_RETURN_IF_ERROR(ReadFreeRun(first, count));
  }
  runs_->Claim(extents_);
  runs_->Claim(condemned_);
  text_->Settle();
  MARU_RETURN_IF_ERROR(CheckOverlaps());
  MARU_RETURN_IF_ERROR(DraftIndex());
  MARU_RETURN_IF_ERROR(BuildIndex());
  Apply();
  index_->PublishRebuilt();
  summary_.index_entries = index_->current().entries();
  *summary = summary_;
  return OkStatus();
}

Status Recovery::ReadParts() {
  MARU_ASSIGN_OR_RETURN(regions_, ReadRegions(*memory_));
  MARU_RETURN_IF_ERROR(runs_->Recover(regions_));
  for (const RegionExtent& region : regions_) {
    if (region.kind == layout::RegionKind::kText) {
      text_->AddRegion(region.offset_bytes, region.length_bytes);
    } else if (region.kind == layout::RegionKind::kIndex) {
      index_->AddRoom(region.offset_bytes, region.length_bytes);
    } else if (region.kind == layout::RegionKind::kClientCut) {
      client_cut_.emplace(region.slot, &region);
    }
  }
  const Status held = index_->HoldNamedTables();
  // Of an earlier boot: nobody probes its tables any more, and they are derived.
  return damage_ == Damage::kDrop ? OkStatus() : held;
}

Status Recovery::ReadRun(const RegionExtent& region) {
  for (uint32_t i = 0; i < region.page_count; ++i) {
    const RecordNumber record(region.first_record.value() + i);
    const PageRecord* page = memory_->Record(record);
    MARU_CHECK(page != nullptr) << "record " << record;  // RecordRuns checked the run
    const Status read = Read(record, *page, region);
    if (read.ok()) continue;
    MARU_RETURN_IF_ERROR(Offend(record, std::string(read.message())));
    Drop(record, Word(*page), region.slot);
  }
  return OkStatus();
}

Status Recovery::Offend(RecordNumber record, const std::string& what) {
  if (damage_ == Damage::kDrop) return OkStatus();
  return DataLoss("record " + std::to_string(record.value()) + ": " + what);
}

void Recovery::Drop(RecordNumber record, StateWord word, RegionSlot slot) {
  repairs_.push_back({record, StateWord::Make(PageState::kFree, UsableGeneration(word)), slot});
  ++summary_.dropped;
}

Status Recovery::Read(RecordNumber record, const PageRecord& page, const RegionExtent& region) {
  const StateWord word = Word(page);
  if (!word.Valid()) return DataLoss("impossible state word " + std::to_string(word.bits()));
  const bool placed = page.region_slot.load(std::memory_order_relaxed) == region.slot.value();
  if (!Keyed(word)) MARU_RETURN_IF_ERROR(CheckFields(page));
  switch (word.state()) {
    case PageState::kAbsent:
      // The server died between publishing the region and binding its records.
      repairs_.push_back(
          {record, StateWord::Make(PageState::kFree, UsableGeneration(word)), region.slot});
      return OkStatus();
    case PageState::kFree:
    case PageState::kWorn:
      // Of a former region, while its numbers were being bound anew.
      if (!placed) repairs_.push_back({record, word, region.slot});
      return OkStatus();
    default: break;
  }
  if (!placed) {
    return DataLoss("its region slot is " +
                    std::to_string(page.region_slot.load(std::memory_order_relaxed)) +
                    ", it lies in slot " + std::to_string(region.slot.value()));
  }
  if (Keyed(word)) {
    MARU_RETURN_IF_ERROR(CheckKeyed(page, region.page_bytes));
    if (word.state() == PageState::kRetiring) retiring_.push_back(record);
    ++summary_.live;
  }
  summary_.granted += word.state() == PageState::kGranted;
  summary_.quarantined += word.state() == PageState::kQuarantined;
  summary_.condemned += word.state() == PageState::kCondemned;
  return OkStatus();
}

Status Recovery::CheckFields(const PageRecord& page) const {
  return layout::ValidatePageRecord(layout::ReadPage(page), memory_->view().bytes());
}

Status Recovery::CheckKeyed(const PageRecord& page, uint64_t room_bytes) {
  const uint64_t packed = page.key_sizes.load(std::memory_order_relaxed);
  if (!layout::KeySizes::Valid(packed)) {
    return DataLoss("impossible key sizes " + std::to_string(packed));
  }
  const uint64_t length = page.length_bytes.load(std::memory_order_relaxed);
  if (length > room_bytes) {
    return DataLoss("it stores " + std::to_string(length) + " bytes in a page of " +
                    std::to_string(room_bytes));
  }
  // As layout::ValidatePageRecord: the server's clocks go on from these.
  const uint64_t owner = page.owner.load(std::memory_order_relaxed);
  if (owner > kClientIdMax) return DataLoss("its owner is " + std::to_string(owner));
  const uint64_t last_use = page.last_use.load(std::memory_order_relaxed);
  if (last_use > layout::kUseTickMax) {
    return DataLoss("its last use is " + std::to_string(last_use));
  }
  // Before the text is taken over: nobody would give it back.
  MARU_RETURN_IF_ERROR(CheckFields(page));
  summary_.owner_high = std::max(summary_.owner_high, owner);
  return text_->Adopt(page.text_offset.load(std::memory_order_relaxed),
                      layout::KeySizes::Unpack(packed).text_bytes());
}

Status Recovery::ReadFreeRun(uint32_t first, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const RecordNumber record(first + i);
    const PageRecord& page = *memory_->Record(record);
    const StateWord word = Word(page);
    const bool no_pages =
        word.Valid() && (word.state() == PageState::kAbsent || word.state() == PageState::kWorn);
    if (no_pages) {
      const Status fields = CheckFields(page);
      if (fields.ok()) continue;
      MARU_RETURN_IF_ERROR(Offend(record, std::string(fields.message())));
    } else if (word.Valid() && (Keyed(word) || word.state() == PageState::kCondemned)) {
      const Status read = ReadExtent(record, page);
      if (read.ok()) continue;
      MARU_RETURN_IF_ERROR(Offend(record, std::string(read.message())));
      ++summary_.dropped;
    } else if (word.Valid() && word.state() == PageState::kFree) {
      const Status fields = CheckFields(page);
      if (!fields.ok()) MARU_RETURN_IF_ERROR(Offend(record, std::string(fields.message())));
    } else {
      MARU_RETURN_IF_ERROR(
          Offend(record, "no region has it, and its state word is " + std::to_string(word.bits())));
      ++summary_.dropped;
    }
    // The server died while its region was being cut or given up.
    repairs_.push_back(
        {record, StateWord::Make(PageState::kAbsent, UsableGeneration(word)), RegionSlot(0)});
  }
  return OkStatus();
}

Status Recovery::DraftIndex() {
  const uint64_t capacity = index_->RebuiltCapacity(summary_.live);
  draft_slots_ = std::make_unique<std::atomic<uint64_t>[]>(capacity);
  draft_ = IndexTable(draft_slots_.get(), capacity, 1, &nobody_);
  // What is to be repaired has no place in the index. The repairs are in the order of this loop,
  // those that AddToDraft appends are of records behind it.
  size_t repair = 0;
  for (const RegionExtent& region : regions_) {
    if (region.kind != layout::RegionKind::kPages) continue;
    for (uint32_t i = 0; i < region.page_count; ++i) {
      const RecordNumber record(region.first_record.value() + i);
      if (repair < repairs_.size() && repairs_[repair].record == record) {
        ++repair;
        continue;
      }
      if (Keyed(Word(*memory_->Record(record)))) {
        MARU_RETURN_IF_ERROR(Enqueue(record, region.slot));
      }
    }
  }
  for (const RecordNumber record : extents_) {
    MARU_RETURN_IF_ERROR(Enqueue(record, RegionSlot(0)));
  }
  for (uint64_t i = enqueued_ - std::min<uint64_t>(enqueued_, kAhead); i < enqueued_; ++i) {
    MARU_RETURN_IF_ERROR(AddToDraft(pending_[i % kAhead].record, pending_[i % kAhead].slot));
  }
  return OkStatus();
}

Status Recovery::BuildIndex() {
  MARU_RETURN_IF_ERROR(index_->BeginRebuild(summary_.live));
  IndexTable& table = index_->rebuilt();
  if (table.capacity() == draft_.capacity()) {
    table.TakeOver(draft_);
    return OkStatus();
  }
  // A full pool had room for a smaller one only.
  for (uint64_t slot = 0; slot < draft_.capacity(); ++slot) {
    const layout::IndexEntry entry = draft_.At(slot);
    if (entry.empty() || entry.tombstone()) continue;
    const PageRecord& page = *memory_->Record(entry.record());
    const Hash128 hash{page.hash_low.load(std::memory_order_relaxed),
                       page.hash_high.load(std::memory_order_relaxed)};
    table.Put(table.FirstFree(table.Home(hash)), entry);
  }
  return OkStatus();
}

Status Recovery::Enqueue(RecordNumber record, RegionSlot slot) {
  const PageRecord& page = *memory_->Record(record);
  draft_.Prefetch(draft_.Home({page.hash_low.load(std::memory_order_relaxed), 0}));
  Prefetch(memory_->view().base() + page.text_offset.load(std::memory_order_relaxed));
  Pending& place = pending_[enqueued_ % kAhead];
  if (enqueued_ >= kAhead) MARU_RETURN_IF_ERROR(AddToDraft(place.record, place.slot));
  place = {record, slot};
  ++enqueued_;
  return OkStatus();
}

bool Recovery::SameKey(const PageRecord& a, const PageRecord& b) const {
  const TextParts text = TextOf(*memory_, b);
  return SameText(
      *memory_, a,
      {text.name_space,
       text.key,
       {b.hash_low.load(std::memory_order_relaxed), b.hash_high.load(std::memory_order_relaxed)}});
}

Status Recovery::AddToDraft(RecordNumber record, RegionSlot slot) {
  const PageRecord& page = *memory_->Record(record);
  const TextParts text = TextOf(*memory_, page);
  const Hash128 hash{page.hash_low.load(std::memory_order_relaxed),
                     page.hash_high.load(std::memory_order_relaxed)};
  std::string what;
  if (text.name_space != name_space_.text()) name_space_ = Namespace(text.name_space);
  if (MakeKeyRef(name_space_, text.key).hash != hash) {
    what = "its hash is not that of its key";
  }
  const uint64_t same = draft_.Probe(draft_.Home(hash), [&](layout::IndexEntry entry) {
    return entry.MatchesTag(hash) && SameKey(*memory_->Record(entry.record()), page);
  });
  if (same != IndexTable::kNowhere) {
    what = "record " + std::to_string(draft_.At(same).record().value()) + " has the same key";
  }
  if (what.empty()) {
    draft_.Put(draft_.FirstFree(draft_.Home(hash)), layout::IndexEntry::Make(hash, record));
    return OkStatus();
  }
  MARU_RETURN_IF_ERROR(Offend(record, what));
  DropKeyed(record, slot);
  return OkStatus();
}

void Recovery::DropKeyed(RecordNumber record, RegionSlot slot) {
  const PageRecord& page = *memory_->Record(record);
  text_->Free(
      page.text_offset.load(std::memory_order_relaxed),
      layout::KeySizes::Unpack(page.key_sizes.load(std::memory_order_relaxed)).text_bytes());
  Drop(record, Word(page), slot);
  std::erase(retiring_, record);
  --summary_.live;
  if (ClientCutOf(page) == nullptr) return;
  repairs_.back().word = repairs_.back().word.With(PageState::kAbsent);
  runs_->Release(record, 1);
  --summary_.extents;
}

void Recovery::Apply() {
  for (const Repair& repair : repairs_) {
    PageRecord& page = *memory_->Record(repair.record);
    // Of no use to anybody: damage there must not refuse the key that comes next.
    std::fill(std::begin(page.reserved), std::end(page.reserved), uint64_t{0});
    // The slot before the state, as BindRecords has it.
    page.region_slot.store(repair.slot.value(), std::memory_order_release);
    page.state_word.store(repair.word.bits(), std::memory_order_release);
    MARU_PUBLICATION_POINT(points::kRecoveredRecord);
  }
  for (const RecordNumber record : retiring_) {
    PageRecord& page = *memory_->Record(record);
    // Nobody was answered that the key is gone. Release, with the acquire loads of readers, as is
    // every store of LIVE.
    page.state_word.store(Word(page).With(PageState::kLive).bits(), std::memory_order_release);
    ++summary_.reverted;
    MARU_PUBLICATION_POINT(points::kReverted);
  }
}

}  // namespace maru::catalogue
