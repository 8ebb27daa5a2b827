// The engine against a naive model: several clients that store, delete, lease, repeat themselves,
// lose connections, die; a server that dies between any two things it publishes. After every step
// the audit finds nothing and the answers are those of a plain map of keys.
//
// Each step draws from a generator of its own, seeded by the run's seed and the step's number, so
// that steps can be left out: a failing run is cut down to few steps, and those are printed.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "base/random.h"
#include "base/sequence_point.h"
#include "base/testing.h"
#include "engine/test_engine.h"

namespace maru::engine {
namespace {

using layout::PageState;
using wire::PageRef;

class PointCrash {};

using Place = std::pair<uint8_t, uint32_t>;        // pool, record
using Name = std::pair<std::string, std::string>;  // namespace, key

Place PlaceOf(const PageRef& page) { return {page.pool.value(), page.record.value()}; }

struct Key {
  PageRef page;
  uint64_t page_bytes = 0;
  int owner = 0;         // serial of the client that stored it
  uint64_t use = 0;      // greater: later
  bool blurred = false;  // its last use is not known: it was held when others went, or in a crash
};

struct Grant {
  Generation generation{0};
  uint64_t page_bytes = 0;
};

struct Actor {
  int serial = 0;
  std::unique_ptr<TestClient> client;
  bool attached = true;
  std::map<Place, Grant> granted;
  std::vector<PageRef> leases, pins;
  const std::string& space() const { return client->options().name_space; }
};

// What a request that the server died in may have done.
struct InFlight {
  std::multimap<Name, PageRef> registers;  // one batch may name a key twice
  std::set<Name> deletes;
  std::set<Place> returns;  // pages that may have come back
  bool evicts = false, settles = false;
};

// While a client acts in its own lease area: points that it passes are not the server's.
class InClient {
 public:
  explicit InClient(bool* flag) : flag_(flag) { *flag_ = true; }
  ~InClient() { *flag_ = false; }
  InClient(const InClient&) = delete;
  InClient& operator=(const InClient&) = delete;

 private:
  bool* flag_;
};

class Model {
 public:
  Model(uint64_t seed, const std::vector<uint64_t>& pools)
      : seed_(seed), random_(seed), host_(Options(pools)) {
    for (int i = 0; i < 3; ++i) Join();
  }

  // `failed` tells whether a check has failed.
  void Step(uint64_t number, const std::function<bool()>& failed) {
    uint64_t own = seed_ + number;
    random_ = Random(SplitMix64(own));
    in_flight_ = {};
    if (random_.OneIn(25)) {
      CrashingStep();
    } else {
      Act();
    }
    if (failed()) return;
    Check();
  }

  const std::string& last_act() const { return last_act_; }

 private:
  static constexpr uint64_t kSizes[] = {64 * kKiB, 256 * kKiB, 1 * kMiB};
  static constexpr int kActorsMax = 6;
  static constexpr int kKeys = 24;

  static TestEngine::Options Options(const std::vector<uint64_t>& pools) {
    TestEngine::Options options;
    options.pools = pools;
    options.engine.evict_batch = 8;
    return options;
  }

  // --- Chance.

  Actor& AnyActor() { return *actors_[random_.Below(actors_.size())]; }
  Actor* AnyAttached() {
    std::vector<Actor*> attached;
    for (const auto& actor : actors_) {
      if (actor->attached) attached.push_back(actor.get());
    }
    return attached.empty() ? nullptr : attached[random_.Below(attached.size())];
  }
  std::string AnyKey() { return "key" + std::to_string(random_.Below(kKeys)); }
  PageRef AnyGranted(const Actor& actor) {
    if (actor.granted.empty()) return AnyPage();
    auto at = actor.granted.begin();
    std::advance(at, random_.Below(actor.granted.size()));
    return {PoolIndex(at->first.first), RecordNumber(at->first.second), at->second.generation};
  }
  // Past, present or nonsense.
  PageRef AnyPage() {
    if (!past_.empty() && !random_.OneIn(8)) return past_[random_.Below(past_.size())];
    return {PoolIndex(static_cast<uint8_t>(random_.Below(3))),
            RecordNumber(static_cast<uint32_t>(random_.Below(200))),
            Generation(static_cast<uint32_t>(random_.Below(5)))};
  }

