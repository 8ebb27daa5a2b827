// Writer::CheckIndex: the audit of records, text and index against each other.
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "catalogue/key_text.h"
#include "catalogue/writer_impl.h"

namespace maru::catalogue {

using layout::IndexEntry;
using layout::PageRecord;
using layout::PageState;
using layout::StateWord;

namespace {

class IndexAudit {
 public:
  IndexAudit(const PoolMemory& memory, const TextSlabs& text, const IndexWriter& index,
             std::vector<Writer::Offender>* offenders, uint32_t offenders_max)
      : memory_(memory),
        text_(text),
        index_(index),
        offenders_(offenders),
        offenders_max_(offenders_max) {}

  uint64_t Run() {
    const uint64_t high = memory_.root().record_high.load(std::memory_order_relaxed);
    uint64_t keyed = 0;
    for (uint64_t number = 1; number < high; ++number) {
      keyed += CheckRecord(RecordNumber(static_cast<uint32_t>(number))) ? 1 : 0;
    }
    uint64_t entries = 0;
    for (const IndexTable* table : {&index_.old(), &index_.current()}) {
      if (table->exists()) entries += CheckTable(*table);
    }
    // Each record has exactly one entry when none lacks one and there are no more of them.
    if (entries != keyed) {
      Report(RecordNumber(0), "the index has " + std::to_string(entries) + " entries for " +
                                  std::to_string(keyed) + " keys");
    }
    return found_;
  }

 private:
  void Report(RecordNumber record, std::string what) {
    ++found_;
    if (offenders_->size() < offenders_max_) offenders_->push_back({record, std::move(what)});
  }

  // Whether the record has a key.
  bool CheckRecord(RecordNumber record) {
    const PageRecord* page = memory_.Record(record);
    if (page == nullptr) {
      Report(record, "its chunk is not there");
      return false;
    }
    const StateWord word(page->state_word.load(std::memory_order_relaxed));
    if (!word.Valid()) {
      Report(record, "impossible state word " + std::to_string(word.bits()));
      return false;
    }
    if (word.state() != PageState::kLive && word.state() != PageState::kRetiring) return false;
    const uint64_t packed = page->key_sizes.load(std::memory_order_relaxed);
    const uint64_t offset = page->text_offset.load(std::memory_order_relaxed);
    if (!layout::KeySizes::Valid(packed) ||
        !text_.Holds(offset, layout::KeySizes::Unpack(packed).text_bytes())) {
      Report(record, "its text at " + std::to_string(offset) + " is not an allocated block");
      return true;
    }
    const Hash128 hash{page->hash_low.load(std::memory_order_relaxed),
                       page->hash_high.load(std::memory_order_relaxed)};
    const TextParts text = TextOf(memory_, *page);
    if (MakeKeyRef(Namespace(text.name_space), text.key).hash != hash) {
      Report(record, "its hash is not that of its key");
    }
    const IndexEntry entry = IndexEntry::Make(hash, record);
    const bool in_index =
        index_.current().Find(index_.current().Home(hash), entry) != IndexTable::kNowhere ||
        (index_.old().exists() &&
         index_.old().Find(index_.old().Home(hash), entry) != IndexTable::kNowhere);
    if (!in_index) Report(record, "a probe of the index does not lead to it");
    return true;
  }

  uint64_t CheckTable(const IndexTable& table) {
    uint64_t entries = 0, tombstones = 0;
    for (uint64_t slot = 0; slot < table.capacity(); ++slot) {
      const IndexEntry entry = table.At(slot);
      if (entry.empty()) continue;
      if (entry.tombstone()) {
        ++tombstones;
        continue;
      }
      ++entries;
      const PageRecord* page = memory_.Record(entry.record());
      const StateWord word(page == nullptr ? 0 : page->state_word.load(std::memory_order_relaxed));
      if (word.state() != PageState::kLive && word.state() != PageState::kRetiring) {
        Report(entry.record(), "it is in the index without a key");
      }
    }
    if (entries != table.entries() || tombstones != table.tombstones()) {
      Report(RecordNumber(0), "a table has " + std::to_string(entries) + " entries and " +
                                  std::to_string(tombstones) + " tombstones, counted were " +
                                  std::to_string(table.entries()) + " and " +
                                  std::to_string(table.tombstones()));
    }
    return entries;
  }

  const PoolMemory& memory_;
  const TextSlabs& text_;
  const IndexWriter& index_;
  std::vector<Writer::Offender>* offenders_;
  uint32_t offenders_max_;
  uint64_t found_ = 0;
};

}  // namespace

uint64_t Writer::CheckIndex(std::vector<Offender>* offenders, uint32_t offenders_max) const {
  return IndexAudit(impl_->memory, impl_->text, impl_->index, offenders, offenders_max).Run();
}

}  // namespace maru::catalogue
