#include "pool/carver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/test_crash.h"
#include "base/test_log.h"
#include "base/units.h"
#include "layout/page_record.h"
#include "pool/memory_backing.h"

namespace maru::pool {
namespace {

using layout::RegionKind;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kUnit = layout::kUnitBytes;

// A pool in memory with a carver over it, which can be opened anew.
class CarverTest : public testing::Test {
 protected:
  void Make(uint64_t units) {
    memory_ = MakeMemoryPool(units * kUnit);
    Reopen();
    // Pages need records: one chunk, named by the directory.
    const Result<Region> chunk = carver_->Carve(RegionKind::kRecords, kUnit);
    ASSERT_TRUE(chunk.ok());
    At<layout::RecordDirectory>(layout::kRecordDirectoryOffset).units[0] =
        static_cast<uint32_t>(chunk->offset_bytes / kUnit);
    root().record_high = layout::kRecordsPerChunk;
  }

  void Reopen() {
    carver_.reset();
    backing_ = std::make_unique<MemoryBacking>(memory_);
    Result<std::unique_ptr<Carver>> opened = Carver::Open(backing_.get());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    carver_ = std::move(opened).value();
    const Status mended = carver_->Mend();
    ASSERT_TRUE(mended.ok()) << mended.ToString();
  }

  template <typename T>
  T& At(uint64_t offset_bytes) {
    return *reinterpret_cast<T*>(memory_->base() + offset_bytes);
  }
  layout::Root& root() { return At<layout::Root>(layout::kRootOffset); }
  layout::RegionRecord& Record(uint32_t slot) {
    return const_cast<layout::RegionRecord&>(
        *FindRegionRecord(memory_->base(), memory_->bytes(), RegionSlot(slot)));
  }

  // One page for each unit; the record is the first unit's number, so runs never overlap.
  Result<RegionSlot> CutUnits(uint64_t units) {
    MARU_ASSIGN_OR_RETURN(const Carver::Hold hold, carver_->HoldUnits(units));
    return carver_->Publish(hold, Pages(hold));
  }
  static Region Pages(const Carver::Hold& hold) {
    Region region;
    region.kind = RegionKind::kPages;
    region.page_bytes = kUnit;
    region.page_count = static_cast<uint32_t>(hold.units.count);
    region.first_record = RecordNumber(static_cast<uint32_t>(hold.units.first));
    return region;
  }

  // Every unit but the head's is free or in exactly one region.
  void CheckUnits() {
    std::vector<int> uses(carver_->units().units(), 0);
    uses[0] = 1;
    for (const UnitRun& run : carver_->units().FreeRuns()) {
      for (uint64_t i = 0; i < run.count; ++i) ++uses[run.first + i];
    }
    for (const auto& [slot, region] : carver_->table().regions()) {
      for (uint64_t i = 0; i < region.length_bytes / kUnit; ++i) {
        ++uses[region.offset_bytes / kUnit + i];
      }
    }
    for (size_t unit = 0; unit < uses.size(); ++unit) {
      ASSERT_EQ(uses[unit], 1) << "unit " << unit;
    }
  }

  // Opening must fail with this text and change nothing.
  void ExpectRefused(std::string_view text) {
    const std::vector<std::byte> before(memory_->base(), memory_->base() + memory_->bytes());
    const Result<std::unique_ptr<Carver>> opened = Carver::Open(backing_.get());
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(text));
    EXPECT_EQ(std::memcmp(before.data(), memory_->base(), before.size()), 0);
  }

  std::shared_ptr<PlainMemory> memory_;
  std::unique_ptr<MemoryBacking> backing_;
  std::unique_ptr<Carver> carver_;
};

TEST_F(CarverTest, CarvesAreZeroAlsoWhereUnitsWereUsedBefore) {
  Make(16);
  const Result<RegionSlot> pages = CutUnits(14);
  ASSERT_TRUE(pages.ok());
  EXPECT_EQ(carver_->units().free_units(), 0u);
  const uint64_t offset = carver_->table().Find(*pages)->offset_bytes;
  std::memset(memory_->base() + offset, 0xAB, 14 * kUnit);
  carver_->Free(*pages);
  const Result<Region> text = carver_->Carve(RegionKind::kText, 14 * kUnit);
  ASSERT_TRUE(text.ok());
  const std::byte* bytes = memory_->base() + text->offset_bytes;
  EXPECT_EQ(std::count(bytes, bytes + 14 * kUnit, std::byte{0}), static_cast<int64_t>(14 * kUnit));
}

TEST_F(CarverTest, AFullPoolSaysWhatIsFree) {
  Make(16);
  ASSERT_TRUE(CutUnits(12).ok());
  const Result<Region> index = carver_->Carve(RegionKind::kIndex, 4 * kUnit);
  ASSERT_FALSE(index.ok());
  EXPECT_EQ(index.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(index.status().message()), HasSubstr("no room for 8 MiB: 4 MiB are"));
  CheckUnits();
}

TEST_F(CarverTest, SlotsAreUsedAgainWithTheNextCut) {
  Make(16);
  const Result<RegionSlot> first = CutUnits(2);
  ASSERT_TRUE(first.ok());
  const layout::RegionWord word(Record(first->value()).word);
  carver_->Free(*first);
  EXPECT_EQ(Record(first->value()).word,
            layout::RegionWord::Make(RegionKind::kNone, word.cut()).bits());
  Reopen();
  const Result<RegionSlot> second = CutUnits(3);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*second, *first);
  EXPECT_EQ(layout::RegionWord(Record(second->value()).word).cut(), word.cut() + 1);
}