  // --- What the model knows.

  bool Held(const PageRef& page) const {
    for (const auto& actor : actors_) {
      if (std::count(actor->leases.begin(), actor->leases.end(), page) > 0) return true;
    }
    return Pinned(page);
  }
  bool Pinned(const PageRef& page) const {
    for (const auto& actor : actors_) {
      if (std::count(actor->pins.begin(), actor->pins.end(), page) > 0) return true;
    }
    return false;
  }
  bool GrantedTo(const Actor& actor, const PageRef& page) const {
    const auto at = actor.granted.find(PlaceOf(page));
    return at != actor.granted.end() && at->second.generation == page.generation;
  }
  std::map<Name, Key>::iterator KeyOn(const PageRef& page) {
    return std::find_if(keys_.begin(), keys_.end(),
                        [&page](const auto& key) { return key.second.page == page; });
  }
  void SawGeneration(const PageRef& page) {
    Generation& last = generations_[PlaceOf(page)];
    EXPECT_GT(page.generation, last) << "a generation came back";
    last = page.generation;
    past_.push_back(page);
    if (past_.size() > 200) past_.erase(past_.begin());
  }
  void TakeGrant(Actor* actor, const PageRef& page, uint64_t page_bytes) {
    SawGeneration(page);
    EXPECT_GE(host_.now_ns(), quarantined_until_[PlaceOf(page)]);
    for (const auto& other : actors_) {
      EXPECT_FALSE(other->granted.contains(PlaceOf(page))) << "granted twice";
      for (const PageRef& held : other->leases) EXPECT_NE(PlaceOf(held), PlaceOf(page)) << "leased";
      for (const PageRef& held : other->pins) EXPECT_NE(PlaceOf(held), PlaceOf(page)) << "pinned";
    }
    for (const auto& [name, key] : keys_) EXPECT_NE(PlaceOf(key.page), PlaceOf(page)) << "a key's";
    actor->granted[PlaceOf(page)] = {page.generation, page_bytes};
  }
  uint64_t Used(const Actor& actor) const {
    uint64_t bytes = 0;
    for (const auto& [place, grant] : actor.granted) bytes += grant.page_bytes;
    for (const auto& [name, key] : keys_) bytes += key.owner == actor.serial ? key.page_bytes : 0;
    return bytes;
  }

  // --- Checks after a step.

  void Check() {
    EXPECT_EQ(Offenders(host_.engine()), "");
    for (const auto& actor : actors_) {
      for (const auto& [place, grant] : actor->granted) {
        const PageRef page{PoolIndex(place.first), RecordNumber(place.second), grant.generation};
        EXPECT_EQ(host_.State(page), layout::StateWord::Make(PageState::kGranted, grant.generation,
                                                             actor->client->slot()));
      }
      // Held bytes are nobody else's: LIVE or CONDEMNED in the same life.
      for (const auto* held : {&actor->leases, &actor->pins}) {
        for (const PageRef& page : *held) {
          const layout::StateWord word = host_.State(page);
          EXPECT_EQ(word.generation(), page.generation);
          EXPECT_TRUE(word.state() == PageState::kLive || word.state() == PageState::kCondemned);
        }
      }
      for (const PageRef& page : actor->pins) EXPECT_NE(KeyOn(page), keys_.end()) << "pinned, gone";
      Publish(actor.get());
    }
    CheckKeys({});
  }

  void Publish(Actor* actor) {
    std::vector<uint64_t> pages(host_.pools());
    for (const auto& [place, grant] : actor->granted) ++pages[place.first];
    for (size_t i = 0; i < pages.size(); ++i) {
      actor->client->leases(i).Publish(
          {.free_pages = pages[i], .last_request = actor->client->last_request()});
    }
  }

