// What readers without leases were told of stays what it was for a while: a region is not lent anew
// before, whatever goes first, its keys or its owner.
#include <gtest/gtest.h>

#include <string>

#include "base/test_log.h"
#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

class ToldRegionsTest : public testing::Test {
 protected:
  ~ToldRegionsTest() override { EXPECT_EQ(Offenders(host_.engine()), ""); }

  // A region with one key, which somebody was told of.
  uint64_t Told(UpstreamClient* client) {
    const uint64_t region = client->Alloc();
    EXPECT_TRUE(client->Register("key", region, 0));
    EXPECT_TRUE(client->Lookup("key").has_value());
    return region;
  }
  size_t Regions() { return host_.pool().ClientRegions().size(); }
  // For as long as a hold that begins now, and no longer.
  void ExpectHeld() {
    EXPECT_EQ(Regions(), 1u);
    host_.Pass(59 * kSecondNs);
    EXPECT_EQ(Regions(), 1u);
    EXPECT_EQ(Offenders(host_.engine()), "");
    host_.Pass(2 * kSecondNs);
    EXPECT_EQ(Regions(), 0u);
  }

  TestEngine host_{{.pools = {64 * kMiB}}};
};

TEST_F(ToldRegionsTest, DeletedBeforeTheRegionIsReturned) {
  UpstreamClient a(&host_, "a");
  const uint64_t region = Told(&a);
  ASSERT_TRUE(a.Delete("key"));
  ASSERT_TRUE(a.Return(region));
  ASSERT_EQ(Regions(), 1u);
  const uint64_t offset = host_.pool().ClientRegions()[0].offset_bytes;
  const compat::AllocReply other = a.TryAlloc(4 * kMiB);
  ASSERT_TRUE(other.handle.has_value());
  EXPECT_NE(other.handle->offset_bytes, offset);
  ASSERT_TRUE(a.Return(other.handle->region_id));  // nobody was told of that: it goes at once
  ExpectHeld();
}

TEST_F(ToldRegionsTest, WrittenOverBeforeTheRegionIsReturned) {
  UpstreamClient a(&host_, "a");
  const uint64_t region = Told(&a);
  ASSERT_TRUE(a.Register("over", region, 0));
  ASSERT_TRUE(a.Return(region));
  ASSERT_TRUE(a.Delete("over"));
  ExpectHeld();
}

TEST_F(ToldRegionsTest, DeletedBeforeTheLeaseLapses) {
  UpstreamClient a(&host_, "a", "lease");
  a.SetLease(kSecondNs);
  Told(&a);
  ASSERT_TRUE(a.Delete("key"));
  host_.Pass(kSecondNs);
  EXPECT_TRUE(a.Beat().lease_expired);
  EXPECT_EQ(Regions(), 1u);
  host_.Pass(60 * kSecondNs);
  EXPECT_EQ(Regions(), 0u);
}

// The test's wall clock starts anew with a server, so the hold does.
TEST_F(ToldRegionsTest, ANewServerKnows) {
  UpstreamClient a(&host_, "a");
  const uint64_t region = Told(&a);
  ASSERT_TRUE(a.Delete("key"));
  host_.Restart();
  ASSERT_TRUE(a.Return(region));
  host_.Restart();
  ExpectHeld();
}

TEST_F(ToldRegionsTest, AHoldOfAClockThatWasAheadIsCutAtTheStart) {
  UpstreamClient a(&host_, "a");
  const uint64_t region = Told(&a);
  ASSERT_TRUE(a.Delete("key"));
  host_.pool().SetHoldUntil(host_.pool().ClientRegions()[0].slot, 2 * TestEngine::kUnixNs);
  host_.Restart();
  ASSERT_TRUE(a.Return(region));
  ExpectHeld();
}

TEST_F(ToldRegionsTest, NoHoldOutlivesTheReadersBoot) {
  UpstreamClient a(&host_, "a");
  Told(&a);
  ASSERT_TRUE(a.Delete("key"));
  host_.Reboot();
  EXPECT_EQ(Regions(), 0u);
}

TEST_F(ToldRegionsTest, ARegionThatFindsNoRoomIsToldOfWhatIsOnHold) {
  UpstreamClient a(&host_, "a");
  EXPECT_EQ(a.TryAlloc(62 * kMiB).error.find("on hold"), std::string::npos);
  const uint64_t region = Told(&a);
  ASSERT_TRUE(a.Delete("key"));
  EXPECT_EQ(a.TryAlloc(62 * kMiB).error.find("on hold"), std::string::npos);  // it is a's own
  ASSERT_TRUE(a.Return(region));
  host_.Pass(3 * kSecondNs);
  const std::string error = a.TryAlloc(62 * kMiB).error;
  EXPECT_NE(error.find("4MiB (1 region) was given back and is on hold"), std::string::npos)
      << error;
  EXPECT_TRUE(error.ends_with("the first for 57 s")) << error;
  host_.Pass(57 * kSecondNs);
  EXPECT_EQ(a.TryAlloc(62 * kMiB).error.find("on hold"), std::string::npos);
}

TEST_F(ToldRegionsTest, TheOwnersRoomIsTheOwners) {
  UpstreamClient a(&host_, "a");
  TestClient ours(&host_);
  const uint64_t region = Told(&a);
  ASSERT_TRUE(a.Delete("key"));
  const auto condemned =
      ours.Ask<wire::InspectReply>(wire::InspectRequest{wire::InspectTopic::kCondemned, 0});
  EXPECT_EQ(condemned.json.find("key"), std::string::npos) << condemned.json;
  EXPECT_TRUE(a.Register("next", region, 0));
}

TEST_F(ToldRegionsTest, AskingWhetherAKeyIsThereHoldsNothing) {
  UpstreamClient a(&host_, "a");
  const uint64_t region = a.Alloc();
  ASSERT_TRUE(a.Register("key", region, 0));
  EXPECT_TRUE(a.Exists("key"));
  ASSERT_TRUE(a.Delete("key"));
  ASSERT_TRUE(a.Return(region));
  EXPECT_EQ(Regions(), 0u);
}

}  // namespace
}  // namespace maru::engine
