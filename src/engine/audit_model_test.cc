// Audits in small steps beside clients that change everything they look at: whatever comes between
// two steps, a sound server has no offender, and a damaged one names its damage. The seed is
// printed; MARU_TEST_SEED repeats it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing.h"
#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

using testing::HasSubstr;
using wire::PageRef;

constexpr uint64_t kSizes[] = {16 * kKiB, 64 * kKiB, 512 * kKiB};
constexpr int kClients = 4;
constexpr int kKeys = 400;

TestEngine::Options HostOptions(Random& random, Eviction eviction) {
  TestEngine::Options options;
  options.pools = {64 * kMiB, 48 * kMiB};
  options.engine.eviction = eviction;
  options.engine.region_bytes_min = 2 * kMiB;
  options.engine.region_bytes_max = 4 * kMiB;
  options.engine.region_pages_min = 1;
  options.engine.evict_batch = 8;
  options.engine.audit_work = static_cast<uint32_t>(1 + random.Below(16));
  options.index_entries_log2_min = 4;
  return options;
}

class AuditModel {
 public:
  AuditModel(uint64_t seed, Eviction eviction)
      : random_(seed),
        host_(HostOptions(random_, eviction)),
        auditor_(&host_, {.label = "auditor"}) {
    for (int i = 0; i < kClients; ++i) actors_.push_back(NewActor());
  }

  TestEngine& host() { return host_; }
  Random& random() { return random_; }

  // One step of the audit under way, or the first of another one. What it found when that was the
  // last: nothing on a sound server.
  std::string AuditStep() {
    const auto reply = auditor_.Ask<wire::AuditReply>(wire::AuditRequest{false, audit_});
    ++steps_;
    audit_ = reply.audit;
    if (audit_ != 0) return "";
    ++finished_;
    longest_ = std::max(longest_, std::exchange(steps_, 0));
    return reply.clean ? "" : reply.json;
  }
  void ForgetAudit() { audit_ = 0; }
  uint64_t finished() const { return finished_; }
  uint64_t longest() const { return longest_; }