TEST_F(CarverTest, ASlotAtItsLastCutIsNeverUsedAgain) {
  Make(16);
  const Result<RegionSlot> first = CutUnits(2);
  ASSERT_TRUE(first.ok());
  Record(first->value()).word = layout::RegionWord::Make(RegionKind::kPages, ~0u).bits();
  Reopen();
  carver_->Free(*first);
  const Result<RegionSlot> second = CutUnits(2);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(*second, *first);
  Reopen();
  const Result<RegionSlot> third = CutUnits(2);
  ASSERT_TRUE(third.ok());
  EXPECT_NE(*third, *first);
}

TEST_F(CarverTest, RegionIdsRunOutWithAnErrorThatNamesTheCommand) {
  Make(16);
  root().next_region_ordinal = layout::kRegionIdsPerPool - 1;
  Reopen();
  const Result<RegionSlot> last = CutUnits(1);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(carver_->table().Find(*last)->id,
            RegionId(carver_->table().id_base() + layout::kRegionIdsPerPool - 1));
  const Result<RegionSlot> none = CutUnits(1);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("maru pool renumber"));
  CheckUnits();
}

TEST_F(CarverTest, TheLogTellsOnceThatRegionIdsComeToAnEnd) {
  Make(16);
  root().next_region_ordinal = layout::kRegionIdsPerPool / 16 * 15 - 1;
  Reopen();
  const RecordedLog log;
  ASSERT_TRUE(CutUnits(1).ok());
  EXPECT_THAT(log.LinesWith("region ids"), IsEmpty());
  ASSERT_TRUE(CutUnits(1).ok());
  EXPECT_THAT(log.LinesWith("983040 of 1048576 region ids from"), SizeIs(1));
  EXPECT_THAT(log.LinesWith("maru pool renumber"), SizeIs(1));
  ASSERT_TRUE(CutUnits(1).ok());
  EXPECT_THAT(log.LinesWith("region ids"), SizeIs(1));
}

TEST_F(CarverTest, TheRegionTableGrowsBeyondItsFirstPart) {
  constexpr uint32_t kRegions = layout::kRegionTableEntriesFirst + 300;
  Make(kRegions + 8);
  std::set<uint32_t> slots, ids;
  for (uint32_t i = 0; i < kRegions; ++i) {
    const Result<RegionSlot> slot = CutUnits(1);
    ASSERT_TRUE(slot.ok()) << i << ": " << slot.status().ToString();
    EXPECT_TRUE(slots.insert(slot->value()).second);
    EXPECT_TRUE(ids.insert(carver_->table().Find(*slot)->id.value()).second);
  }
  EXPECT_EQ(carver_->table().BytesOf(RegionKind::kRegionTable), kUnit);
  EXPECT_GT(*slots.rbegin(), layout::kRegionTableEntriesFirst);
  const std::map<RegionSlot, Region> before = carver_->table().regions();
  Reopen();
  EXPECT_EQ(carver_->table().regions().size(), before.size());
  for (const auto& [slot, region] : before) {
    ASSERT_NE(carver_->table().Find(slot), nullptr);
    EXPECT_EQ(carver_->table().Find(slot)->offset_bytes, region.offset_bytes);
  }
  CheckUnits();
}