  // The keys that are there are the model's, but for those that may have gone for room.
  void CheckKeys(const std::set<Name>& used) {
    std::map<Name, Key> gone;
    for (const auto& [name, key] : keys_) {
      catalogue::Found found;
      const catalogue::Namespace space(name.first);
      const auto verdict = catalogue::Reader(host_.view(key.page.pool.value()))
                               .Find(catalogue::MakeKeyRef(space, name.second), &found);
      if (verdict == catalogue::FindVerdict::kLive) {
        EXPECT_EQ(found.record, key.page.record) << name.second;
        EXPECT_EQ(found.generation, key.page.generation) << name.second;
        continue;
      }
      EXPECT_EQ(verdict, catalogue::FindVerdict::kMiss);
      EXPECT_TRUE(in_flight_.evicts || in_flight_.deletes.contains(name)) << name.second << " lost";
      EXPECT_FALSE(Pinned(key.page)) << name.second;
      EXPECT_FALSE(used.contains(name)) << name.second << " was just stored";
      if (!in_flight_.deletes.contains(name)) {
        EXPECT_FALSE(Held(key.page)) << name.second;
        gone.emplace(name, key);
      }
    }
    std::erase_if(keys_, [&](const auto& item) {
      return gone.contains(item.first) ||
             host_.State(item.second.page) !=
                 layout::StateWord::Make(PageState::kLive, item.second.page.generation);
    });
    CheckOrder(gone, used);
  }

  // What went was used less recently than what stayed and might have gone in its place.
  void CheckOrder(const std::map<Name, Key>& gone, const std::set<Name>& used) {
    for (const auto& [gone_name, lost] : gone) {
      for (const auto& [name, key] : keys_) {
        const bool alike = key.page_bytes == lost.page_bytes && key.owner == lost.owner &&
                           key.page.pool == lost.page.pool;
        if (!alike || used.contains(name)) continue;
        if (key.blurred || lost.blurred) continue;
        // Rings name records: a touch of an earlier key on that page counts for this one.
        if (touched_.contains(PlaceOf(key.page))) continue;
        if (touched_.contains(PlaceOf(lost.page))) continue;
        EXPECT_GT(key.use, lost.use) << gone_name.second << " went, " << name.second << " stayed";
      }
    }
  }

  // Before a request that may evict.
  void MayEvict() {
    in_flight_.evicts = true;
    for (auto& [name, key] : keys_) key.blurred |= Held(key.page);
  }

  // --- Acts.

  void Act() {
    Actor* const actor = AnyAttached();
    if (actor == nullptr) return Return(&AnyActor());
    const uint64_t dice = random_.Below(100);
    if (dice < 15) return DoGrant(actor);
    if (dice < 40) return DoRegister(actor);
    if (dice < 46) return DoGiveBack(actor);
    if (dice < 54) return DoDelete(actor);
    if (dice < 59) return DoFree(actor);
    if (dice < 67) return DoLease(actor);
    if (dice < 71) return DoPin(actor);
    if (dice < 80) return DoRelease(actor);
    if (dice < 84) return DoSettle(actor);
    if (dice < 87) return DoList(actor);
    if (dice < 89) return DoResolve(actor);
    if (dice < 92) return DoTick();
    if (dice < 95) return DoDisconnect(actor);
    if (dice < 97) return Return(&AnyActor());
    if (dice < 98) return DoDie(&AnyActor());
    if (dice < 99) return Join();
    Restart();
  }

  void Join() {
    last_act_ = "join";
    if (actors_.size() >= kActorsMax) return;
    auto actor = std::make_unique<Actor>();
    actor->serial = ++last_serial_;
    TestClient::Options options;
    options.label = random_.OneIn(2) ? "same" : "label" + std::to_string(last_serial_);
    options.name_space = random_.OneIn(3) ? "space" : "";
    if (random_.OneIn(3)) options.budget_bytes = random_.Between(2, 8) * kMiB;
    actor->client = std::make_unique<TestClient>(&host_, options);
    actors_.push_back(std::move(actor));
  }

