#include "catalogue/test_catalogue.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"

namespace maru::catalogue {

using layout::PageState;
using layout::StateWord;

TestCatalogue::TestCatalogue(TestPool* pool, const Options& options)
    : pool_(pool), options_(options), text_of_(kFirstRecord + options.pages, 0) {
  const uint64_t records = kFirstRecord + options.pages;
  const uint64_t chunks_bytes =
      AlignUp(records, layout::kRecordsPerChunk) * sizeof(layout::PageRecord);
  const SpaceSource::Room chunks = *pool->Carve(layout::RegionKind::kRecords, chunks_bytes);
  auto* directory = pool->At<layout::RecordDirectory>(layout::kRecordDirectoryOffset);
  for (uint64_t chunk = 0; chunk < chunks_bytes / layout::kUnitBytes; ++chunk) {
    const uint64_t unit = chunks.offset_bytes / layout::kUnitBytes + chunk;
    directory->units[chunk].store(static_cast<uint32_t>(unit), std::memory_order_release);
  }
  const uint64_t text_bytes = AlignUp(options.pages * options.text_bytes_each, layout::kUnitBytes);
  const SpaceSource::Room text = *pool->Carve(layout::RegionKind::kText, text_bytes);
  for (uint32_t i = options.pages; i > 0; --i) {
    free_text_.push_back(text.offset_bytes + (i - 1) * options.text_bytes_each);
  }
  CarveIndex();
  CarveLeases();
  const SpaceSource::Room pages =
      *pool->CarvePages(options.page_bytes, options.pages, RecordNumber(kFirstRecord));
  for (uint32_t i = 0; i < options.pages; ++i) {
    layout::PageRecord& page = Record(RecordNumber(kFirstRecord + i));
    page.region_slot.store(pages.slot.value(), std::memory_order_release);
    page.state_word.store(StateWord::Make(PageState::kFree, Generation(1)).bits(),
                          std::memory_order_release);
  }
  pool->root().record_high.store(records, std::memory_order_release);
  PublishTables(kNone, 0);
}

void TestCatalogue::CarveIndex() {
  const uint64_t table_bytes = entries() * sizeof(uint64_t);
  for (uint8_t number = 0; number < options_.tables; ++number) {
    const SpaceSource::Room room = *pool_->Carve(layout::RegionKind::kIndex, table_bytes);
    pool_->root().tables[number].store(
        layout::TableDescriptor::Make(room.offset_bytes, options_.index_log2).bits(),
        std::memory_order_release);
  }
}

void TestCatalogue::CarveLeases() {
  const uint64_t blocks = options_.clients * (1 + options_.slot_blocks_each);
  const uint64_t units =
      (blocks + layout::kLeaseBlocksPerUnit - 2) / (layout::kLeaseBlocksPerUnit - 1);
  leases_offset_ =
      pool_->Carve(layout::RegionKind::kLeases, units * layout::kUnitBytes)->offset_bytes;
  for (uint16_t client = 0; client < options_.clients; ++client) {
    for (uint32_t ordinal = 0; ordinal <= options_.slot_blocks_each; ++ordinal) {
      const uint64_t block = LeaseBlock(ClientSlot(client), ordinal);
      const uint64_t unit = AlignDown(block, layout::kUnitBytes);
      pool_->At<layout::LeaseDirectory>(unit)
          ->owners[(block - unit) / layout::kLeaseBlockBytes]
          .store(
              layout::BlockOwner::Make(client + 1u, client, static_cast<uint16_t>(ordinal)).bits(),
              std::memory_order_release);
    }
    pool_->At<layout::ClientRecord>(layout::kClientTableOffset)[client].client_id.store(
        client + 1u, std::memory_order_release);
  }
}

StateWord TestCatalogue::State(RecordNumber record) const {
  return StateWord(Record(record).state_word.load(std::memory_order_acquire));
}

std::byte* TestCatalogue::PageBytes(RecordNumber record) const {
  PoolView::PageExtent extent;
  MARU_CHECK(view().Page(record, &extent));
  return pool_->base() + extent.offset_bytes;
}

Generation TestCatalogue::Grant(RecordNumber record) {
  const Generation generation(State(record).generation().value() + 1);
  Record(record).state_word.store(StateWord::Make(PageState::kGranted, generation).bits(),
                                  std::memory_order_release);
  return generation;
}

void TestCatalogue::Birth(RecordNumber record, const KeyRef& key, uint64_t length_bytes,
                          uint64_t checksum) {
  std::string text(key.name_space);
  text += key.key;
  MARU_CHECK_LE(text.size(), options_.text_bytes_each);
  MARU_CHECK(!free_text_.empty());
  const uint64_t offset = free_text_.back();
  free_text_.pop_back();
  text_of_[record.value()] = offset;
  // Release, with the reader's acquire loads: who reads one of these words reads a state word that
  // is no older than CONDEMNED of the key before.
  for (std::size_t at = 0; at < text.size(); at += layout::kTextGranuleBytes) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at,
                std::min<std::size_t>(layout::kTextGranuleBytes, text.size() - at));
    pool_->Word(offset + at).store(word, std::memory_order_release);
  }
  layout::PageRecord& page = Record(record);
  const layout::KeySizes sizes{static_cast<uint32_t>(key.key.size()),
                               static_cast<uint16_t>(key.name_space.size())};
  page.hash_low.store(key.hash.low, std::memory_order_release);
  page.hash_high.store(key.hash.high, std::memory_order_release);
  page.text_offset.store(text.empty() ? 0 : offset, std::memory_order_release);
  page.key_sizes.store(sizes.Pack(), std::memory_order_release);
  page.length_bytes.store(length_bytes, std::memory_order_release);
  page.checksum.store(checksum, std::memory_order_release);
  Insert(current_table_, key.hash, record);
  page.state_word.store(StateWord::Make(PageState::kLive, State(record).generation()).bits(),
                        std::memory_order_release);
}

