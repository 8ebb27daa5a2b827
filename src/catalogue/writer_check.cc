// The audit of records, text and index against each other.
#include <string>
#include <utility>
#include <vector>

#include "catalogue/index_census.h"
#include "catalogue/writer_impl.h"

namespace maru::catalogue {

using layout::IndexEntry;
using layout::PageRecord;
using layout::PageState;
using layout::StateWord;

namespace {

bool Leads(const IndexTable& table, const Hash128& hash, IndexEntry entry) {
  return table.exists() && table.Find(table.Home(hash), entry) != IndexTable::kNowhere;
}

}  // namespace

Writer::KeyState Writer::CheckRecord(RecordNumber record, std::vector<Offender>* offenders) const {
  const PageRecord* page = impl_->memory.Record(record);
  if (page == nullptr) {
    offenders->push_back({record, "its chunk is not there"});
    return KeyState::kNone;
  }
  // Relaxed, all of them: this process stored them, or judged them when it opened the pool.
  const StateWord word(page->state_word.load(std::memory_order_relaxed));
  if (!word.Valid()) {
    offenders->push_back({record, "impossible state word " + std::to_string(word.bits())});
    return KeyState::kNone;
  }
  if (word.state() != PageState::kLive && word.state() != PageState::kRetiring) {
    return KeyState::kNone;
  }
  const std::optional<StoredKey> key = ReadKey(record);
  if (!key) {
    const uint64_t offset = page->text_offset.load(std::memory_order_relaxed);
    offenders->push_back(
        {record, "its text at " + std::to_string(offset) + " is not an allocated block"});
    return KeyState::kTorn;
  }
  const Hash128 hash{page->hash_low.load(std::memory_order_relaxed),
                     page->hash_high.load(std::memory_order_relaxed)};
  if (MakeKeyRef(Namespace(key->name_space), key->key).hash != hash) {
    offenders->push_back({record, "its hash is not that of its key"});
  }
  const IndexEntry entry = IndexEntry::Make(hash, record);
  const IndexWriter& index = impl_->index;
  if (!Leads(index.current(), hash, entry) && !Leads(index.old(), hash, entry)) {
    offenders->push_back({record, "a probe of the index does not lead to it"});
  }
  return KeyState::kSound;
}

std::unique_ptr<IndexCensus> Writer::CountIndex() const {
  return std::make_unique<IndexCensus>(&impl_->memory, &impl_->index);
}

uint64_t Writer::CheckIndex(std::vector<Offender>* offenders, uint32_t offenders_max) const {
  std::vector<Offender> found;
  const uint64_t high = impl_->memory.root().record_high.load(std::memory_order_relaxed);
  uint64_t keyed = 0;
  for (uint64_t number = 1; number < high; ++number) {
    const KeyState key = CheckRecord(RecordNumber(static_cast<uint32_t>(number)), &found);
    keyed += key == KeyState::kNone ? 0 : 1;
  }
  uint64_t all_slots = ~uint64_t{0};
  CountIndex()->Step(&all_slots, &found);
  // Each record has exactly one entry when none lacks one and there are no more of them.
  const uint64_t entries = impl_->index.current().entries() + impl_->index.old().entries();
  if (entries != keyed) {
    found.push_back({RecordNumber(0), "the index has " + std::to_string(entries) + " entries for " +
                                          std::to_string(keyed) + " keys"});
  }
  for (Offender& offender : found) {
    if (offenders->size() < offenders_max) offenders->push_back(std::move(offender));
  }
  return found.size();
}

}  // namespace maru::catalogue
