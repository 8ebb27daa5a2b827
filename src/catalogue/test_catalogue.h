// For tests: a catalogue that is written by hand, store by store, in the protocol's orders
// (docs/memory_model.md). It checks nothing that it is told, so that tests reach every state.
//
// One thread writes; readers read beside it.
#pragma once

#include <cstdint>
#include <vector>

#include "catalogue/key.h"
#include "catalogue/test_pool.h"
#include "layout/state_word.h"

namespace maru::catalogue {

class TestCatalogue {
 public:
  static constexpr uint32_t kFirstRecord = 1;
  static constexpr uint8_t kNone = layout::TableWord::kNone;

  struct Options {
    uint32_t pages = 64;
    uint64_t page_bytes = 4096;
    uint64_t text_bytes_each = 512;  // room for the text of each page's key
    uint8_t index_log2 = layout::kIndexEntriesLog2Unit;
    uint8_t tables = 1;  // numbers 0 .. tables - 1; 0 is current
    uint16_t clients = 1;
    uint32_t slot_blocks_each = 1;  // lease blocks beside the header
  };

  explicit TestCatalogue(TestPool* pool) : TestCatalogue(pool, Options()) {}
  TestCatalogue(TestPool* pool, const Options& options);

  TestPool& pool() const { return *pool_; }
  PoolView view() const { return pool_->view(); }
  layout::PageRecord& Record(RecordNumber record) const { return pool_->Record(record); }
  layout::StateWord State(RecordNumber record) const;
  std::byte* PageBytes(RecordNumber record) const;

  // --- Transitions. Each is what its name says and nothing else.
  Generation Grant(RecordNumber record);
  // Text, fields, index entry in the current table, LIVE last.
  void Birth(RecordNumber record, const KeyRef& key, uint64_t length_bytes, uint64_t checksum = 0);
  void Retire(RecordNumber record);
  void Revert(RecordNumber record);
  // CONDEMNED, out of the index; its text may be overwritten from here on.
  void Condemn(RecordNumber record);
  void Free(RecordNumber record);
  // Grant and Birth.
  Generation Put(RecordNumber record, const KeyRef& key, uint64_t length_bytes = 0);

  // --- Index tables by number.
  std::atomic<uint64_t>* Table(uint8_t number) const;
  uint64_t entries() const { return uint64_t{1} << options_.index_log2; }
  // The next sequence number, one seq_cst store.
  void PublishTables(uint8_t old_table, uint8_t current);
  // Into the first entry from its home on that is empty or a tombstone.
  void Insert(uint8_t table, const Hash128& hash, RecordNumber record);
  bool Has(uint8_t table, const Hash128& hash, RecordNumber record) const {
    return Locate(table, hash, record) != nullptr;
  }
  // Puts a tombstone over the record's entry. False: it has none there.
  bool Remove(uint8_t table, const Hash128& hash, RecordNumber record);
  // Moves the record's entry: into the new table, then the tombstone.
  void Move(uint8_t from, uint8_t to, const Hash128& hash, RecordNumber record);
  // REQUIRES: no table word names it.
  void Clear(uint8_t table);

  // --- Lease areas.
  layout::LeaseHeader* Header(ClientSlot client) const;
  std::vector<layout::LeaseSlots*> Blocks(ClientSlot client) const;
  struct Held {
    bool leased = false;  // by a lease or a pin
    bool pinned = false;
  };
  // Reads every client's slots up to its high-water mark, as the server's scan does.
  Held Scan(RecordNumber record, Generation generation) const;

 private:
  void CarveIndex();
  void CarveLeases();
  uint64_t LeaseBlock(ClientSlot client, uint32_t ordinal) const;
  Hash128 HashOf(RecordNumber record) const;
  // The record's entry; nullptr: none.
  std::atomic<uint64_t>* Locate(uint8_t table, const Hash128& hash, RecordNumber record) const;

  TestPool* pool_;
  Options options_;
  std::vector<uint64_t> free_text_;  // offsets of rooms of text_bytes_each
  std::vector<uint64_t> text_of_;    // by record; 0: none
  uint64_t leases_offset_ = 0;
  uint64_t sequence_ = 0;
  uint8_t old_table_ = kNone;
  uint8_t current_table_ = 0;
};

}  // namespace maru::catalogue