void TestCatalogue::Retire(RecordNumber record) {
  Record(record).state_word.exchange(State(record).With(PageState::kRetiring).bits(),
                                     std::memory_order_seq_cst);
}

void TestCatalogue::Revert(RecordNumber record) {
  Record(record).state_word.store(State(record).With(PageState::kLive).bits(),
                                  std::memory_order_release);
}

void TestCatalogue::Condemn(RecordNumber record) {
  Record(record).state_word.store(State(record).With(PageState::kCondemned).bits(),
                                  std::memory_order_release);
  const Hash128 hash = HashOf(record);
  const bool removed = Remove(current_table_, hash, record) ||
                       (old_table_ != kNone && Remove(old_table_, hash, record));
  MARU_CHECK(removed) << "record " << record << " has no entry";
  free_text_.push_back(text_of_[record.value()]);
  text_of_[record.value()] = 0;
}

void TestCatalogue::Free(RecordNumber record) {
  Record(record).state_word.store(State(record).With(PageState::kFree).bits(),
                                  std::memory_order_release);
}

Generation TestCatalogue::Put(RecordNumber record, const KeyRef& key, uint64_t length_bytes) {
  const Generation generation = Grant(record);
  Birth(record, key, length_bytes);
  return generation;
}

Hash128 TestCatalogue::HashOf(RecordNumber record) const {
  const layout::PageRecord& page = Record(record);
  return {page.hash_low.load(std::memory_order_relaxed),
          page.hash_high.load(std::memory_order_relaxed)};
}

std::atomic<uint64_t>* TestCatalogue::Table(uint8_t number) const {
  const layout::TableDescriptor descriptor(
      pool_->root().tables[number].load(std::memory_order_acquire));
  return pool_->At<std::atomic<uint64_t>>(descriptor.offset_bytes());
}

void TestCatalogue::PublishTables(uint8_t old_table, uint8_t current) {
  old_table_ = old_table;
  current_table_ = current;
  pool_->root().table_word.store(layout::TableWord::Make(++sequence_, old_table, current).bits(),
                                 std::memory_order_seq_cst);
}

