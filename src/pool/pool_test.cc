#include "pool/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_crash.h"
#include "base/test_log.h"
#include "pool/room_plan.h"
#include "pool/test_pool_fixture.h"

namespace maru::pool {
namespace {

using layout::PageState;
using testing::HasSubstr;

class PoolTest : public PoolFixture {
 protected:
  // As LMCache names chunks: about a hundred bytes.
  static std::string LongKey(uint64_t number) {
    return "meta-llama/Llama-3.1-70B-Instruct@8@3@" + std::string(64, 'f') + "@" +
           std::to_string(number);
  }
  // Cuts until the pool is full, then stores a key in every page. Returns the pages.
  uint64_t FillPool(uint64_t page_bytes, uint64_t wanted_bytes) {
    uint64_t stored = 0;
    for (;;) {
      const Result<Pool::PageRegion> region = pool_->CutPages(page_bytes, wanted_bytes);
      if (!region.ok()) {
        EXPECT_EQ(region.status().code(), StatusCode::kResourceExhausted);
        return stored;
      }
      for (uint32_t i = 0; i < region->page_count; ++i) {
        const Status status = StoreAt(*region, i, LongKey(stored));
        EXPECT_TRUE(status.ok()) << stored << ": " << status.ToString();
        if (!status.ok()) return stored;
        ++stored;
      }
    }
  }
};

TEST_F(PoolTest, ANewPoolIsEmptyAndServed) {
  Make(16);
  EXPECT_EQ(root().epoch, options_.epoch);
  EXPECT_EQ(root().starts, 1u);
  EXPECT_EQ(root().boot_id[0], 11u);
  EXPECT_EQ(root().boot_id[1], 12u);
  EXPECT_EQ(root().clean, 0u);
  EXPECT_TRUE(pool_->PageRegions().empty());
  EXPECT_EQ(pool_->usage().pool_bytes, 16 * kUnit);
  CheckWhole();
}

TEST_F(PoolTest, CutsRoundUpToUnitsAndHoldWholePages) {
  Make(64);
  const Result<Pool::PageRegion> small = pool_->CutPages(512, 1);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->length_bytes, kUnit);
  EXPECT_EQ(small->page_count, kUnit / 512);
  const Result<Pool::PageRegion> odd = pool_->CutPages(3 * kPageMiB, 10 * kPageMiB);
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->length_bytes, 10 * kPageMiB);
  EXPECT_EQ(odd->page_count, 3u);
  EXPECT_EQ(odd->id.value(), small->id.value() + 1);
  const Result<Pool::PageRegion> one = pool_->CutPages(5 * kPageMiB, 0);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->length_bytes, 6 * kPageMiB);
  EXPECT_EQ(one->page_count, 1u);
  CheckWhole();
}

TEST_F(PoolTest, SizesThatNoPageCanHaveAreRefused) {
  Make(16);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{100}, uint64_t{513}, ~uint64_t{511}}) {
    EXPECT_EQ(pool_->CutPages(bytes, kUnit).status().code(), StatusCode::kInvalidArgument) << bytes;
  }
  const Result<Pool::PageRegion> large = pool_->CutPages(1ull << 40, 1);
  EXPECT_EQ(large.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("bytes are free"));
}

TEST_F(PoolTest, FreedRegionsMergeAndTheirRecordsGoOnWhereTheyWere) {
  Make(32);
  std::vector<Pool::PageRegion> regions;
  for (int i = 0; i < 4; ++i) {
    const Result<Pool::PageRegion> region = pool_->CutPages(kPageMiB, 2 * kUnit);
    ASSERT_TRUE(region.ok());
    regions.push_back(*region);
  }
  ASSERT_TRUE(Store(regions[1], "key"));
  const RecordNumber record = regions[1].first_record;
  const Generation generation = pool_->writer().State(record).generation();
  Drop("key");
  for (const int i : {0, 2, 3, 1}) ASSERT_TRUE(pool_->FreePages(regions[i].slot).ok());
  EXPECT_EQ(pool_->FreePages(regions[0].slot).code(), StatusCode::kNotFound);
  CheckWhole();
  const Result<Pool::PageRegion> whole = pool_->CutPages(kPageMiB, 8 * kUnit);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->offset_bytes, regions[0].offset_bytes);
  EXPECT_EQ(whole->first_record, regions[0].first_record);
  EXPECT_EQ(pool_->writer().State(record).generation(), generation);
  EXPECT_NE(whole->id, regions[0].id);
  CheckWhole();
}

