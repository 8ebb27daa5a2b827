// Regions that clients cut by themselves: their words, their keys, and what a crash and a boot
// leave of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/test_crash.h"
#include "layout/validate.h"
#include "layout/values.h"
#include "pool/check.h"
#include "pool/test_pool_fixture.h"

namespace maru::pool {
namespace {

using layout::PageState;

class ClientRegionTest : public PoolFixture {
 protected:
  static Pool::ClientCut Client(const std::string& instance_id) {
    return {.instance_id = instance_id, .lease_id = "lease-1", .lease_deadline_unix_ns = 77};
  }
  RecordNumber Put(const Pool::ClientRegion& region, uint64_t offset_bytes,
                   const std::string& key) {
    const auto record = pool_->writer().RegisterExtent(
        Key(key), {.region = region.slot, .offset_bytes = offset_bytes, .length_bytes = 100});
    EXPECT_TRUE(record.ok()) << record.status().ToString();
    return *record;
  }
  void Delete(RecordNumber record) {
    pool_->writer().Retire(record);
    pool_->writer().Condemn(record);
    pool_->writer().FreeExtent(record);
  }
  layout::RegionValues Values(RegionSlot slot) {
    return layout::ReadRegion(*pool_->view().Region(slot));
  }
  void ExpectSound() {
    CheckReport report;
    CheckMapped(pool_->view(), VerifyBytes::kYes, &report);
    EXPECT_TRUE(report.ok()) << report.offences.listed.front();
  }
};

TEST_F(ClientRegionTest, IsCutInWholeUnitsWithItsClientsWords) {
  Make(32);
  const auto cut = pool_->CutForClient(kUnit + 1, Client("prefill-0"));
  ASSERT_TRUE(cut.ok()) << cut.status().ToString();
  EXPECT_EQ(cut->length_bytes, 2 * kUnit);
  EXPECT_NE(cut->owner, ClientId(0));
  const layout::RegionValues values = Values(cut->slot);
  EXPECT_TRUE(layout::ValidateRegionRecord(values, pool_->view().bytes()).ok());
  EXPECT_EQ(values.owner, cut->owner.value());
  EXPECT_EQ(values.lease_deadline_unix_ns, 77u);
  EXPECT_STREQ(reinterpret_cast<const char*>(values.instance_id), "prefill-0");
  EXPECT_STREQ(reinterpret_cast<const char*>(values.lease_id), "lease-1");
  EXPECT_EQ(pool_->usage().client_cut_bytes, 2 * kUnit);
  Pool::Place place;
  ASSERT_TRUE(pool_->FindRegion(cut->id, &place));
  EXPECT_EQ(place.slot, cut->slot);
  EXPECT_EQ(place.offset_bytes, cut->offset_bytes);
  EXPECT_FALSE(pool_->FindRegion(RegionId(cut->id.value() + 1), &place));

  pool_->SetLeaseDeadline(cut->slot, 99);
  pool_->EndOwner(cut->slot);
  Reopen();
  const auto regions = pool_->ClientRegions();
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].id, cut->id);
  EXPECT_EQ(regions[0].owner, ClientId(0));
  EXPECT_EQ(regions[0].client.instance_id, "prefill-0");
  EXPECT_EQ(regions[0].client.lease_id, "lease-1");
  EXPECT_EQ(regions[0].client.lease_deadline_unix_ns, 99u);
  pool_->FreeForClient(cut->slot);
  EXPECT_FALSE(pool_->FindRegion(cut->id, &place));
  EXPECT_EQ(pool_->usage().client_cut_bytes, 0u);
  // Its words do not stay behind for the next region in the slot, whatever that is.
  const auto next = pool_->CutPages(kPageMiB, kUnit);
  ASSERT_TRUE(next.ok());
  EXPECT_NE(next->id, cut->id);
  const layout::RegionValues again = Values(cut->slot);
  EXPECT_NE(layout::RegionWord(again.word).kind(), layout::RegionKind::kNone);
  EXPECT_TRUE(layout::ValidateRegionRecord(again, pool_->view().bytes()).ok());
  EXPECT_EQ(again.instance_id[0], 0);
  ExpectSound();
}