void TestCatalogue::Insert(uint8_t table, const Hash128& hash, RecordNumber record) {
  std::atomic<uint64_t>* words = Table(table);
  uint64_t at = layout::IndexEntry::Home(hash, entries());
  for (uint64_t tried = 0; tried < entries(); ++tried, at = (at + 1) & (entries() - 1)) {
    const layout::IndexEntry entry(words[at].load(std::memory_order_relaxed));
    if (!entry.empty() && !entry.tombstone()) continue;
    words[at].store(layout::IndexEntry::Make(hash, record).bits(), std::memory_order_release);
    return;
  }
  MARU_CHECK(false) << "the test's index is full";
}

std::atomic<uint64_t>* TestCatalogue::Locate(uint8_t table, const Hash128& hash,
                                             RecordNumber record) const {
  std::atomic<uint64_t>* words = Table(table);
  const uint64_t wanted = layout::IndexEntry::Make(hash, record).bits();
  uint64_t at = layout::IndexEntry::Home(hash, entries());
  for (uint64_t tried = 0; tried < entries(); ++tried, at = (at + 1) & (entries() - 1)) {
    const uint64_t word = words[at].load(std::memory_order_relaxed);
    if (word == layout::IndexEntry::kEmpty) return nullptr;
    if (word == wanted) return &words[at];
  }
  return nullptr;
}

bool TestCatalogue::Remove(uint8_t table, const Hash128& hash, RecordNumber record) {
  std::atomic<uint64_t>* entry = Locate(table, hash, record);
  if (entry == nullptr) return false;
  entry->store(layout::IndexEntry::kTombstone, std::memory_order_release);
  return true;
}

void TestCatalogue::Move(uint8_t from, uint8_t to, const Hash128& hash, RecordNumber record) {
  Insert(to, hash, record);
  const bool removed = Remove(from, hash, record);
  MARU_CHECK(removed) << "record " << record << " has no entry in table " << from;
}

void TestCatalogue::Clear(uint8_t table) {
  std::atomic<uint64_t>* words = Table(table);
  for (uint64_t i = 0; i < entries(); ++i) {
    words[i].store(layout::IndexEntry::kEmpty, std::memory_order_release);
  }
}

uint64_t TestCatalogue::LeaseBlock(ClientSlot client, uint32_t ordinal) const {
  // Block 0 of each unit is its directory.
  const uint64_t number = client.value() * (1 + options_.slot_blocks_each) + ordinal;
  const uint64_t unit = number / (layout::kLeaseBlocksPerUnit - 1);
  const uint64_t block = 1 + number % (layout::kLeaseBlocksPerUnit - 1);
  return leases_offset_ + unit * layout::kUnitBytes + block * layout::kLeaseBlockBytes;
}

layout::LeaseHeader* TestCatalogue::Header(ClientSlot client) const {
  return pool_->At<layout::LeaseHeader>(LeaseBlock(client, 0));
}

std::vector<layout::LeaseSlots*> TestCatalogue::Blocks(ClientSlot client) const {
  std::vector<layout::LeaseSlots*> blocks;
  for (uint32_t ordinal = 1; ordinal <= options_.slot_blocks_each; ++ordinal) {
    blocks.push_back(pool_->At<layout::LeaseSlots>(LeaseBlock(client, ordinal)));
  }
  return blocks;
}

TestCatalogue::Held TestCatalogue::Scan(RecordNumber record, Generation generation) const {
  Held held;
  for (uint16_t client = 0; client < options_.clients; ++client) {
    const auto blocks = Blocks(ClientSlot(client));
    // Seq_cst, as the reads below, with Leases: a slot that is filled before its check reads LIVE
    // is seen here after RETIRING.
    const uint64_t high =
        std::min<uint64_t>(Header(ClientSlot(client))->slots_high.load(std::memory_order_seq_cst),
                           blocks.size() * layout::kLeaseSlotsPerBlock);
    for (uint64_t i = 0; i < high; ++i) {
      const layout::SlotWord slot(
          blocks[i / layout::kLeaseSlotsPerBlock]->slots[i % layout::kLeaseSlotsPerBlock].load(
              std::memory_order_seq_cst));
      if (slot.record() != record || slot.generation() != generation) continue;
      held.leased = true;
      held.pinned = held.pinned || slot.pinned();
    }
  }
  return held;
}

}  // namespace maru::catalogue
