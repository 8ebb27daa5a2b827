// The server dies at any publishing store while it serves clients of upstream's protocols: what was
// answered stands, what was not is either done or not, and the next server audits clean.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/test_crash.h"
#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

class ExtentsCrashTest : public testing::Test {
 protected:
  // What a client may rely on: true there, false gone; a key in doubt has no entry.
  void Register(const std::string& key, uint64_t offset, uint64_t length = 1000) {
    known_.erase(key);
    known_[key] = a_->Register(key, region_, offset, length);
  }
  void Delete(const std::string& key) {
    known_.erase(key);
    MARU_CHECK(a_->Delete(key));
    known_[key] = false;
  }
  void Life() {
    const auto told = rm_->Alloc(2 * kMiB, 1);
    rm_handle_ = told.handle;
    MARU_CHECK(told.status == compat::RmStatus::kOk);
    region_ = a_->Alloc(2 * kMiB);
    Register("one", 0);
    Register("two", 1000);
    Register("three", 2000);
    Delete("two");
    known_.erase("three");  // overwritten by the next, or not yet
    Register("four", 1500);
    known_["three"] = false;
    MARU_CHECK(a_->Pin("one"));
    pinned_ = true;
    MARU_CHECK(a_->Beat().lease_ttl_s > 0);
    MARU_CHECK(rm_->Free(rm_handle_, 2) == compat::RmStatus::kOk);
    MARU_CHECK(a_->Return(region_));
    returned_ = true;
    MARU_CHECK(a_->Unpin("one"));
    pinned_ = false;
    Delete("one");
    Delete("four");
  }
  void Start() {
    host_.emplace(TestEngine::Options{.pools = {32 * kMiB}});
    Clients();
    known_.clear();
    rm_handle_ = {};
    region_ = 0;
    pinned_ = returned_ = false;
  }
  void Clients() {
    a_.emplace(&*host_, "a", "lease-1");
    rm_.emplace(&*host_, "node:1", 1);
  }
  void ExpectWhatWasAnswered() {
    ASSERT_EQ(Offenders(host_->engine()), "");
    for (const auto& [key, there] : known_) EXPECT_EQ(a_->Exists(key), there) << key;
    if (pinned_) {
      EXPECT_FALSE(a_->Delete("one"));
    }
    const auto regions = host_->pool().ClientRegions();
    EXPECT_LE(regions.size(), 2u);
    // From then on it may have been freed without an answer.
    if (rm_handle_.region_id != 0 && region_ == 0) {
      EXPECT_EQ(rm_->Access(rm_handle_).status, compat::RmStatus::kOk);
    }
    if (returned_) {
      EXPECT_FALSE(a_->Register("late", region_, 8000));
    }
  }
  // All that is left can be given back, and goes.
  void ExpectItGoesOn() {
    if (pinned_) a_->Unpin("one");
    for (const std::string key : {"one", "two", "three", "four"}) {
      while (a_->Unpin(key)) {
      }
      a_->Delete(key);
      EXPECT_FALSE(a_->Exists(key)) << key;
    }
    for (const auto& region : host_->pool().ClientRegions()) {
      if (region.client.road == layout::RegionRoad::kMetadata && region.owner != ClientId(0)) {
        EXPECT_TRUE(a_->Return(region.id.value()));
      }
    }
    rm_->Disconnect();
    host_->Pass(30'000'000'000);
    EXPECT_EQ(host_->pool().usage().client_cut_bytes, 0u);
    ASSERT_EQ(Offenders(host_->engine()), "");
  }

  std::optional<TestEngine> host_;
  std::optional<UpstreamClient> a_;
  std::optional<RmTestClient> rm_;
  std::map<std::string, bool> known_;
  compat::Handle rm_handle_;
  uint64_t region_ = 0;
  bool pinned_ = false, returned_ = false;
};

TEST_F(ExtentsCrashTest, AtEveryPointWhatWasAnsweredStands) {
  const auto met = CrashAtEachPoint([this](CrashPoint& point) {
    Start();
    point.Run([this] { Life(); });
    host_->Restart();
    Clients();
    ASSERT_NO_FATAL_FAILURE(ExpectWhatWasAnswered());
    ASSERT_NO_FATAL_FAILURE(ExpectItGoesOn());
  });
  ExpectMet(met, {"pool:client-cut", "region:owner", "region:freed", "writer:retiring",
                  "writer:condemned", "writer:extent-placed", "writer:extent-freed"});
}

// The server dies at any store of the end of a lease that has regions in two pools: its client is
// told that it has all of them, or that it has lapsed.
TEST(LapseCrashTest, ALeaseHoldsAllItsRegionsOrNone) {
  constexpr uint64_t kLapseNs = 31'000'000'000;
  std::set<bool> told;
  const auto met = CrashAtEachPoint([&told](CrashPoint& point) {
    TestEngine host({.pools = {32 * kMiB, 32 * kMiB}});
    UpstreamClient a(&host, "a", "lease-1"), next(&host, "next");
    const uint64_t keyed = a.Alloc(2 * kMiB);
    ASSERT_TRUE(a.Register("key", keyed, 0));
    a.Alloc(2 * kMiB);
    a.TakeRegionsFrom({"pool1"});
    a.Alloc(2 * kMiB);
    const bool whole = point.Run([&host] { host.Pass(kLapseNs); });
    host.Restart();
    const bool expired = a.Beat().lease_expired;
    told.insert(expired);
    size_t owned = 0;
    for (size_t i = 0; i < host.pools(); ++i) {
      for (const auto& region : host.pool(i).ClientRegions()) owned += region.owner != ClientId(0);
    }
    EXPECT_EQ(owned, expired ? 0u : 3u);
    EXPECT_TRUE(expired || !whole);
    ASSERT_EQ(Offenders(host.engine()), "");
    // Its room is another's, and each pool tells the servers to come.
    if (expired) next.Alloc(2 * kMiB);
    for (const size_t pool : {0, 1}) {
      host.SetServed({pool});
      host.Restart();
      EXPECT_EQ(a.Beat().lease_expired, expired) << pool;
    }
    host.SetServed({0, 1});
    host.Restart();
    host.Pass(kLapseNs);
    EXPECT_TRUE(a.Beat().lease_expired);
    EXPECT_TRUE(a.Delete("key"));
    ASSERT_EQ(Offenders(host.engine()), "");
  });
  EXPECT_EQ(told, (std::set{false, true}));
  ExpectMet(met, {"pool:lapsed-count", "pool:lapsed", "region:owner", "region:freed"});
}

}  // namespace
}  // namespace maru::engine