TEST_F(CarverTest, WithoutRoomForAFurtherTableTheCatalogueHasTheLastSlots) {
  Make(16);
  // As if all slots but a few had been used up.
  root().region_slots_high = layout::kRegionTableEntriesFirst;
  for (uint32_t slot = 1; slot < layout::kRegionTableEntriesFirst; ++slot) {
    Record(slot).word = layout::RegionWord::Make(RegionKind::kNone, ~0u).bits();
  }
  for (uint32_t slot = 1; slot <= Carver::kSlotsKept; ++slot) Record(slot).word = 0;
  Reopen();
  while (carver_->units().free_units() > 0) {
    // Takes the units, not the slots.
    ASSERT_TRUE(carver_->Carve(RegionKind::kText, carver_->units().largest_run() * kUnit).ok());
  }
  EXPECT_EQ(carver_->table().free_slots(), Carver::kSlotsKept - 1);
  const Result<RegionSlot> pages = CutUnits(1);
  ASSERT_FALSE(pages.ok());
  EXPECT_THAT(std::string(pages.status().message()), HasSubstr("region table is full"));
}

TEST_F(CarverTest, RefusesOverlappingRegionsByTheirSlots) {
  Make(16);
  ASSERT_TRUE(CutUnits(2).ok());
  ASSERT_TRUE(CutUnits(2).ok());
  Record(2).offset_bytes = Record(1).offset_bytes + kUnit;
  ExpectRefused("region slots 1 and 2 overlap");
}

TEST_F(CarverTest, RefusesARegionOutsideThePool) {
  Make(16);
  ASSERT_TRUE(CutUnits(2).ok());
  Record(1).length_bytes = 16 * kUnit;
  ExpectRefused("region slot 1");
}

TEST_F(CarverTest, RefusesImpossiblePages) {
  Make(16);
  ASSERT_TRUE(CutUnits(2).ok());
  Record(1).page_bytes = 1000;
  ExpectRefused("region slot 1");
  Record(1).page_bytes = kUnit;
  Record(1).pages = layout::PackRegionPages(3, 1);
  ExpectRefused("region slot 1");
  Record(1).pages = layout::PackRegionPages(2, layout::kRecordsPerChunk - 1);
  ExpectRefused("there are only those below 16384");
}

TEST_F(CarverTest, RefusesRecordsOrIdsOfTwoRegions) {
  Make(16);
  ASSERT_TRUE(CutUnits(2).ok());
  ASSERT_TRUE(CutUnits(2).ok());
  const uint64_t pages = Record(2).pages;
  Record(2).pages = layout::PackRegionPages(2, layout::RegionFirstRecord(Record(1).pages) + 1);
  ExpectRefused("region slots 1 and 2 share record");
  Record(2).pages = pages;
  Record(2).region_id = Record(1).region_id.load();
  ExpectRefused("is another's too");
  Record(2).region_id = Record(1).region_id + 100;
  ExpectRefused("was not given out yet");
}

TEST_F(CarverTest, RefusesUnknownKindsAndSlotsThatWereNeverUsed) {
  Make(16);
  Record(0).word = layout::RegionWord::Make(static_cast<RegionKind>(9), 1).bits();
  ExpectRefused("region slot 0");
  Record(0).word = layout::RegionWord::Make(RegionKind::kRecords, 1).bits();
  root().region_slots_high = 0;
  ExpectRefused("region slot 0: in use, but region_slots_high is 0");
}

TEST_F(CarverTest, RefusesDirectoriesThatNameWhatIsNotTheirs) {
  Make(16);
  auto& tables = At<layout::RegionDirectory>(layout::kRegionDirectoryOffset);
  tables.units[0] = 5;
  ExpectRefused("region directory: unit 5 lies in no region of region-table");
  tables.units[0] = 99;
  ExpectRefused("region directory: entry 0 is unit 99, outside the pool");
  tables.units[0] = 0;
  At<layout::RecordDirectory>(layout::kRecordDirectoryOffset).units[1] = 3;
  ExpectRefused("record directory: unit 3 lies in no region of records");
}

TEST_F(CarverTest, RegionsOfAnotherBaseGetNewIds) {
  Make(16);
  const Result<RegionSlot> slot = CutUnits(2);
  ASSERT_TRUE(slot.ok());
  const uint32_t base = carver_->table().id_base();
  Record(slot->value()).region_id = base + 5 * layout::kRegionIdsPerPool;
  Reopen();
  EXPECT_EQ(carver_->table().Find(*slot)->id, RegionId(base + 1));
  EXPECT_EQ(Record(slot->value()).region_id, base + 1);
}