  void DoGrant(Actor* actor) {
    last_act_ = "grant";
    const uint64_t page_bytes = kSizes[random_.Below(std::size(kSizes))];
    const auto count = static_cast<uint32_t>(random_.Between(1, 8));
    MayEvict();
    const auto pages = actor->client->TryGrant(page_bytes, count);
    CheckKeys({});
    if (!pages.ok()) return CheckRefusal(*actor, page_bytes, pages.status());
    EXPECT_GE(pages->size(), 1u);
    EXPECT_LE(pages->size(), count);
    for (const PageRef& page : *pages) TakeGrant(actor, page, page_bytes);
    const uint64_t budget = actor->client->options().budget_bytes;
    EXPECT_TRUE(budget == 0 || Used(*actor) <= budget) << Used(*actor);
  }

  void CheckRefusal(const Actor& actor, uint64_t page_bytes, const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    const bool budget = status.message().find("budget") != std::string_view::npos;
    uint64_t granted = 0;
    for (const auto& [place, grant] : actor.granted) granted += grant.page_bytes;
    if (budget && granted + page_bytes > actor.client->options().budget_bytes) return;
    for (const auto& [name, key] : keys_) {
      const bool scope = budget ? key.owner == actor.serial : key.page_bytes == page_bytes;
      EXPECT_TRUE(!scope || Held(key.page)) << name.second << " might have gone";
    }
  }

  wire::RegisterReply::Item Expected(Actor* actor, const wire::RegisterEntry& entry,
                                     std::vector<Name>* used) {
    using Outcome = wire::RegisterOutcome;
    const Name name{actor->space(), std::string(entry.key)};
    const auto there = keys_.find(name);
    if (!GrantedTo(*actor, entry.page)) {
      const bool repeat = there != keys_.end() && there->second.page == entry.page &&
                          there->second.owner == actor->serial;
      if (repeat) return {Outcome::kRegistered, entry.page.generation};
      return {Outcome::kStale, Generation(0)};
    }
    Grant& grant = actor->granted[PlaceOf(entry.page)];
    const bool fits = entry.length_bytes <= grant.page_bytes;
    if (fits) used->push_back(name);
    if (!fits || there != keys_.end()) {
      // The page stays with its client, in a new life.
      grant.generation = Generation(grant.generation.value() + 1);
      SawGeneration({entry.page.pool, entry.page.record, grant.generation});
      return {fits ? Outcome::kDuplicate : Outcome::kRejected, grant.generation};
    }
    keys_[name] = {entry.page, grant.page_bytes, actor->serial};
    actor->granted.erase(PlaceOf(entry.page));
    return {Outcome::kRegistered, entry.page.generation};
  }

  void DoRegister(Actor* actor) {
    last_act_ = "register";
    std::vector<std::string> texts;
    wire::RegisterRequest request;
    for (uint64_t i = random_.Between(1, 6); i > 0; --i) {
      texts.push_back(AnyKey());
      const PageRef page = random_.OneIn(8) ? AnyPage() : AnyGranted(*actor);
      const uint64_t length = random_.OneIn(20) ? 2 * kMiB : random_.Below(64 * kKiB);
      request.entries.push_back({page, length, 0, {}});
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      request.entries[i].key = texts[i];
      if (GrantedTo(*actor, request.entries[i].page)) {
        in_flight_.registers.emplace(Name{actor->space(), texts[i]}, request.entries[i].page);
      }
    }
    if (random_.OneIn(2)) {
      request.refill_page_bytes = kSizes[random_.Below(std::size(kSizes))];
      request.refill_count = static_cast<uint32_t>(random_.Between(1, 4));
      MayEvict();
    }
    const auto reply = actor->client->Ask<wire::RegisterReply>(request);
    ASSERT_EQ(reply.items.size(), request.entries.size());
    std::vector<Name> used;
    for (size_t i = 0; i < reply.items.size(); ++i) {
      const auto expected = Expected(actor, request.entries[i], &used);
      EXPECT_EQ(reply.items[i].outcome, expected.outcome) << i;
      EXPECT_EQ(reply.items[i].generation, expected.generation) << i;
    }
    for (size_t i = used.size(); i-- > 0;) {
      keys_[used[i]].use = ++last_use_;
      keys_[used[i]].blurred = false;
    }
    CheckKeys(std::set<Name>(used.begin(), used.end()));
    EXPECT_LE(reply.refill.size(), request.refill_count);
    for (const PageRef& page : reply.refill) TakeGrant(actor, page, request.refill_page_bytes);
  }

