// For tests: a pool in memory that is opened, used and opened again, and what must hold of it at
// every moment.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "catalogue/key.h"
#include "pool/memory_backing.h"
#include "pool/pool.h"

namespace maru::pool {

class PoolFixture : public testing::Test {
 protected:
  static constexpr uint64_t kUnit = layout::kUnitBytes;
  static constexpr uint64_t kPageMiB = 1 << 20;

  void Make(uint64_t units, uint64_t flags = 0) {
    pool_.reset();
    memory_ = MakeMemoryPool(units * kUnit, flags);
    keys_.clear();
    Reopen();
  }
  Status TryOpen() {
    pool_.reset();
    options_.epoch++;
    Result<std::unique_ptr<Pool>> opened =
        Pool::Open(std::make_unique<MemoryBacking>(memory_), options_);
    if (!opened.ok()) return opened.status();
    pool_ = std::move(opened).value();
    return OkStatus();
  }
  // The server's process ends without a word, the next one starts.
  void Reopen() { ASSERT_TRUE(TryOpen().ok()) << TryOpen().ToString(); }
  // The machine starts anew.
  void Reboot() {
    options_.boot_id[0]++;
    Reopen();
  }

  template <typename T>
  T& At(uint64_t offset_bytes) {
    return *reinterpret_cast<T*>(memory_->base() + offset_bytes);
  }
  layout::Root& root() { return At<layout::Root>(layout::kRootOffset); }

  static catalogue::KeyRef Key(const std::string& text) {
    static const catalogue::Namespace kNone;
    return catalogue::MakeKeyRef(kNone, text);
  }

  // Grants the lowest free page of the region and stores a key there; false when it has none.
  bool Store(const Pool::PageRegion& region, const std::string& key) {
    for (uint32_t i = 0; i < region.page_count; ++i) {
      const RecordNumber record(region.first_record.value() + i);
      if (pool_->writer().State(record).state() == layout::PageState::kFree) {
        return StoreAt(region, i, key).ok();
      }
    }
    return false;
  }
  Status StoreAt(const Pool::PageRegion& region, uint32_t index, const std::string& key) {
    const RecordNumber record(region.first_record.value() + index);
    Generation generation;
    EXPECT_TRUE(pool_->writer().Grant(record, ClientSlot(1), &generation));
    std::byte* page = memory_->base() + region.offset_bytes + uint64_t{index} * region.page_bytes;
    const uint64_t length = std::min<uint64_t>(key.size(), region.page_bytes);
    std::memcpy(page, key.data(), length);
    const catalogue::Writer::Birth birth{.length_bytes = length,
                                         .checksum = HashBytes64({page, length}),
                                         .owner = ClientId(1),
                                         .last_use = 0};
    const Status status = pool_->writer().Register(record, Key(key), birth);
    if (status.ok()) keys_[key] = record;
    if (!status.ok()) pool_->writer().GiveBack(record);
    return status;
  }
  void Drop(const std::string& key) {
    const RecordNumber record = keys_.at(key);
    keys_.erase(key);
    pool_->writer().Retire(record);
    pool_->writer().Condemn(record);
    pool_->writer().Free(record);
  }
  bool Has(const std::string& key) {
    catalogue::Writer::Hit hit;
    return pool_->writer().Lookup(Key(key), &hit);
  }

  // What holds at every moment: every unit is in one place, every page in one state, the writer
  // knows all that was carved for it, the keys that were stored are there.
  void CheckWhole() {
    const Pool::Usage usage = pool_->usage();
    const catalogue::Writer::Usage written = pool_->writer().usage();
    ASSERT_EQ(usage.pool_bytes, usage.head_bytes + usage.free_bytes + usage.pages_bytes +
                                    usage.client_cut_bytes + usage.records_bytes +
                                    usage.text_bytes + usage.index_bytes + usage.lease_bytes +
                                    usage.region_table_bytes);
    ASSERT_EQ(usage.records_bytes, written.records_bytes);
    ASSERT_EQ(usage.text_bytes, written.text_bytes);
    ASSERT_EQ(usage.index_bytes, written.index_bytes);
    CheckRecords();
    for (const auto& [key, record] : keys_) {
      catalogue::Writer::Hit hit;
      ASSERT_TRUE(pool_->writer().Lookup(Key(key), &hit)) << key;
      ASSERT_EQ(hit.record, record) << key;
    }
    std::vector<catalogue::Writer::Offender> offenders;
    ASSERT_EQ(pool_->writer().CheckIndex(&offenders, 8), 0u) << offenders[0].what;
  }
  // Records of page regions are pages; all others are not.
  void CheckRecords() {
    std::set<std::pair<uint64_t, uint64_t>> runs;
    for (const Pool::PageRegion& region : pool_->PageRegions()) {
      ASSERT_GE(region.page_count, 1u);
      ASSERT_LE(region.page_count * region.page_bytes, region.length_bytes);
      runs.emplace(region.first_record.value(), region.page_count);
      for (uint32_t i = 0; i < region.page_count; ++i) {
        const RecordNumber record(region.first_record.value() + i);
        ASSERT_NE(pool_->writer().State(record).state(), layout::PageState::kAbsent);
        catalogue::PoolView::PageExtent extent;
        ASSERT_TRUE(pool_->view().Page(record, &extent));
        ASSERT_EQ(extent.offset_bytes, region.offset_bytes + i * region.page_bytes);
        ASSERT_EQ(extent.region_id, region.id.value());
      }
    }
    const uint64_t high = root().record_high;
    for (uint64_t next = 1; next < high;) {
      if (!runs.empty() && runs.begin()->first == next) {
        next += runs.begin()->second;
        runs.erase(runs.begin());
        continue;
      }
      const auto state = pool_->writer().State(RecordNumber(static_cast<uint32_t>(next))).state();
      ASSERT_TRUE(state == layout::PageState::kAbsent || state == layout::PageState::kWorn)
          << "record " << next;
      ++next;
    }
    ASSERT_TRUE(runs.empty());
  }

  OpenOptions options_{.boot_id = {11, 12}, .epoch = 1};
  std::shared_ptr<PlainMemory> memory_;
  std::unique_ptr<Pool> pool_;
  std::map<std::string, RecordNumber> keys_;
};

}  // namespace maru::pool