TEST_F(PoolTest, ARestartKeepsKeysRegionsAndCounters) {
  Make(32);
  const Result<Pool::PageRegion> region = pool_->CutPages(kPageMiB, 4 * kUnit);
  ASSERT_TRUE(region.ok());
  ASSERT_TRUE(Store(*region, "one"));
  ASSERT_TRUE(Store(*region, "two"));
  const uint64_t client = pool_->NextClientId().value();
  pool_->StoreUseTick(77);
  const uint64_t epoch = root().epoch;
  Reopen();
  CheckWhole();
  EXPECT_EQ(pool_->recovery().live, 2u);
  EXPECT_EQ(pool_->boot_loss(), 0u);
  EXPECT_EQ(pool_->PageRegions().size(), 1u);
  EXPECT_EQ(pool_->NextClientId().value(), client + 1);
  EXPECT_EQ(root().use_tick, 77u);
  EXPECT_NE(root().epoch, epoch);
  EXPECT_EQ(root().starts, 2u);
}

TEST_F(PoolTest, ClientIdsStartAtOne) {
  Make(16);
  EXPECT_EQ(pool_->NextClientId().value(), 1u);
  EXPECT_EQ(pool_->NextClientId().value(), 2u);
  EXPECT_EQ(pool_->NextClientId(9).value(), 9u);
  EXPECT_EQ(pool_->NextClientId(3).value(), 10u);
}

TEST_F(PoolTest, ClientIdsThatAreUsedUpAreAnError) {
  Make(16);
  root().next_client_id = 0xFFFFFFFF;
  EXPECT_EQ(pool_->NextClientId().value(), 0xFFFFFFFFu);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(pool_->NextClientId().status().code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(pool_->CutForClient(kUnit, {}).status().code(), StatusCode::kResourceExhausted);
    Reopen();
  }
  CheckWhole();
}

TEST_F(PoolTest, ThirtyTwoMebibytesOfTheSmallestPagesAllGetKeys) {
  Make(16);
  const uint64_t pages = FillPool(512, 64 << 20);
  EXPECT_GE(pages, 7 * kUnit / 512);
  CheckWhole();
  for (int i = 0; i < 3; ++i) Reopen();
  CheckWhole();
}

TEST_F(PoolTest, ThirtyTwoMebibytesOfLargePagesAllGetKeys) {
  Make(16);
  EXPECT_GE(FillPool(kPageMiB, 64 << 20), 20u);
  CheckWhole();
  for (int i = 0; i < 3; ++i) Reopen();
  CheckWhole();
  // What was cut for one size can be cut for another.
  for (const auto& [key, record] : std::map(keys_)) Drop(key);
  for (const Pool::PageRegion& region : pool_->PageRegions()) {
    ASSERT_TRUE(pool_->FreePages(region.slot).ok());
  }
  EXPECT_GE(FillPool(512, 64 << 20), 7 * kUnit / 512);
  CheckWhole();
}

TEST_F(PoolTest, AFullPoolCanStillTakeClients) {
  Make(16);
  FillPool(512, 64 << 20);
  const catalogue::LeaseAreas::Identity identity{.id = ClientId(1), .label = "late"};
  EXPECT_TRUE(pool_->leases().AddClient(ClientSlot(0), identity).ok());
}

TEST_F(PoolTest, ManySmallRegionsFillThePoolAsOneLargeDoes) {
  Make(64);
  const uint64_t pages = FillPool(4096, kUnit);
  EXPECT_GE(pages, 48 * kUnit / 4096);
  CheckWhole();
  Reopen();
  CheckWhole();
}

TEST_F(PoolTest, PoolsWithTheSameRegionIdsOrUuidAreRefusedTogether) {
  const Pool::Identity a{"/pools/a", {1}, layout::kRegionIdsPerPool};
  const Pool::Identity b{"/pools/b", {2}, 2 * layout::kRegionIdsPerPool};
  EXPECT_TRUE(Pool::CheckPools(std::vector{a, b}).ok());
  const Pool::Identity same_ids{"/pools/c", {3}, layout::kRegionIdsPerPool};
  // A copy that was given other region ids alone.
  const Pool::Identity same_uuid{"/pools/c", {1}, 3 * layout::kRegionIdsPerPool};
  for (const auto& [c, what] : {std::pair(same_ids, "the same region ids, from 1048576 on"),
                                {same_uuid, "the same uuid, 01000000-"}}) {
    const Status status = Pool::CheckPools(std::vector{a, b, c});
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("/pools/a and /pools/c"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()), HasSubstr("maru pool renumber /pools/c"));
  }
}

