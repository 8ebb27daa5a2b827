// Extents and regions against a naive model: clients of upstream's protocol and one of ours, random
// requests, leases, pins, restarts; an audit each so often.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing.h"
#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

constexpr uint64_t kRegionBytes = 2 * kMiB;
constexpr uint64_t kGrain = 64 * 1024;  // of offsets and lengths: overlaps are common

class ExtentsModel {
 public:
  explicit ExtentsModel(uint64_t seed) : random_(seed) {}

  void Step() {
    switch (random_.Below(15)) {
      case 0: return Alloc();
      case 1:
        if (random_.OneIn(4)) Return();
        return;
      case 2: return Pin();
      case 3:
      case 4: return Unpin();
      case 5: return Lease();
      case 6:
      case 7: return Release();
      case 8:
      case 9: return Delete();
      case 10:
        if (random_.OneIn(20)) Restart();
        return;
      case 11: return RegisterBatch();
      default: return Register();
    }
  }
  void Check() {
    ASSERT_EQ(Offenders(host_.engine()), "");
    uint64_t bytes = 0;
    for (int i = 0; i < kKeys; ++i) {
      const std::string name = Name(i);
      const auto found = a_.Lookup(name);
      const auto expected = keys_.find(name);
      ASSERT_EQ(found.has_value(), expected != keys_.end()) << name;
      if (!found.has_value()) continue;
      ASSERT_EQ(found->handle.region_id, expected->second.region);
      ASSERT_EQ(found->offset_bytes, expected->second.offset);
      ASSERT_EQ(found->length_bytes, expected->second.length);
      bytes += expected->second.length;
    }
    ASSERT_EQ(a_.Stats().keys, keys_.size());
    ASSERT_EQ(a_.Stats().keys_bytes, bytes);
    // Nothing is condemned when nobody holds anything, and empty regions of nobody are gone.
    if (!leases_.empty()) return;
    host_.Tick();
    uint64_t regions = 0;
    for (const auto& [id, owned] : regions_) {
      bool keyed = false;
      for (const auto& [name, key] : keys_) keyed = keyed || key.region == id;
      regions += owned || keyed ? 1 : 0;
    }
    ASSERT_EQ(a_.Stats().allocations, regions);
  }
  uint64_t overwritten() const { return overwritten_; }
  uint64_t restarts() const { return restarts_; }

 private:
  static constexpr int kKeys = 60;
  struct Key {
    uint64_t region = 0, offset = 0, length = 0;
    uint64_t pins = 0;
  };
  static std::string Name(uint64_t i) { return "key" + std::to_string(i); }
  std::string AnyName() { return Name(random_.Below(kKeys)); }
  // Mostly one that is owned; else any that ever was.
  uint64_t AnyRegion() {
    std::vector<uint64_t> ids;
    const bool owned_only = !random_.OneIn(10);
    for (const auto& [id, owned] : regions_) {
      if (owned || !owned_only) ids.push_back(id);
    }
    return ids.empty() ? 1 : ids[random_.Below(ids.size())];
  }

