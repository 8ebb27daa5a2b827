// What an audit finds: each invariant is broken once by damage of one thing, and its offender
// named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "engine/audits.h"
#include "engine/test_audit_rig.h"
#include "engine/test_engine.h"

namespace maru::engine {
namespace {

using layout::PageState;
using nlohmann::json;
using testing::HasSubstr;

// --- Over the wire.

json Audit(TestClient* client, bool verify_bytes = false) {
  return json::parse(client->Audit({.verify_bytes = verify_bytes}).json);
}

TEST(AuditTest, ACleanServerSaysSo) {
  TestEngine host;
  TestClient client(&host);
  client.Put("key");
  const auto reply = client.Audit();
  EXPECT_TRUE(reply.clean);
  const json audit = json::parse(reply.json);
  EXPECT_EQ(audit["keys"], 1);
  EXPECT_TRUE(audit["offenders"].empty());
  EXPECT_EQ(audit["pools"][0]["live"], 1);
}

TEST(AuditTest, WhoAsksAndHoldsNothingIsNotUnchecked) {
  TestEngine host;
  TestClient tool(&host), other(&host);
  other.leases().Publish({.last_request = other.last_request()});
  const json audit = Audit(&tool);
  EXPECT_EQ(audit["unchecked"].size(), 1u) << audit;  // the other one, which was never answered
  EXPECT_THAT(audit["unchecked"][0].get<std::string>(),
              HasSubstr("client " + std::to_string(other.id().value()) + ":"));
}

TEST(AuditTest, PublishedCountsOfAQuietClientMustAgree) {
  TestEngine host;
  TestClient client(&host), tool(&host);
  client.Grant(4096, 3);
  EXPECT_FALSE(Audit(&tool)["unchecked"].empty());  // it has published nothing yet
  client.leases().Publish(
      {.free_pages = 2, .held_pages = 1, .last_request = client.last_request()});
  EXPECT_EQ(Offenders(host.engine()), "");
  client.leases().Publish(
      {.free_pages = 1, .held_pages = 1, .last_request = client.last_request()});
  EXPECT_THAT(Offenders(host.engine()), HasSubstr("it holds 2 pages, 3 are granted"));
  // A reply on its way: not comparable.
  client.leases().Publish(
      {.free_pages = 1, .held_pages = 1, .last_request = client.last_request() - 1});
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(AuditTest, BytesAreVerifiedWhereThePoolHasChecksums) {
  TestEngine host({.flags = layout::kFlagChecksums});
  TestClient client(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  catalogue::PoolView::PageExtent extent;
  ASSERT_TRUE(host.view().Page(page.record, &extent));
  std::byte* const bytes = host.base() + extent.offset_bytes;
  for (int i = 0; i < 100; ++i) bytes[i] = std::byte(i);
  client.Register("key", page, 100, HashBytes64(std::span(bytes, 100)));
  EXPECT_EQ(Audit(&client, true)["clean"], true);
  EXPECT_EQ(Audit(&client, true)["keys_verified"], 1);
  EXPECT_EQ(Audit(&client, false)["keys_verified"], 0);
  bytes[50] ^= std::byte{1};
  EXPECT_EQ(Audit(&client, false)["clean"], true);
  const json audit = Audit(&client, true);
  EXPECT_EQ(audit["clean"], false);
  EXPECT_THAT(audit["offenders"][0].get<std::string>(), HasSubstr("checksum, key \"key\""));
  EXPECT_EQ(audit["keys_verified"], 0);
  EXPECT_EQ(audit["clients"], 0) << "beside the one that asks";
}

// --- One thing damaged at a time.

struct Damage {
  const char* offender;  // a part of what names it
  void (*make)(AuditRig&);
};

using Rig = AuditRig;
template <typename T>
T& Mutable(const T& value) {
  return const_cast<T&>(value);
}
Engine::PoolCounts& Counts(Rig& rig) { return Mutable(rig.stock().counts()); }
Stock::SizeClass& SizeOf(Rig& rig, RecordNumber record) {
  return Mutable(rig.stock().Class(rig.stock().ClassOf(record)));
}
ClientRegions::Region& Region(Rig& rig) { return rig.stock().client_regions().Of(rig.extent); }

constexpr Damage kOfRecords[] = {
    {"slot 9, where no client lives",
     [](Rig& r) { r.SetState(r.granted, PageState::kGranted, 9); }},
    {"RETIRING between two steps", [](Rig& r) { r.SetState(r.key, PageState::kRetiring); }},
    {"in state 1, but in list 5 instead of 1", [](Rig& r) { r.SetState(r.key, PageState::kFree); }},
    {"but absent", [](Rig& r) { r.SetState(r.key, PageState::kAbsent); }},
    {"impossible state word", [](Rig& r) { r.SetState(r.key, PageState::kLive, 3); }},
    {"names another region than the one that has it",
     [](Rig& r) { r.Field(r.key).region_slot.store(77); }},
    {"in state 1, but of no region", [](Rig& r) { r.SetState(r.absent(), PageState::kFree); }},
    {"RETIRING between two steps", [](Rig& r) { r.SetState(r.absent(), PageState::kRetiring); }},
    {"its text at", [](Rig& r) { r.Field(r.key).text_offset.store(8); }},
    {"its hash is not that of its key", [](Rig& r) { r.Field(r.key).hash_high.fetch_xor(1); }},
    {"a probe of the index does not lead to it",
     [](Rig& r) { r.SlotOf(r.key) = Rig::Tombstone(); }},
    {"its key is not found", [](Rig& r) { r.SlotOf(r.key) = Rig::Tombstone(); }},
    {"has the key of record", [](Rig& r) { r.GiveSameKey(r.key, r.other_key); }},
    {"its key is in pool zero as well", [](Rig& r) { r.Put(r.first, "key", Rig::kSmall, 1); }},
    {"its bytes do not match", [](Rig& r) { *r.Bytes(r.key) ^= std::byte{1}; }},
    {"its page lies nowhere", [](Rig& r) { r.Field(r.key).length_bytes.store(1u << 30); }},
};

constexpr Damage kOfLists[] = {
    {"but in the list of others", [](Rig& r) { r.Move(r.free, SizeOf(r, r.large_key).free); }},
    {"but in the list of others", [](Rig& r) { r.Move(r.granted, r.second->pools[0].granted); }},
    {"but in the list of others", [](Rig& r) { r.Move(r.key, r.ListOf(r.second_key)); }},
    {"but in the list of others",
     [](Rig& r) { r.Move(r.condemned, r.stock().condemned_extents()); }},
    {"in a list, but of no region", [](Rig& r) { r.Move(r.absent(), SizeOf(r, r.key).free); }},
    {"in two lists, or twice in one", [](Rig& r) { r.Link(r.key, r.key); }},
    {"its list does not lead back", [](Rig& r) { r.LinkBack(r.key, RecordNumber(0)); }},
    {"a list leads to it, but there is no such page",
     [](Rig& r) { r.Link(r.key, RecordNumber(5'000'000)); }},
    {"used later than now", [](Rig& r) { r.Field(r.key).last_use.store(1'000'000); }},
    {"out of the order of last use", [](Rig& r) { r.Field(r.key).last_use.store(1); }},
    {"in the free list of", [](Rig& r) { ++SizeOf(r, r.free).free_pages; }},
    {"in the lists of keys of", [](Rig& r) { ++SizeOf(r, r.key).live_pages; }},
    {"pages in its lists", [](Rig& r) { ++r.first->pools[0].granted_pages; }},
    {", quarantined:", [](Rig& r) { ++Counts(r).quarantined; }},
    {", condemned:", [](Rig& r) { ++Counts(r).condemned; }},
    {", condemned extents:", [](Rig& r) { r.Move(r.condemned_extent, PageLists::Id(0)); }},
};

constexpr Damage kOfSums[] = {
    {"pages in all, counted", [](Rig& r) { ++Counts(r).pages; }},
    {"pages free, counted", [](Rig& r) { ++Counts(r).free; }},
    {"pages quarantined, counted", [](Rig& r) { ++Counts(r).quarantined; }},
    {"pages granted, counted", [](Rig& r) { ++Counts(r).granted; }},
    {"pages live, counted", [](Rig& r) { ++Counts(r).live; }},
    {"pages condemned, counted", [](Rig& r) { ++Counts(r).condemned; }},
    {"pages worn, counted", [](Rig& r) { ++Counts(r).worn; }},
    {"pages in all states, of all pages", [](Rig& r) { r.SetState(r.key, PageState::kAbsent); }},
    {" live, counted ", [](Rig& r) { ++SizeOf(r, r.key).pages; }},
    {"bytes are stored, counted", [](Rig& r) { r.Field(r.key).length_bytes.store(200); }},
    {"the index has", [](Rig& r) { ++Counts(r).live; }},
    {"it is in the index without a key", [](Rig& r) { r.EmptySlot() = r.EntryOf(r.free); }},
    {"a table has", [](Rig& r) { r.EmptySlot() = Rig::Tombstone(); }},
    {"a table has", [](Rig& r) { r.EmptySlot() = r.EntryOf(r.key); }},
    {"bytes granted and", [](Rig& r) { ++r.first->granted_bytes; }},
    {"bytes granted and", [](Rig& r) { ++r.first->live_bytes; }},
    {"bytes granted and", [](Rig& r) { ++r.first->live_pages; }},
    {"namespace \"\": ", [](Rig& r) { r.core().namespace_use.Add("", {.bytes = 512}); }},
    {"namespace \"other\": 0 bytes",
     [](Rig& r) { r.core().namespace_use.Add("other", {.bytes = 512}); }},
    {"the server does not know it",
     [](Rig& r) { EXPECT_TRUE(r.pool().CutPages(2 * kMiB, 2 * kMiB).ok()); }},
    {"no region of pages has it any more", [](Rig& r) { r.WithdrawRegion(r.idle); }},
};

constexpr Damage kOfExtents[] = {
    {" extents with ", [](Rig& r) { r.core().namespace_use.Add("", {.extents = 1}); }},
    {"no region has it", [](Rig& r) { r.Field(r.extent).region_slot.store(900); }},
    {"its extent does not lie in its region",
     [](Rig& r) { r.Field(r.extent).length_bytes.store(kGiB); }},
    {"its region does not know it", [](Rig& r) { Region(r).extents.erase(0); }},
    {"its extent overlaps the one before",
     [](Rig& r) { r.Field(r.extent).length_bytes.store(5000); }},
    {"condemned, but in no list", [](Rig& r) { r.Move(r.condemned_extent, PageLists::Id(0)); }},
    {"a live extent, but in a list", [](Rig& r) { r.Move(r.extent, r.stock().condemned()); }},
    {" condemned, counted ", [](Rig& r) { ++Region(r).condemned; }},
    {"bytes and 1 condemned, counted", [](Rig& r) { ++Region(r).live_bytes; }},
    {"extents of", [](Rig& r) { r.Field(r.extent).length_bytes.store(2000); }},
    {"it has no owner and no extents", [](Rig& r) { r.EmptyRegion().cut.owner = ClientId(0); }},
    {"its owner is not the one that the server knows",
     [](Rig& r) { Region(r).cut.owner = ClientId(4000); }},
};

class DamageTest : public testing::TestWithParam<Damage> {};

TEST_P(DamageTest, IsNamed) {
  AuditRig rig;
  ASSERT_EQ(rig.Audit(), "");
  GetParam().make(rig);
  EXPECT_THAT(rig.Audit(), HasSubstr(GetParam().offender));
}

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.offender; }

INSTANTIATE_TEST_SUITE_P(OfRecords, DamageTest, testing::ValuesIn(kOfRecords));
INSTANTIATE_TEST_SUITE_P(OfLists, DamageTest, testing::ValuesIn(kOfLists));
INSTANTIATE_TEST_SUITE_P(OfSums, DamageTest, testing::ValuesIn(kOfSums));
INSTANTIATE_TEST_SUITE_P(OfExtents, DamageTest, testing::ValuesIn(kOfExtents));

TEST(AuditTest, OffendersBeyondThoseToldAreCounted) {
  AuditRig rig;
  for (int i = 0; i < 80; ++i) {
    rig.SetState(rig.Put(rig.first, "many" + std::to_string(i)), PageState::kRetiring);
  }
  AuditRun run(&rig.core(), AuditRun::Bytes::kLeave);
  run.RunToEnd();
  EXPECT_EQ(run.offenders().size(), AuditRun::kOffendersMax);
  wire::AuditReply reply;
  run.Reply(&reply);
  EXPECT_GE(json::parse(reply.json)["offenders_left_out"], 80 - AuditRun::kOffendersMax);
}

// --- In parts.

TEST(AuditTest, ALargePageIsHashedOverManySteps) {
  AuditRig rig;
  const uint64_t bytes = 100 * AuditRun::kBytesPerWork + 17;
  const RecordNumber large = rig.Put(rig.first, "huge", kMiB, 0, bytes);
  EXPECT_EQ(rig.Audit(1), "");
  rig.Bytes(large)[bytes - 1] ^= std::byte{1};
  EXPECT_THAT(rig.Audit(1), HasSubstr("its bytes do not match"));
}

TEST(AuditTest, AKeyThatGoesWhileItIsHashedIsNoOffender) {
  AuditRig rig;
  const RecordNumber large = rig.Put(rig.first, "huge", kMiB, 0, 100 * AuditRun::kBytesPerWork);
  AuditRun run(&rig.core(), AuditRun::Bytes::kVerify);
  // One of the rig's small keys may be left for one step.
  for (int in_a_row = 0; in_a_row < 8;) {
    ASSERT_FALSE(run.Step(2));
    in_a_row = run.verifying() ? in_a_row + 1 : 0;
  }
  rig.Bytes(large)[0] ^= std::byte{1};
  rig.Delete(large);
  run.RunToEnd();
  EXPECT_THAT(run.offenders(), testing::IsEmpty());
}

TEST(AuditTest, ReportsHowFarItIs) {
  TestEngine host({.engine = {.audit_work = 100}});
  TestClient client(&host);
  client.Put("key");
  wire::AuditRequest request;
  uint64_t steps = 0, before = 0;
  while (true) {
    const auto reply = client.Ask<wire::AuditReply>(request);
    EXPECT_GE(reply.work_done, before);
    EXPECT_LE(reply.work_done, reply.work_in_all);
    before = reply.work_done;
    if (reply.audit == 0) {
      EXPECT_EQ(reply.work_done, reply.work_in_all);
      EXPECT_TRUE(reply.clean);
      break;
    }
    EXPECT_FALSE(reply.clean);
    EXPECT_EQ(reply.json, "");
    request.audit = reply.audit;
    ++steps;
  }
  EXPECT_GT(steps, 10u);
}

TEST(AuditTest, BelongsToAConnectionAndEndsWithIt) {
  TestEngine host({.engine = {.audit_work = 1}});
  TestClient client(&host), other(&host);
  const uint64_t audit = client.Ask<wire::AuditReply>(wire::AuditRequest{}).audit;
  ASSERT_NE(audit, 0u);
  wire::Reply reply;
  EXPECT_EQ(other.TryAsk(wire::AuditRequest{false, audit}, &reply).code(), StatusCode::kNotFound);
  EXPECT_TRUE(client.TryAsk(wire::AuditRequest{false, audit}, &reply).ok());
  client.Disconnect();
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_EQ(client.TryAsk(wire::AuditRequest{false, audit}, &reply).code(), StatusCode::kNotFound);
  EXPECT_TRUE(client.Audit().clean);
  // And with the server.
  const uint64_t second = client.Ask<wire::AuditReply>(wire::AuditRequest{}).audit;
  host.Restart();
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_EQ(client.TryAsk(wire::AuditRequest{false, second}, &reply).code(), StatusCode::kNotFound);
}

TEST(AuditTest, AsManyAsThereMayBe) {
  TestEngine host({.engine = {.audit_work = 1}});
  std::vector<std::unique_ptr<TestClient>> clients;
  std::vector<uint64_t> audits;
  for (size_t i = 0; i <= Audits::kAuditsMax; ++i) {
    clients.push_back(std::make_unique<TestClient>(&host));
  }
  for (size_t i = 0; i < Audits::kAuditsMax; ++i) {
    audits.push_back(clients[i]->Ask<wire::AuditReply>(wire::AuditRequest{}).audit);
    host.Advance(1);
  }
  wire::Reply reply;
  TestClient& late = *clients.back();
  EXPECT_EQ(late.TryAsk(wire::AuditRequest{}, &reply).code(), StatusCode::kResourceExhausted);
  // One that begins anew has its own place.
  EXPECT_TRUE(clients[1]->TryAsk(wire::AuditRequest{}, &reply).ok());
  // One that is gone on with stays, those left lying end by themselves.
  host.Advance(Audits::kIdleNs - 100);
  EXPECT_TRUE(clients[2]->TryAsk(wire::AuditRequest{false, audits[2]}, &reply).ok());
  host.Advance(100);
  host.Tick();
  EXPECT_EQ(clients[0]->TryAsk(wire::AuditRequest{false, audits[0]}, &reply).code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(clients[2]->TryAsk(wire::AuditRequest{false, audits[2]}, &reply).ok());
  for (const size_t i : {0, 1, 3}) {
    EXPECT_TRUE(clients[i]->TryAsk(wire::AuditRequest{}, &reply).ok());
  }
  EXPECT_EQ(late.TryAsk(wire::AuditRequest{}, &reply).code(), StatusCode::kResourceExhausted);
  // A dead client's place is free at once.
  clients[3]->Die();
  EXPECT_TRUE(late.TryAsk(wire::AuditRequest{}, &reply).ok());
}

}  // namespace
}  // namespace maru::engine
