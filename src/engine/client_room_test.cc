// Regions for clients of upstream's protocols in a pool that is full of pages of our own.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/client_room.h"
#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

constexpr uint64_t kPageBytes = 64 * kKiB;

class ClientRoomTest : public testing::Test {
 protected:
  ~ClientRoomTest() override { EXPECT_EQ(Offenders(host_.engine()), ""); }

  // Every page has one of the keys "0" and on, of which the first have gone again.
  void Fill() {
    do {
      const wire::PageRef page = ours_.Grant(kPageBytes)[0];
      ours_.Register(std::to_string(pages_.size()), page);
      pages_.push_back(page);
    } while (ours_.Exists("0") || host_->Count(PoolIndex(0)).free > 0);
  }
  uint64_t FreeBytes() { return host_.pool().usage().free_bytes; }
  // The region of a key, by the first of its records.
  uint32_t RegionOf(size_t key) {
    const uint32_t record = pages_[key].record.value();
    for (const auto& region : host_.pool().PageRegions()) {
      const uint32_t first = region.first_record.value();
      if (record >= first && record < first + region.page_count) return first;
    }
    return 0;
  }
  // Of the keys that are there.
  std::set<std::string> Keys() {
    std::set<std::string> keys;
    for (size_t i = 0; i < pages_.size(); ++i) {
      if (ours_.Exists(std::to_string(i))) keys.insert(std::to_string(i));
    }
    return keys;
  }
  // The regions that the keys lie in which have gone.
  std::set<uint32_t> Emptied(const std::vector<uint32_t>& region_of,
                             const std::set<std::string>& before) {
    const std::set<std::string> now = Keys();
    std::set<uint32_t> regions;
    for (const std::string& key : before) {
      if (!now.contains(key)) regions.insert(region_of[std::stoul(key)]);
    }
    return regions;
  }
  std::vector<uint32_t> Regions() {
    std::vector<uint32_t> region_of;
    for (size_t i = 0; i < pages_.size(); ++i) region_of.push_back(RegionOf(i));
    return region_of;
  }

  TestEngine host_{{.pools = {64 * kMiB},
                    .engine = {.region_bytes_min = 4 * kMiB, .handle_key = {std::byte{7}}}}};
  TestClient ours_{&host_};
  UpstreamClient theirs_{&host_, "a"};
  std::vector<wire::PageRef> pages_;
};

TEST_F(ClientRoomTest, RegionsWhosePagesAreAllFreeAreGivenToAClient) {
  Fill();
  for (size_t i = 0; i < pages_.size(); ++i) ours_.Delete(std::to_string(i));
  ASSERT_LT(FreeBytes(), 24 * kMiB);
  EXPECT_TRUE(theirs_.TryAlloc(24 * kMiB).handle.has_value());
  RmTestClient manager(&host_, "host:1", 1);
  EXPECT_EQ(manager.Alloc(8 * kMiB, 1).status, compat::RmStatus::kOk);
  ours_.Put("again", kPageBytes);  // what is left is cut anew
}

TEST_F(ClientRoomTest, TheRegionThatWasUsedLeastRecentlyGoesWithItsKeys) {
  Fill();
  const std::vector<uint32_t> region_of = Regions();
  // Every region but one has a key that was read since.
  const uint32_t idle = region_of[pages_.size() / 2];
  std::set<uint32_t> read;
  for (size_t i = 0; i < pages_.size(); ++i) {
    const std::string key = std::to_string(i);
    if (region_of[i] == idle || read.contains(region_of[i]) || !ours_.Exists(key)) continue;
    read.insert(region_of[i]);
    EXPECT_TRUE(theirs_.Pin(key));
    EXPECT_TRUE(theirs_.Unpin(key));
  }
  ASSERT_GT(read.size(), 4u);
  const std::set<std::string> before = Keys();
  ASSERT_TRUE(theirs_.TryAlloc(2 * kMiB).handle.has_value());
  EXPECT_EQ(Emptied(region_of, before), std::set<uint32_t>{idle});
}

TEST_F(ClientRoomTest, AllocationsThatNeedSeveralRegionsTakeNeighbours) {
  Fill();
  const std::set<std::string> before = Keys();
  RmTestClient manager(&host_, "host:1", 1);
  const compat::RmAllocReply reply = manager.Alloc(20 * kMiB, 1);
  EXPECT_EQ(reply.status, compat::RmStatus::kOk);
  EXPECT_EQ(reply.handle.length_bytes, 20 * kMiB);
  EXPECT_LT(Keys().size(), before.size());
  EXPECT_GT(Keys().size(), before.size() / 4);
}