  void DoGiveBack(Actor* actor) {
    last_act_ = "give back";
    std::vector<PageRef> pages;
    for (uint64_t i = random_.Between(1, 4); i > 0; --i) {
      pages.push_back(random_.OneIn(4) ? AnyPage() : AnyGranted(*actor));
      if (GrantedTo(*actor, pages.back())) in_flight_.returns.insert(PlaceOf(pages.back()));
    }
    const uint32_t returned = actor->client->GiveBack(pages);
    EXPECT_EQ(returned, in_flight_.returns.size());
    for (const Place& place : in_flight_.returns) actor->granted.erase(place);
  }

  void DoDelete(Actor* actor) {
    last_act_ = "delete";
    std::vector<std::string> texts;
    wire::DeleteRequest request;
    for (uint64_t i = random_.Between(1, 4); i > 0; --i) texts.push_back(AnyKey());
    for (const std::string& text : texts) {
      request.keys.push_back(text);
      in_flight_.deletes.insert({actor->space(), text});
    }
    const auto outcomes = actor->client->Ask<wire::DeleteReply>(request).outcomes;
    ASSERT_EQ(outcomes.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto at = keys_.find({actor->space(), texts[i]});
      if (at == keys_.end()) {
        EXPECT_EQ(outcomes[i], wire::DeleteOutcome::kMissing);
      } else if (Pinned(at->second.page)) {
        EXPECT_EQ(outcomes[i], wire::DeleteOutcome::kPinned);
      } else {
        EXPECT_EQ(outcomes[i], wire::DeleteOutcome::kDeleted);
        keys_.erase(at);
      }
    }
  }

  void DoFree(Actor* actor) {
    last_act_ = "free";
    const PageRef page = random_.OneIn(3) ? AnyGranted(*actor) : AnyPage();
    const auto key = KeyOn(page);
    if (GrantedTo(*actor, page)) in_flight_.returns.insert(PlaceOf(page));
    if (key != keys_.end()) in_flight_.deletes.insert(key->first);
    const wire::FreeOutcome outcome = actor->client->Free(page);
    if (GrantedTo(*actor, page)) {
      EXPECT_EQ(outcome, wire::FreeOutcome::kFreed);
      actor->granted.erase(PlaceOf(page));
    } else if (key == keys_.end() ||
               (key->first.first != actor->space() && key->second.owner != actor->serial)) {
      EXPECT_EQ(outcome, wire::FreeOutcome::kStale);
    } else if (Pinned(page)) {
      EXPECT_EQ(outcome, wire::FreeOutcome::kPinned);
    } else {
      EXPECT_EQ(outcome, wire::FreeOutcome::kFreed);
      keys_.erase(key);
    }
  }

  Key* FindKey(Actor* actor) {
    const std::string text = AnyKey();
    const auto found = actor->client->Find(text);
    const auto at = keys_.find({actor->space(), text});
    EXPECT_EQ(found.found, at != keys_.end());
    if (at == keys_.end()) return nullptr;
    EXPECT_EQ(found.page, at->second.page);
    return &at->second;
  }
  void DoLease(Actor* actor) {
    last_act_ = "lease";
    Key* const key = FindKey(actor);
    if (key == nullptr) return;
    const InClient acts(&in_client_);
    EXPECT_TRUE(actor->client->Lease(key->page));
    actor->leases.push_back(key->page);
    if (random_.OneIn(2)) {
      actor->client->leases(key->page.pool.value()).Touch(key->page.record);
      touched_.insert(PlaceOf(key->page));
    }
  }
  void DoPin(Actor* actor) {
    last_act_ = "pin";
    const Key* const key = FindKey(actor);
    if (key == nullptr || actor->pins.size() > 3) return;
    const InClient acts(&in_client_);
    EXPECT_TRUE(actor->client->Pin(key->page));
    actor->pins.push_back(key->page);
  }
  void DoRelease(Actor* actor) {
    last_act_ = "release";
    const InClient acts(&in_client_);
    if (!actor->leases.empty()) {
      const size_t i = random_.Below(actor->leases.size());
      actor->client->Release(actor->leases[i]);
      actor->leases.erase(actor->leases.begin() + static_cast<long>(i));
    }
    if (!actor->pins.empty()) {
      const size_t i = random_.Below(actor->pins.size());
      EXPECT_TRUE(actor->client->Unpin(actor->pins[i]));
      actor->pins.erase(actor->pins.begin() + static_cast<long>(i));
    }
  }