TEST_F(PoolTest, ADamagedRecordIsRefusedByNumberAndThePoolLeftAsItWas) {
  Make(32);
  const Result<Pool::PageRegion> region = pool_->CutPages(kPageMiB, 4 * kUnit);
  ASSERT_TRUE(region.ok());
  ASSERT_TRUE(Store(*region, "key"));
  const auto* record = pool_->view().Record(region->first_record);
  const_cast<layout::PageRecord*>(record)->text_offset = 13;
  pool_.reset();
  const std::vector<std::byte> before(memory_->base(), memory_->base() + memory_->bytes());
  const Status status = TryOpen();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("pool memory: record 1"));
  // But for index room that may have been carved: the head's counters and all records.
  EXPECT_EQ(std::memcmp(before.data(), memory_->base(), layout::kRegionTableOffset), 0);
}

// --- After a crash of the machine.

class BootTest : public PoolTest {
 protected:
  void MakeWithKeys(uint64_t flags) {
    Make(32, flags);
    const Result<Pool::PageRegion> region = pool_->CutPages(kPageMiB, 4 * kUnit);
    ASSERT_TRUE(region.ok());
    region_ = *region;
    for (const char* key : {"one", "two", "three"}) ASSERT_TRUE(Store(region_, key));
    const auto* record = pool_->view().Record(keys_["three"]);
    const_cast<layout::PageRecord*>(record)->state_word =
        pool_->writer().State(keys_["three"]).With(PageState::kRetiring).bits();
  }
  void Spoil(const std::string& key) {
    const uint64_t index = keys_[key].value() - region_.first_record.value();
    memory_->base()[region_.offset_bytes + index * region_.page_bytes] ^= std::byte{1};
  }

  Pool::PageRegion region_;
};

TEST_F(BootTest, WithChecksumsOnlyKeysThatVerifyAreKept) {
  MakeWithKeys(layout::kFlagChecksums);
  Spoil("two");
  const RecordedLog log;
  Reboot();
  EXPECT_EQ(pool_->boot_loss(), 1u);
  EXPECT_FALSE(Has("two"));
  keys_.erase("two");
  CheckWhole();
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_THAT(log.lines()[0], HasSubstr("kept 2 keys whose checksum verifies, dropped 1"));
  EXPECT_EQ(pool_->writer().usage().index_entries, 2u);
  Reopen();
  CheckWhole();
}

TEST_F(BootTest, WithoutChecksumsNoKeyIsKept) {
  MakeWithKeys(0);
  Reboot();
  EXPECT_EQ(pool_->boot_loss(), 3u);
  for (const char* key : {"one", "two", "three"}) EXPECT_FALSE(Has(key));
  keys_.clear();
  CheckWhole();
  EXPECT_EQ(pool_->writer().usage().text_bytes_used, 0u);
}

TEST_F(BootTest, APoolClosedInOrderKeepsAllOverABoot) {
  MakeWithKeys(0);
  pool_->CloseCleanly();
  EXPECT_EQ(root().clean, 1u);
  Reboot();
  EXPECT_EQ(pool_->boot_loss(), 0u);
  CheckWhole();
  EXPECT_EQ(root().clean, 0u);
  // And is not clean any more.
  Reboot();
  EXPECT_EQ(pool_->boot_loss(), 3u);
}

TEST_F(BootTest, TheDeathOfAServerLosesNothingWithinABoot) {
  MakeWithKeys(0);
  Spoil("two");
  Reopen();
  EXPECT_EQ(pool_->boot_loss(), 0u);
  CheckWhole();
}

TEST_F(BootTest, ADamagedKeyOfAnEarlierBootIsDropped) {
  MakeWithKeys(layout::kFlagChecksums);
  const auto* record = pool_->view().Record(keys_["one"]);
  const_cast<layout::PageRecord*>(record)->key_sizes = ~0ull;
  EXPECT_EQ(TryOpen().code(), StatusCode::kDataLoss);
  Reboot();
  EXPECT_EQ(pool_->boot_loss(), 1u);
  EXPECT_FALSE(Has("one"));
  keys_.erase("one");
  CheckWhole();
}