TEST_F(ClientRoomTest, RegionsThatAreNoNeighboursStayWhenOneAloneIsTooSmall) {
  Fill();
  const std::vector<uint32_t> region_of = Regions();
  // Every second region, by its place, has a page that is in use.
  std::map<uint64_t, uint32_t> regions;  // by their offset
  uint64_t longest = 0;
  for (const auto& region : host_.pool().PageRegions()) {
    regions[region.offset_bytes] = region.first_record.value();
    longest = std::max(longest, region.length_bytes);
  }
  std::set<uint32_t> in_use;
  bool pinned = false;
  for (const auto& [offset, first] : regions) {
    if (pinned = !pinned; pinned) in_use.insert(first);
  }
  ASSERT_GT(regions.size() - in_use.size(), 2u);
  for (size_t i = 0; i < pages_.size(); ++i) {
    if (ours_.Exists(std::to_string(i)) && in_use.erase(region_of[i]) == 1) {
      ASSERT_TRUE(theirs_.Pin(std::to_string(i)));
    }
  }
  const std::set<std::string> before = Keys();
  EXPECT_FALSE(theirs_.TryAlloc(2 * longest).handle.has_value());
  EXPECT_EQ(Keys(), before);
  EXPECT_TRUE(theirs_.TryAlloc(2 * kMiB).handle.has_value());
}

TEST_F(ClientRoomTest, WhatIsInUseStaysAndNothingGoesInVain) {
  Fill();
  const std::vector<uint32_t> region_of = Regions();
  // One page of each region is held, in turn pinned by anybody, pinned and leased by one of ours,
  // and told to a reader without a lease.
  std::set<uint32_t> held;
  for (size_t i = 0; i < pages_.size(); ++i) {
    const std::string key = std::to_string(i);
    if (!ours_.Exists(key) || !held.insert(region_of[i]).second) continue;
    switch (held.size() % 4) {
      case 0: EXPECT_TRUE(theirs_.Pin(key)); break;
      case 1: EXPECT_TRUE(ours_.Pin(pages_[i])); break;
      case 2: EXPECT_TRUE(ours_.Lease(pages_[i])); break;
      case 3: EXPECT_TRUE(theirs_.Lookup(key).has_value()); break;
    }
  }
  const std::set<std::string> before = Keys();
  EXPECT_NE(theirs_.TryAlloc(2 * kMiB).error.find("no room"), std::string::npos);
  RmTestClient manager(&host_, "host:1", 1);
  EXPECT_EQ(manager.Alloc(2 * kMiB, 1).status, compat::RmStatus::kNoMemory);
  EXPECT_EQ(Keys(), before);
  // The hold ends, the others do not.
  host_.Advance(host_.options().engine.wire_hold_ns);
  EXPECT_TRUE(theirs_.TryAlloc(2 * kMiB).handle.has_value());
}

// The catalogue keeps room beside a region: more than one has is refused before a key goes.
TEST_F(ClientRoomTest, WhatIsRefusedHasTakenNoKey) {
  Fill();
  const std::set<std::string> before = Keys();
  uint64_t bytes = 64 * kMiB;
  while (!theirs_.TryAlloc(bytes).handle.has_value()) {
    ASSERT_EQ(Keys(), before) << bytes << " bytes were refused";
    bytes -= layout::kUnitBytes;
    ASSERT_GT(bytes, 32 * kMiB);
  }
  EXPECT_LT(Keys().size(), before.size());
}

TEST_F(ClientRoomTest, AGrantedPageKeepsItsRegion) {
  TestClient second(&host_);
  const wire::PageRef page = second.Grant(kPageBytes)[0];
  Fill();
  const std::set<std::string> before = Keys();
  const std::vector<uint32_t> region_of = Regions();
  while (theirs_.TryAlloc(2 * kMiB).handle.has_value()) {
  }
  EXPECT_EQ(host_.State(page).state(), layout::PageState::kGranted);
  EXPECT_FALSE(Keys().empty()) << "those beside the page";
  for (const uint32_t region : Emptied(region_of, before)) {
    EXPECT_FALSE(page.record.value() >= region && page.record.value() < region + 64) << region;
  }
}

TEST(ClientRoomWithoutEviction, KeysStayAndRegionsWithoutKeysGo) {
  TestEngine host({.pools = {64 * kMiB}, .engine = {.eviction = Eviction::kNone}});
  TestClient ours(&host);
  UpstreamClient theirs(&host, "a");
  std::vector<std::string> keys;
  while (true) {
    const auto page = ours.TryGrant(kPageBytes);
    if (!page.ok()) break;
    keys.push_back(std::to_string(keys.size()));
    ours.Register(keys.back(), page->front());
  }
  EXPECT_FALSE(theirs.TryAlloc(4 * kMiB).handle.has_value());
  for (const std::string& key : keys) EXPECT_TRUE(ours.Exists(key));
  for (const std::string& key : keys) ours.Delete(key);
  EXPECT_TRUE(theirs.TryAlloc(4 * kMiB).handle.has_value());
  EXPECT_EQ(Offenders(host.engine()), "");
}

}  // namespace
}  // namespace maru::engine