  void Change() {
    Actor& actor = actors_[random_.Below(actors_.size())];
    switch (random_.Below(20)) {
      case 0: return Grant(&actor);
      case 1:
      case 2:
      case 3: return Register(&actor);
      case 4: actor.client->Delete(Key()); return;
      case 5: return GiveBack(&actor);
      case 6:
      case 7: return Lease(&actor);
      case 8: return Release(&actor);
      case 9: return Reconnect(&actor);
      case 10:
        if (random_.OneIn(3)) Replace(&actor);
        return;
      case 11:
      case 12:
        host_.Advance(random_.Below(1'500'000'000));
        host_.Tick();
        return;
      case 13: host_->FreeIdleRegions(kSizes[random_.Below(3)], host_.now_ns()); return;
      case 14: host_->RecallIdle(kSizes[random_.Below(3)], 5, host_.now_ns()); return;
      case 15: host_->TrimNamespace("", random_.Below(32 * kMiB), host_.now_ns()); return;
      case 16:
      case 17:
      case 18: return Extent();
      default: return Regions();
    }
  }
  // The server dies, and all audits with it.
  void Restart() {
    host_.Restart();
    audit_ = 0;
    steps_ = 0;
    MARU_CHECK_OK(auditor_.Attach());
    for (Actor& actor : actors_) {
      MARU_CHECK_OK(actor.client->Attach());
      actor.granted.clear();
      actor.client->Settle({});
    }
  }

 private:
  struct Actor {
    std::unique_ptr<TestClient> client;
    std::vector<PageRef> granted, leased, pinned;
  };

  std::string Key() { return "key" + std::to_string(random_.Below(kKeys)); }
  Actor NewActor() { return {std::make_unique<TestClient>(&host_), {}, {}, {}}; }
  PageRef Take(std::vector<PageRef>* pages) {
    std::swap((*pages)[random_.Below(pages->size())], pages->back());
    const PageRef page = pages->back();
    pages->pop_back();
    return page;
  }

  void Grant(Actor* actor) {
    const auto pages = actor->client->TryGrant(kSizes[random_.Below(3)],
                                               static_cast<uint32_t>(1 + random_.Below(12)));
    if (pages.ok()) actor->granted.insert(actor->granted.end(), pages->begin(), pages->end());
  }
  void Register(Actor* actor) {
    if (actor->granted.empty()) return Grant(actor);
    wire::RegisterRequest request;
    std::vector<std::string> keys;
    for (uint64_t i = random_.Below(4); i < 4 && !actor->granted.empty(); ++i) {
      keys.push_back(Key());
      request.entries.push_back({Take(&actor->granted), 100, 0, {}});
    }
    for (size_t i = 0; i < keys.size(); ++i) request.entries[i].key = keys[i];
    const auto reply = actor->client->Ask<wire::RegisterReply>(request);
    for (size_t i = 0; i < reply.items.size(); ++i) {
      if (reply.items[i].outcome != wire::RegisterOutcome::kDuplicate) continue;
      PageRef page = request.entries[i].page;
      page.generation = reply.items[i].generation;
      actor->granted.push_back(page);
    }
  }
  void GiveBack(Actor* actor) {
    if (!actor->granted.empty()) actor->client->GiveBack({Take(&actor->granted)});
  }
  void Lease(Actor* actor) {
    const auto found = actor->client->Find(Key());
    if (!found.found) return;
    if (random_.OneIn(3)) {
      if (actor->client->Pin(found.page)) actor->pinned.push_back(found.page);
    } else if (actor->client->Lease(found.page)) {
      actor->leased.push_back(found.page);
    }
  }
  void Release(Actor* actor) {
    if (!actor->leased.empty()) actor->client->Release(Take(&actor->leased));
    if (!actor->pinned.empty()) actor->client->Unpin(Take(&actor->pinned));
  }
  // In two parts, of which the second may never come.
  void Reconnect(Actor* actor) {
    actor->client->Disconnect();
    MARU_CHECK_OK(actor->client->Attach());
    std::vector<PageRef> known;
    for (uint64_t i = random_.Below(8); i > 0 && !actor->granted.empty(); --i) {
      known.push_back(Take(&actor->granted));
    }
    if (random_.OneIn(2)) {
      actor->client->Settle(known, false);
      if (random_.OneIn(2)) {
        actor->granted.clear();
        return;
      }
    }
    actor->client->Settle({}, true);
    actor->granted.clear();
  }
  void Replace(Actor* actor) {
    actor->client->Die();
    *actor = NewActor();
  }
  void Extent() {
    if (regions_.empty()) return Regions();
    const uint64_t region = regions_[random_.Below(regions_.size())];
    upstream_.Register(Key(), region, random_.Below(30) * 64 * kKiB,
                       (1 + random_.Below(3)) * 64 * kKiB);
  }
  void Regions() {
    if (!regions_.empty() && random_.OneIn(2)) {
      upstream_.Return(regions_.back());
      regions_.pop_back();
      return;
    }
    const auto reply = upstream_.TryAlloc(2 * kMiB);
    if (reply.handle.has_value()) regions_.push_back(reply.handle->region_id);
  }

  Random random_;
  TestEngine host_;
  TestClient auditor_;
  std::vector<Actor> actors_;
  UpstreamClient upstream_{&host_, "upstream"};
  std::vector<uint64_t> regions_;
  uint64_t audit_ = 0, steps_ = 0, finished_ = 0, longest_ = 0;
};

TEST(AuditModelTest, ChangesBetweenStepsAreNoOffence) {
  const uint64_t seed = TestSeed();
  uint64_t finished = 0, longest = 0;
  for (uint64_t round = 0; round < 6; ++round) {
    AuditModel model(seed + round, round % 2 == 0 ? Eviction::kLeastRecentlyUsed : Eviction::kNone);
    for (int step = 0; step < 4000; ++step) {
      if (model.random().OneIn(900)) model.Restart();
      model.Change();
      ASSERT_EQ(model.AuditStep(), "") << "step " << step << " of round " << round;
      if (step % 500 == 0) {
        ASSERT_EQ(Offenders(model.host().engine()), "");
      }
    }
    finished += model.finished();
    longest = std::max(longest, model.longest());
  }
  EXPECT_GT(finished, 20u);
  EXPECT_GT(longest, 100u);
}

struct Injury {
  const char* offender;
  void (*make)(layout::PageRecord& key, layout::PageRecord& granted, layout::PageRecord& extent);
};

constexpr Injury kInjuries[] = {
    {"its hash is not that of its key",
     [](auto& key, auto&, auto&) { key.hash_high.fetch_xor(1); }},
    {"bytes granted and", [](auto& key, auto&, auto&) { key.owner.store(1); }},
    {"used later than now", [](auto& key, auto&, auto&) { key.last_use.store(1ull << 40); }},
    {"bytes are stored, counted", [](auto& key, auto&, auto&) { key.length_bytes.fetch_add(1); }},
    {"where no client lives",
     [](auto&, auto& granted, auto&) {
       const layout::StateWord word(granted.state_word.load());
       granted.state_word.store(
           layout::StateWord::Make(word.state(), word.generation(), ClientSlot(900)).bits());
     }},
    {"extents of", [](auto&, auto&, auto& extent) { extent.length_bytes.fetch_sub(1); }},
};

TEST(AuditModelTest, ADamageIsNamedWhateverGoesOnBesideIt) {
  const uint64_t seed = TestSeed();
  for (size_t i = 0; i < std::size(kInjuries); ++i) {
    // Without eviction nobody touches what the keeper has.
    AuditModel model(seed + i, Eviction::kNone);
    TestEngine& host = model.host();
    TestClient keeper(&host, {.label = "keeper", .name_space = "kept"});
    UpstreamClient other(&host, "keeper", "", "kept");
    const uint64_t region = other.Alloc(2 * kMiB);
    const auto record = [&](const PageRef& page) -> layout::PageRecord& {
      return const_cast<layout::PageRecord&>(*host.view(page.pool.value()).Record(page.record));
    };
    const PageRef key = keeper.Put("key", kSizes[0]);
    const PageRef granted = keeper.Grant(kSizes[0])[0];
    ASSERT_TRUE(other.Register("extent", region, 0));
    const PageRef extent = keeper.Find("extent").page;

    const uint64_t quiet = 500 + model.random().Below(500);
    for (uint64_t step = 0; step < quiet; ++step) {
      model.Change();
      ASSERT_EQ(model.AuditStep(), "");
    }
    kInjuries[i].make(record(key), record(granted), record(extent));
    model.ForgetAudit();
    std::string found;
    for (int step = 0; found.empty() && step < 20'000; ++step) {
      model.Change();
      found = model.AuditStep();
    }
    EXPECT_THAT(found, HasSubstr(kInjuries[i].offender));
  }
}

}  // namespace
}  // namespace maru::engine