// Steps of a fixed script, each of which may crash. Ids that were ever published are collected.
class CarverCrashTest : public CarverTest {
 protected:
  void Note() {
    for (const auto& [slot, region] : carver_->table().regions()) {
      if (!region.has_id()) continue;
      const auto [found, fresh] = owner_of_id_.emplace(region.id.value(), region.offset_bytes);
      ASSERT_TRUE(fresh || found->second == region.offset_bytes) << "id used twice";
    }
  }
  void Step(int step) {
    switch (step) {
      case 0: ASSERT_TRUE(CutUnits(3).ok()); break;
      case 1: ASSERT_TRUE(carver_->Carve(RegionKind::kText, kUnit).ok()); break;
      case 2: FreeLowestPages(); break;
      case 3: ASSERT_TRUE(CutUnits(1).ok()); break;
      case 4: ASSERT_TRUE(CutUnits(2).ok()); break;
      case 5: FreeLowestPages(); break;
      case 6: ASSERT_TRUE(carver_->Carve(RegionKind::kIndex, 2 * kUnit).ok()); break;
      default: FAIL();
    }
  }
  static constexpr int kSteps = 7;

  void FreeLowestPages() {
    for (const auto& [slot, region] : carver_->table().regions()) {
      if (region.kind != RegionKind::kPages) continue;
      // Forgotten: another region may lie there afterwards, but under another id.
      owner_of_id_[region.id.value()] = 0;
      carver_->Free(slot);
      return;
    }
  }

  std::map<uint32_t, uint64_t> owner_of_id_;
};

TEST_F(CarverCrashTest, ACrashAtAnyPointLosesNoUnitAndRepeatsNoId) {
  const auto met = CrashAtEachPoint([this](CrashPoint& point) {
    owner_of_id_.clear();
    Make(16);
    // Only two slots are left, so that the script also adds a table.
    root().region_slots_high = layout::kRegionTableEntriesFirst;
    for (uint32_t slot = 1; slot < layout::kRegionTableEntriesFirst - 1; ++slot) {
      Record(slot).word = layout::RegionWord::Make(RegionKind::kNone, ~0u).bits();
    }
    Reopen();
    for (int step = 0; step < kSteps; ++step) {
      if (!point.Run([&] { Step(step); })) Reopen();
      CheckUnits();
      Note();
      if (testing::Test::HasFatalFailure()) return;
    }
  });
  ExpectMet(met, {"carve:reserved", "region:fields", "region:word", "region:freed",
                  "region:ordinal", "region:table", "region:slots-high"});
}

// The model: which slot each unit belongs to.
class CarverModelTest : public CarverTest {
 protected:
  void RunSeed(uint64_t seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Make(random.Between(16, 80));
    std::map<uint32_t, UnitRun> model;  // slot -> units
    std::set<uint32_t> ids;
    const RegionSlot chunk(0);
    const Region records = *carver_->table().Find(chunk);
    model[0] = {records.offset_bytes / kUnit, 1};
    for (int step = 0; step < 400; ++step) {
      const uint64_t count = random.Between(1, random.OneIn(6) ? 30 : 4);
      switch (random.Below(8)) {
        case 0: Reopen(); break;
        case 1:
        case 2:
        case 3: {
          const Result<RegionSlot> slot = CutUnits(count);
          if (!slot.ok()) break;
          const Region region = *carver_->table().Find(*slot);
          ASSERT_TRUE(ids.insert(region.id.value()).second);
          ASSERT_TRUE(
              model.emplace(slot->value(), UnitRun{region.offset_bytes / kUnit, count}).second);
          break;
        }
        case 4: {
          if (random.OneIn(3)) break;
          const Result<Region> room = carver_->Carve(RegionKind::kLeases, kUnit);
          if (!room.ok()) break;
          ASSERT_TRUE(
              model.emplace(room->slot.value(), UnitRun{room->offset_bytes / kUnit, 1}).second);
          break;
        }
        case 5: {
          const Result<Carver::Hold> hold = carver_->HoldUnits(count);
          if (!hold.ok()) break;
          ASSERT_TRUE(ids.insert(hold->id.value()).second);
          carver_->GiveUp(*hold);
          break;
        }
        default: {
          if (model.size() == 1) break;
          auto chosen = std::next(model.begin(), random.Between(1, model.size() - 1));
          carver_->Free(RegionSlot(chosen->first));
          model.erase(chosen);
        }
      }
      CompareTo(model);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  void CompareTo(const std::map<uint32_t, UnitRun>& model) {
    CheckUnits();
    ASSERT_EQ(carver_->table().regions().size(), model.size());
    for (const auto& [slot, run] : model) {
      const Region* region = carver_->table().Find(RegionSlot(slot));
      ASSERT_NE(region, nullptr) << slot;
      ASSERT_EQ(region->offset_bytes, run.first * kUnit);
      ASSERT_EQ(region->length_bytes, run.count * kUnit);
    }
  }
};

TEST_F(CarverModelTest, AgreesWithAMapOfSlots) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    RunSeed(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace maru::pool