  // Names all that it was granted, but for a few; in one part or several.
  void DoSettle(Actor* actor) { Settle(actor, random_.OneIn(2) ? 0 : 4); }
  void Settle(Actor* actor, uint64_t forget_one_in) {
    last_act_ = "settle";
    in_flight_.settles = true;
    std::vector<PageRef> named, forgotten;
    for (const auto& [place, grant] : actor->granted) {
      PageRef page{PoolIndex(place.first), RecordNumber(place.second), grant.generation};
      (forget_one_in != 0 && random_.OneIn(forget_one_in) ? forgotten : named).push_back(page);
    }
    const size_t parts = random_.Between(1, 3);
    for (size_t part = 0; part < parts; ++part) {
      const size_t begin = named.size() * part / parts, end = named.size() * (part + 1) / parts;
      const std::vector<PageRef> pages(named.begin() + static_cast<long>(begin),
                                       named.begin() + static_cast<long>(end));
      const auto reply = actor->client->Settle(pages, part + 1 == parts);
      ASSERT_EQ(reply.items.size(), pages.size());
      for (size_t i = 0; i < pages.size(); ++i) TakeVerdict(actor, pages[i], reply.items[i]);
    }
    for (const PageRef& page : forgotten) actor->granted.erase(PlaceOf(page));
    in_flight_.settles = false;
  }
  void TakeVerdict(Actor* actor, const PageRef& page, const wire::SettleReply::Item& item) {
    if (item.verdict == wire::SettleVerdict::kKept) {
      EXPECT_GT(item.generation, page.generation);
      SawGeneration({page.pool, page.record, item.generation});
      actor->granted[PlaceOf(page)].generation = item.generation;
      return;
    }
    const uint64_t page_bytes = actor->granted[PlaceOf(page)].page_bytes;
    actor->granted.erase(PlaceOf(page));
    if (item.verdict == wire::SettleVerdict::kGone) {
      EXPECT_TRUE(crashed_.settles || crashed_.returns.contains(PlaceOf(page)));
      return;
    }
    // The store that the server died in was done.
    bool stored = false;
    for (const auto& [name, in_flight] : crashed_.registers) {
      if (in_flight != page || keys_.contains(name) || name.first != actor->space()) continue;
      const auto found = actor->client->Find(name.second);
      if (!found.found || found.page != page) continue;
      keys_[name] = {page, page_bytes, actor->serial, ++last_use_, true};
      stored = true;
    }
    EXPECT_TRUE(stored);
  }

  void DoList(Actor* actor) {
    last_act_ = "list";
    std::set<std::string> expected, listed;
    for (const auto& [name, key] : keys_) {
      if (name.first == actor->space() && name.second.starts_with("key1")) {
        expected.insert(name.second);
      }
    }
    uint64_t cursor = 0;
    do {
      const auto reply = actor->client->Ask<wire::ListReply>(wire::ListRequest{"key1", cursor, 5});
      for (const auto& item : reply.items) {
        EXPECT_TRUE(listed.insert(std::string(item.key)).second);
      }
      cursor = reply.next_cursor;
    } while (cursor != 0);
    EXPECT_EQ(listed, expected);
  }

  void DoResolve(Actor* actor) {
    last_act_ = "resolve";
    const PageRef page = AnyPage();
    const auto live = actor->client->Ask<wire::ResolveReply>(wire::ResolveRequest{{page}}).live;
    EXPECT_EQ(live, std::vector<uint8_t>{KeyOn(page) != keys_.end()});
  }