// Whatever point the first start after the boot dies at, the second one ends where it would have.
TEST_F(BootTest, ACrashWhileDroppingLosesNoVerdict) {
  CrashAtEachPoint([this](CrashPoint& point) {
    MakeWithKeys(layout::kFlagChecksums);
    Spoil("two");
    options_.boot_id[0] += 5;
    options_.boot_id[1] += 5;
    point.Run([this] { ASSERT_TRUE(TryOpen().ok()); });
    Reopen();
    ASSERT_FALSE(Has("two"));
    keys_.erase("two");
    CheckWhole();
    if (testing::Test::HasFatalFailure()) return;
    options_.boot_id[0] -= 5;
    options_.boot_id[1] -= 5;
  });
}

TEST_F(BootTest, ACrashWhileOpeningACleanPoolKeepsAll) {
  CrashAtEachPoint([this](CrashPoint& point) {
    MakeWithKeys(0);
    Reopen();
    pool_->CloseCleanly();
    options_.boot_id[0] += 5;
    options_.boot_id[1] += 5;
    point.Run([this] { ASSERT_TRUE(TryOpen().ok()); });
    Reopen();
    ASSERT_EQ(pool_->boot_loss(), 0u);
    CheckWhole();
  });
}

// --- Crashes of the server at every point of cutting, freeing and storing.

class PoolCrashTest : public PoolTest {
 protected:
  static constexpr int kSteps = 12;

  void Step(int step) {
    const std::vector<Pool::PageRegion> regions = pool_->PageRegions();
    switch (step) {
      case 0: Cut(kPageMiB, 2 * kUnit); break;
      case 1: Cut(256 << 10, 1); break;
      case 2: Put("a"); break;
      case 3: Put("b"); break;
      case 4: Remove("a"); break;
      case 5: FreeOneThatIsEmpty(); break;
      case 6: Cut(128 << 10, kUnit); break;
      case 7: Put("c"); break;
      case 8: last_client_ = pool_->NextClientId().value(); break;
      case 9: AddClient(); break;
      case 10: Remove("c"); break;
      case 11: pool_->CloseCleanly(); break;
      default: FAIL();
    }
  }
  void Cut(uint64_t page_bytes, uint64_t wanted_bytes) {
    ASSERT_TRUE(pool_->CutPages(page_bytes, wanted_bytes).ok());
  }
  void Put(const std::string& key) {
    if (Has(key)) return;
    for (const Pool::PageRegion& region : pool_->PageRegions()) {
      if (Store(region, key)) return;
    }
    FAIL() << "no free page";
  }
  void Remove(const std::string& key) {
    if (keys_.contains(key)) Drop(key);
  }
  bool Empty(const Pool::PageRegion& region) {
    for (uint32_t i = 0; i < region.page_count; ++i) {
      const RecordNumber record(region.first_record.value() + i);
      if (pool_->writer().State(record).state() != PageState::kFree) return false;
    }
    return true;
  }
  void FreeOneThatIsEmpty() {
    for (const Pool::PageRegion& region : pool_->PageRegions()) {
      if (!Empty(region)) continue;
      gone_ids_.insert(region.id.value());
      ASSERT_TRUE(pool_->FreePages(region.slot).ok());
      return;
    }
  }
  void AddClient() {
    const ClientId id(static_cast<uint32_t>(pool_->NextClientId().value()));
    ASSERT_TRUE(pool_->leases().AddClient(ClientSlot(3), {.id = id, .label = "reader"}).ok());
  }

  // A crash in the middle of storing or dropping leaves the key in or out; both are right.
  void Settle() {
    for (const char* key : {"a", "b", "c"}) {
      catalogue::Writer::Hit hit;
      const bool there = pool_->writer().Lookup(Key(key), &hit);
      if (there) keys_[key] = hit.record;
      if (!there) keys_.erase(key);
    }
    for (const Pool::PageRegion& region : pool_->PageRegions()) {
      for (uint32_t i = 0; i < region.page_count; ++i) {
        const RecordNumber record(region.first_record.value() + i);
        const PageState state = pool_->writer().State(record).state();
        if (state == PageState::kGranted) pool_->writer().GiveBack(record);
        if (state == PageState::kCondemned) pool_->writer().Free(record);
      }
    }
  }
  void CheckIds() {
    for (const Pool::PageRegion& region : pool_->PageRegions()) {
      const auto [found, fresh] = seen_ids_.emplace(region.id.value(), region.offset_bytes);
      ASSERT_TRUE(fresh || found->second == region.offset_bytes);
      // Whole or not there at all: a crash before the region's end leaves it as it was.
      if (gone_ids_.contains(region.id.value())) {
        ASSERT_TRUE(Empty(region));
      }
    }
    ASSERT_GT(pool_->NextClientId().value(), last_client_);
  }