TEST_F(ClientRegionTest, RefusesWhatCannotBe) {
  Make(32);
  EXPECT_EQ(pool_->CutForClient(0, Client("a")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pool_->CutForClient(~uint64_t{0}, Client("a")).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(pool_->CutForClient(32 * kUnit, Client("a")).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(pool_->CutForClient(1, Client(std::string(64, 'x'))).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(pool_->CutForClient(1, Client(std::string("a\0b", 3))).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(pool_->usage().client_cut_bytes, 0u);
  EXPECT_TRUE(pool_->CutForClient(1, Client(std::string(63, 'x'))).ok());
}

TEST_F(ClientRegionTest, AFullPoolHasRoomLeftForItsKeys) {
  Make(32);
  std::vector<Pool::ClientRegion> regions;
  for (;;) {
    const auto cut = pool_->CutForClient(kUnit, Client("a"));
    if (!cut.ok()) break;
    regions.push_back(*cut);
  }
  ASSERT_GT(regions.size(), 16u);
  // As many as were planned for, and a restart with them.
  std::map<std::string, RecordNumber> keys;
  for (size_t i = 0; i < regions.size(); ++i) {
    for (uint64_t at = 0; at < kUnit; at += Pool::kExtentBytesPlanned) {
      const std::string key = std::to_string(i) + "-" + std::to_string(at) + std::string(120, 'k');
      keys[key] = Put(regions[i], at, key);
    }
  }
  Reopen();
  for (const auto& [key, record] : keys) EXPECT_TRUE(Has(key)) << key;
  std::vector<RecordNumber> extents;
  for (const auto& [key, record] : keys) extents.push_back(record);
  std::ranges::sort(extents);
  EXPECT_EQ(pool_->Extents(), extents);
  ExpectSound();
}

TEST_F(ClientRegionTest, ABootEndsOwnersAndAnUncleanOneTheKeys) {
  Make(32, layout::kFlagChecksums);
  const auto cut = pool_->CutForClient(kUnit, Client("a"));
  ASSERT_TRUE(cut.ok());
  const RecordNumber waits = Put(*cut, 200, "gone");
  Put(*cut, 0, "kept");
  pool_->writer().Retire(waits);
  pool_->writer().Condemn(waits);
  Reopen();
  EXPECT_EQ(pool_->ClientRegions()[0].owner, cut->owner);
  pool_->CloseCleanly();
  Reboot();
  EXPECT_EQ(pool_->ClientRegions()[0].owner, ClientId(0));
  EXPECT_TRUE(Has("kept"));
  EXPECT_EQ(pool_->Extents().size(), 2u);
  Reboot();
  EXPECT_FALSE(Has("kept"));
  EXPECT_EQ(pool_->boot_loss(), 1u);
  EXPECT_TRUE(pool_->Extents().empty());
  ASSERT_EQ(pool_->ClientRegions().size(), 1u);
  pool_->FreeForClient(cut->slot);
  ExpectSound();
}

TEST_F(ClientRegionTest, CheckTellsDamageFromWhatAStartMends) {
  Make(32);
  const auto cut = pool_->CutForClient(kUnit, Client("a"));
  ASSERT_TRUE(cut.ok());
  Put(*cut, 0, "a");
  const RecordNumber b = Put(*cut, 100, "b");
  const RecordNumber c = Put(*cut, 200, "c");
  pool_->writer().Retire(b);
  CheckReport report;
  CheckMapped(pool_->view(), VerifyBytes::kYes, &report);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.extents, 3u);
  EXPECT_EQ(report.extent_bytes, 300u);
  EXPECT_EQ(report.keys, 3u);
  EXPECT_EQ(report.pages, 0u);
  EXPECT_EQ(report.mends.count, 1u);

  auto& record = const_cast<layout::PageRecord&>(*pool_->view().Record(c));
  const auto offences = [&](const std::string& what) {
    CheckReport damaged;
    CheckMapped(pool_->view(), VerifyBytes::kYes, &damaged);
    ASSERT_EQ(damaged.offences.count, 1u) << what;
    EXPECT_NE(damaged.offences.listed[0].find(what), std::string::npos)
        << damaged.offences.listed[0];
  };
  record.extent_offset_bytes = 150;
  offences("overlaps");
  record.extent_offset_bytes = kUnit - 99;
  offences("does not lie in a region");
  record.extent_offset_bytes = 200;
  record.region_slot = 0;  // the records' own
  offences("is no client-cut region");
  record.region_slot = cut->slot.value();
  ExpectSound();
}

// A region's life with one key, as far as it was answered.
class ClientRegionCrashTest : public ClientRegionTest {
 protected:
  void Live() {
    done_ = 0;
    region_.reset();
    region_ = *pool_->CutForClient(kUnit, Client("a"));
    done_ = 1;
    const RecordNumber record = Put(*region_, 4096, "key");
    done_ = 2;
    pool_->SetLeaseDeadline(region_->slot, 99);
    pool_->EndOwner(region_->slot);
    done_ = 3;
    Delete(record);
    done_ = 4;
    pool_->FreeForClient(region_->slot);
    done_ = 5;
  }
  void ExpectWhatWasAnswered() {
    const auto regions = pool_->ClientRegions();
    EXPECT_LE(regions.size(), done_ == 5 ? 0u : 1u);
    if (done_ >= 1 && done_ < 4) {
      ASSERT_EQ(regions.size(), 1u);
      EXPECT_EQ(regions[0].id, region_->id);
    }
    if (done_ == 1) {
      EXPECT_EQ(regions[0].owner, region_->owner);
    }
    if (done_ >= 3 && !regions.empty()) {
      EXPECT_EQ(regions[0].owner, ClientId(0));
    }
    if (done_ == 2) {
      EXPECT_TRUE(Has("key"));
    }
    if (done_ >= 4) {
      EXPECT_FALSE(Has("key"));
    }
    EXPECT_LE(pool_->Extents().size(), 1u);
    EXPECT_GE(pool_->Extents().size(), Has("key") ? 1u : 0u);
    ExpectSound();
  }
  // All of it can be had again, and no id comes twice.
  void ExpectItGoesOn() {
    for (const RecordNumber left : pool_->Extents()) {
      if (pool_->writer().State(left).state() == PageState::kCondemned) {
        pool_->writer().FreeExtent(left);
      } else {
        Delete(left);
      }
    }
    for (const auto& left : pool_->ClientRegions()) pool_->FreeForClient(left.slot);
    const auto next = pool_->CutForClient(kUnit, Client("b"));
    ASSERT_TRUE(next.ok());
    if (region_.has_value()) {
      EXPECT_GT(next->id.value(), region_->id.value());
    }
    Put(*next, 0, "key");
    ExpectSound();
  }

  int done_ = 0;
  std::optional<Pool::ClientRegion> region_;
};

TEST_F(ClientRegionCrashTest, ACrashAtAnyPointLosesNothing) {
  const auto met = CrashAtEachPoint([this](CrashPoint& point) {
    Make(16);
    point.Run([this] { Live(); });
    Reopen();
    ASSERT_NO_FATAL_FAILURE(ExpectWhatWasAnswered());
    ASSERT_NO_FATAL_FAILURE(ExpectItGoesOn());
  });
  ExpectMet(met, {"pool:client-cut", "region:owner", "region:word", "region:freed",
                  "writer:extent-placed", "writer:extent-freed", "pool:client-id"});
}

}  // namespace
}  // namespace maru::pool