  void Alloc() {
    uint64_t owned_regions = 0;
    for (const auto& [id, owned] : regions_) owned_regions += owned ? 1 : 0;
    if (owned_regions >= 3) return;
    const auto reply = a_.TryAlloc(kRegionBytes);
    if (reply.handle.has_value()) regions_[reply.handle->region_id] = true;
  }
  void Return() {
    const uint64_t region = AnyRegion();
    const auto found = regions_.find(region);
    const bool owned = found != regions_.end() && found->second;
    ASSERT_EQ(a_.Return(region), owned);
    if (owned) found->second = false;
  }
  Key AnyKey() {
    return {AnyRegion(), random_.Below(kRegionBytes / kGrain) * kGrain,
            (1 + random_.Below(4)) * kGrain - random_.Below(2), 0};
  }
  void Register() {
    const std::string name = AnyName();
    const Key key = AnyKey();
    const bool fresh = Registered(name, key);
    ASSERT_EQ(a_.Register(name, key.region, key.offset, key.length), fresh);
  }
  // As one after the other.
  void RegisterBatch() {
    const size_t count = 1 + random_.Below(12);
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(AnyName());
    compat::RegisterRequest request;
    std::vector<bool> fresh;
    for (const std::string& name : names) {
      const Key key = AnyKey();
      request.entries.push_back({name, key.region, key.offset, key.length});
      fresh.push_back(Registered(name, key));
    }
    const auto reply =
        a_.Ask<compat::BatchRegisterReply>(MetadataType::kBatchRegister, std::move(request));
    ASSERT_EQ(reply.results, fresh);
  }
  // Whether it is new, and then it is there.
  bool Registered(const std::string& name, const Key& key) {
    const auto region = regions_.find(key.region);
    const bool fits = key.offset + key.length <= kRegionBytes;
    const bool owned = region != regions_.end() && region->second;
    if (owned && fits) DropOverlapped(name, key);
    const bool fresh = !keys_.contains(name) && owned && fits;
    if (fresh) keys_[name] = key;
    return fresh;
  }
  // The room is used anew, whatever is answered: all but the key's own bytes that begin there.
  void DropOverlapped(const std::string& name, const Key& key) {
    for (auto at = keys_.begin(); at != keys_.end();) {
      const Key& other = at->second;
      const bool same = at->first == name && other.offset == key.offset;
      const bool over = !same && other.region == key.region &&
                        other.offset < key.offset + key.length &&
                        key.offset < other.offset + other.length;
      overwritten_ += over ? 1 : 0;
      at = over ? keys_.erase(at) : std::next(at);
    }
  }
  void Delete() {
    const std::string name = AnyName();
    const auto key = keys_.find(name);
    const bool there = key != keys_.end();
    const bool free = there && key->second.pins == 0 && !Leased(name);
    if (random_.OneIn(2)) {
      ASSERT_EQ(a_.Delete(name), free) << name;
    } else {
      ASSERT_EQ(ours_.Delete(name), free    ? wire::DeleteOutcome::kDeleted
                                    : there ? wire::DeleteOutcome::kPinned
                                            : wire::DeleteOutcome::kMissing);
    }
    if (free) keys_.erase(key);
  }
  void Pin() {
    const std::string name = AnyName();
    const auto key = keys_.find(name);
    ASSERT_EQ(a_.Pin(name), key != keys_.end());
    if (key != keys_.end()) ++key->second.pins;
  }
  void Unpin() {
    const std::string name = AnyName();
    const auto key = keys_.find(name);
    const bool pinned = key != keys_.end() && key->second.pins > 0;
    ASSERT_EQ(a_.Unpin(name), pinned);
    if (pinned) --key->second.pins;
  }
  void Lease() {
    const std::string name = AnyName();
    const auto found = ours_.Find(name);
    ASSERT_EQ(found.found, keys_.contains(name));
    if (found.found && ours_.Lease(found.page)) leases_.push_back({name, found.page});
  }
  void Release() {
    if (leases_.empty()) return;
    const size_t chosen = random_.Below(leases_.size());
    ours_.Release(leases_[chosen].second);
    leases_.erase(leases_.begin() + static_cast<ptrdiff_t>(chosen));
  }
  bool Leased(const std::string& name) {
    const auto found = ours_.Find(name);
    for (const auto& [leased, page] : leases_) {
      if (found.found && page == found.page) return true;
    }
    return false;
  }
  void Restart() {
    ++restarts_;
    host_.Restart();
    ASSERT_TRUE(ours_.Attach().ok());
    ours_.Settle({});
  }

  Random random_;
  // Without holds: Check looks all keys up.
  TestEngine host_{{.pools = {48 * kMiB, 32 * kMiB}, .engine = {.wire_hold_ns = 0}}};
  UpstreamClient a_{&host_, "a"};
  TestClient ours_{&host_};
  std::map<uint64_t, bool> regions_;  // owned
  std::map<std::string, Key> keys_;
  std::vector<std::pair<std::string, wire::PageRef>> leases_;
  uint64_t overwritten_ = 0, restarts_ = 0;
};

TEST(ExtentsModel, RandomRequestsAgree) {
  const uint64_t seed = TestSeed();
  ExtentsModel model(seed);
  for (int step = 0; step < 20'000; ++step) {
    ASSERT_NO_FATAL_FAILURE(model.Step());
    if (step % 100 == 0) {
      ASSERT_NO_FATAL_FAILURE(model.Check());
    }
  }
  EXPECT_GT(model.overwritten(), 100u);
  EXPECT_GT(model.restarts(), 10u);
}

}  // namespace
}  // namespace maru::engine