  std::map<uint32_t, uint64_t> seen_ids_;
  std::set<uint32_t> gone_ids_;
  uint64_t last_client_ = 0;
};

TEST_F(PoolCrashTest, ACrashAtAnyPointLosesNothing) {
  const auto met = CrashAtEachPoint([this](CrashPoint& point) {
    seen_ids_.clear();
    gone_ids_.clear();
    last_client_ = 0;
    Make(16);
    for (int step = 0; step < kSteps; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      if (!point.Run([&] { Step(step); })) {
        Reopen();
        Settle();
      }
      if (point.crashed() || step == kSteps - 1) {
        CheckWhole();
        CheckIds();
      }
      if (testing::Test::HasFatalFailure()) return;
    }
    // All of the pool can be had again.
    for (const auto& [key, record] : std::map(keys_)) Drop(key);
    for (const Pool::PageRegion& region : pool_->PageRegions()) {
      ASSERT_TRUE(pool_->FreePages(region.slot).ok());
    }
    const Pool::Usage usage = pool_->usage();
    ASSERT_EQ(usage.pages_bytes, 0u);
    // No more is carved than without a crash, but for the index room of the restart.
    ASSERT_EQ(usage.records_bytes, kUnit);
    ASSERT_EQ(usage.text_bytes, kUnit);
    ASSERT_EQ(usage.index_bytes, (point.crashed() ? 2 : 1) * kUnit);
    ASSERT_LE(usage.lease_bytes, kUnit);
  });
  ExpectMet(met,
            {"pool:cut", "pool:records-released", "pool:client-id", "pool:clean", "region:word",
             "region:freed", "region:ordinal", "writer:bound", "writer:chunk-named"});
}

// --- The model: what was cut, freed and stored, at random, over restarts.

class PoolModelTest : public PoolCrashTest {
 protected:
  void RunSeed(uint64_t seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Make(random.Between(16, 48), random.OneIn(2) ? layout::kFlagChecksums : 0);
    std::map<uint32_t, uint64_t> regions;  // id -> offset
    uint64_t next_key = 0;
    for (int step = 0; step < 120; ++step) {
      switch (random.Below(6)) {
        case 0: random.OneIn(3) ? Reopen() : void(); break;
        case 1: {
          const uint64_t page_bytes = 512 * random.Between(1, random.OneIn(2) ? 8 : 8000);
          const auto cut = pool_->CutPages(page_bytes, random.Below(6 * kUnit));
          if (!cut.ok()) break;
          ASSERT_TRUE(regions.emplace(cut->id.value(), cut->offset_bytes).second);
          break;
        }
        case 2: {
          for (const Pool::PageRegion& region : pool_->PageRegions()) {
            if (!Empty(region) || random.OneIn(2)) continue;
            regions.erase(region.id.value());
            ASSERT_TRUE(pool_->FreePages(region.slot).ok());
            break;
          }
          break;
        }
        case 3: {
          const std::vector<Pool::PageRegion> all = pool_->PageRegions();
          if (all.empty()) break;
          for (int i = 0; i < 20; ++i) {
            Store(all[random.Below(all.size())],
                  std::string(random.Below(300), 'k') + std::to_string(next_key++));
          }
          break;
        }
        default: {
          for (int i = 0; i < 20 && !keys_.empty(); ++i) {
            Drop(std::next(keys_.begin(), random.Below(keys_.size()))->first);
          }
        }
      }
      Compare(regions);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  void Compare(const std::map<uint32_t, uint64_t>& regions) {
    ASSERT_EQ(pool_->PageRegions().size(), regions.size());
    for (const Pool::PageRegion& region : pool_->PageRegions()) {
      ASSERT_TRUE(regions.contains(region.id.value()));
      ASSERT_EQ(regions.at(region.id.value()), region.offset_bytes);
    }
    ASSERT_EQ(pool_->writer().usage().index_entries, keys_.size());
    CheckWhole();
  }
};

TEST_F(PoolModelTest, AgreesWithAModelOverRestarts) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    RunSeed(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace maru::pool