  void DoTick() {
    last_act_ = "tick";
    const uint64_t passed_ns = random_.Below(2'000'000'000);
    host_.Advance(passed_ns);
    const uint64_t next_ns = host_.Tick();
    if (passed_ns >= 1'000'000'000) ForgetTouches();  // the rings are drained
    EXPECT_TRUE(next_ns == 0 || next_ns > host_.now_ns());
    EXPECT_NE(next_ns, 0u);  // there are clients
  }

  // When nothing is left in the rings: what they told has no place in the model's order.
  void ForgetTouches() {
    for (auto& [name, key] : keys_) key.blurred |= touched_.contains(PlaceOf(key.page));
    touched_.clear();
  }

  // --- Coming and going.

  void DoDisconnect(Actor* actor) {
    last_act_ = "disconnect";
    actor->client->Disconnect();
    actor->attached = false;
  }
  void Return(Actor* actor) {
    last_act_ = "return";
    ASSERT_TRUE(actor->client->Attach().ok());
    EXPECT_TRUE(actor->client->attached().same_client);
    actor->attached = true;
    Settle(actor, 0);
  }
  void DoDie(Actor* actor) {
    last_act_ = "die";
    if (actors_.size() < 2) return;
    const auto at = std::find_if(actors_.begin(), actors_.end(),
                                 [actor](const auto& other) { return other.get() == actor; });
    // Before: a server that dies in this finds a dead client.
    const std::unique_ptr<Actor> dead = std::move(*at);
    actors_.erase(at);
    Quarantine(*dead);
    if (dead->attached) {
      dead->client->Die();
    } else {
      host_.locks().LetGo(dead->client->slot());
      host_.Tick();
    }
  }

  void Quarantine(const Actor& dead) {
    for (const auto& [place, grant] : dead.granted) {
      // Of a request that the server has died in: the page may have come back by that, or be a
      // key's.
      if (crashed_.settles || crashed_.returns.contains(place)) continue;
      const bool stored =
          std::any_of(crashed_.registers.begin(), crashed_.registers.end(),
                      [&](const auto& item) { return PlaceOf(item.second) == place; });
      if (stored) continue;
      quarantined_until_[place] = host_.now_ns() + host_.options().engine.quarantine_ns;
    }
  }

  void Restart() {
    last_act_ = "restart";
    host_.Kill();
    AfterKill();
  }
  void AfterKill() {
    for (const auto& actor : actors_) actor->attached = false;
    ForgetTouches();  // a server takes in no touch of before its start
    crashed_ = in_flight_;
    if (random_.OneIn(3) && actors_.size() > 1) {
      Quarantine(*actors_.back());
      actors_.pop_back();
    }
    // A lock that was on its way to its client when the server died is let go by both.
    std::set<ClientSlot> alive;
    for (const auto& actor : actors_) alive.insert(actor->client->slot());
    for (const ClientSlot slot : host_.locks().held()) {
      if (!alive.contains(slot)) host_.locks().LetGo(slot);
    }
    host_.Start();
    for (auto& [place, until_ns] : quarantined_until_) {
      const PageRef page{PoolIndex(place.first), RecordNumber(place.second), Generation(0)};
      if (host_.State(page).state() != PageState::kQuarantined) continue;
      until_ns = host_.now_ns() + host_.options().engine.quarantine_ns;  // starts anew
    }
    for (const auto& [name, page] : crashed_.registers) {
      if (keys_.contains(name)) keys_[name].blurred = true;
    }
    EXPECT_EQ(Offenders(host_.engine()), "");
    for (const auto& actor : actors_) Return(actor.get());
    TakeInStrangers();
    CheckKeys({});
    crashed_ = {};
  }
  // Keys of a client that died with the server, in the store it died in.
  void TakeInStrangers() {
    for (const auto& [name, page] : crashed_.registers) {
      if (keys_.contains(name)) continue;
      const layout::StateWord live = layout::StateWord::Make(PageState::kLive, page.generation);
      if (host_.State(page) != live) continue;
      const auto stored = host_.pool(page.pool.value()).writer().KeyOf(page.record);
      if (Name(stored.name_space, stored.key) != name) continue;
      catalogue::PoolView::PageExtent extent;
      ASSERT_TRUE(host_.view(page.pool.value()).Page(page.record, &extent));
      keys_[name] = {page, extent.page_bytes, -1, ++last_use_, true};
    }
  }

  void CrashingStep() {
    bool crashed = false;
    {
      uint64_t left = random_.OneIn(3) ? random_.Between(1, 400) : random_.Between(1, 12);
      ScopedHook crash([this, &left](std::string_view) {
        if (!in_client_ && left != 0 && --left == 0) throw PointCrash();
      });
      try {
        Act();
      } catch (const PointCrash&) {
        crashed = true;
      }
    }
    if (!crashed) return;
    last_act_ += ", and a crash in it";
    host_.Kill();
    AfterKill();
  }

  uint64_t seed_;
  Random random_;  // of the step
  TestEngine host_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::map<Name, Key> keys_;
  std::map<Place, Generation> generations_;
  std::map<Place, uint64_t> quarantined_until_;
  std::set<Place> touched_;  // whose touches may still be in a ring
  std::vector<PageRef> past_;
  InFlight in_flight_, crashed_;
  bool in_client_ = false;
  uint64_t last_use_ = 0;
  int last_serial_ = 0;
  std::string last_act_;
};

using Steps = std::vector<uint64_t>;

// What went wrong in these steps, "" when nothing did; `made` is how many were made. Failures stay
// in here.
std::string RunSteps(uint64_t seed, const std::vector<uint64_t>& pools, const Steps& steps,
                     size_t* made) {
  testing::TestPartResultArray failures;
  const testing::ScopedFakeTestPartResultReporter keep(&failures);
  Model model(seed, pools);
  for (*made = 0; *made < steps.size() && failures.size() == 0;) {
    model.Step(steps[(*made)++], [&failures] { return failures.size() != 0; });
  }
  std::string text;
  for (int i = 0; i < failures.size(); ++i) {
    text += std::string(failures.GetTestPartResult(i).file_name()) + ":" +
            std::to_string(failures.GetTestPartResult(i).line_number()) + ": " +
            failures.GetTestPartResult(i).message() + "\n";
  }
  return text.empty() ? text : model.last_act() + "\n" + text;
}

constexpr int kShrinkRunsMax = 300;

// Leaves out stretches of ever fewer steps, as long as it goes wrong without them.
Steps Shrink(uint64_t seed, const std::vector<uint64_t>& pools, Steps steps) {
  int runs = 0;
  for (size_t length = steps.size() / 2; length > 0; length /= 2) {
    for (size_t at = 0; at + length <= steps.size() && runs < kShrinkRunsMax; ++runs) {
      Steps fewer = steps;
      fewer.erase(fewer.begin() + static_cast<long>(at),
                  fewer.begin() + static_cast<long>(at + length));
      size_t made = 0;
      if (RunSteps(seed, pools, fewer, &made).empty()) {
        at += length;
      } else {
        fewer.resize(made);
        steps = std::move(fewer);
      }
    }
  }
  return steps;
}

void RunModel(uint64_t seed, const std::vector<uint64_t>& pools, uint64_t count) {
  Steps steps(count);
  std::iota(steps.begin(), steps.end(), uint64_t{0});
  size_t made = 0;
  if (RunSteps(seed, pools, steps, &made).empty()) return;
  steps.resize(made);
  steps = Shrink(seed, pools, std::move(steps));
  std::string numbers;
  for (const uint64_t step : steps) numbers += " " + std::to_string(step);
  FAIL() << "MARU_TEST_SEED=" << seed << " goes wrong in the last of the steps" << numbers << ": "
         << RunSteps(seed, pools, steps, &made);
}

TEST(EngineModelTest, OnePoolAnswersAsAMapDoes) {
  const uint64_t seed = TestSeed();
  for (uint64_t run = 0; run < 3; ++run) RunModel(seed + run, {32 * kMiB}, 1500);
}

TEST(EngineModelTest, TwoPoolsAnswerAsAMapDoes) {
  const uint64_t seed = TestSeed();
  RunModel(seed, {32 * kMiB, 32 * kMiB}, 1500);
}

}  // namespace
}  // namespace maru::engine
