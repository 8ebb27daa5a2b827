#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/sequence_point.h"
#include "base/test_log.h"
#include "engine/test_engine.h"

namespace maru::engine {
namespace {

using layout::PageState;

TEST(RecoverTest, KeysStayAndGrantsOfTheDeadAreQuarantined) {
  TestEngine host;
  TestClient detached(&host), dead(&host);
  detached.Put("a");
  dead.Put("b");
  const wire::PageRef kept = detached.Grant(4096)[0], lost = dead.Grant(4096)[0];
  host.Kill();
  host.locks().LetGo(dead.slot());
  host.Start();
  EXPECT_EQ(host.State(kept).state(), PageState::kGranted);
  EXPECT_EQ(host.State(lost).state(), PageState::kQuarantined);
  EXPECT_EQ(Offenders(host.engine()), "");
  TestClient client(&host);
  EXPECT_TRUE(client.Exists("a"));
  EXPECT_TRUE(client.Exists("b"));
}

// Two pools, each with the first client of a server of its own; then both are served.
TEST(RecoverTest, ClientsOfPoolsThatWereServedApartStayTwo) {
  TestEngine host({.pools = {64 * kMiB, 64 * kMiB}});
  host.SetServed({0});
  host.Restart();
  TestClient a(&host, {.label = "a"});
  a.Put("of a");
  const wire::PageRef of_a = a.Grant(4096)[0];
  host.SetServed({1});
  host.Restart();
  host.Advance(1);
  TestClient b(&host, {.label = "b"});
  b.Put("of b");
  const wire::PageRef of_b = b.Grant(4096)[0];
  ASSERT_EQ(a.slot(), b.slot());
  ASSERT_EQ(a.id(), b.id());
  host.SetServed({0, 1});
  host.Restart();
  EXPECT_EQ(Offenders(host.engine()), "");

  a.Die();
  host.Tick();
  EXPECT_EQ(host.State(of_a).state(), PageState::kQuarantined);
  EXPECT_EQ(host.State({PoolIndex(1), of_b.record, of_b.generation}).state(), PageState::kGranted);
  EXPECT_EQ(Offenders(host.engine()), "");
  b.Die();
  host.Tick();
  EXPECT_EQ(host.State({PoolIndex(1), of_b.record, of_b.generation}).state(),
            PageState::kQuarantined);
  TestClient c(&host);
  EXPECT_TRUE(c.Exists("of a") && c.Exists("of b"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RecoverTest, LeasesOfTheDetachedHoldThoseOfTheDeadDoNot) {
  TestEngine host;
  TestClient detached(&host), dead(&host);
  const wire::PageRef a = detached.Put("a"), b = detached.Put("b"), c = detached.Put("c");
  ASSERT_TRUE(detached.Lease(a));
  ASSERT_TRUE(dead.Lease(b));
  ASSERT_TRUE(dead.Pin(c));
  host.Kill();
  host.locks().LetGo(dead.slot());
  host.Start();
  TestClient client(&host);
  for (const char* key : {"a", "b", "c"}) {
    EXPECT_EQ(client.Delete(key), wire::DeleteOutcome::kDeleted) << key;
  }
  EXPECT_EQ(host.State(a).state(), PageState::kCondemned);
  EXPECT_EQ(host.State(b).state(), PageState::kFree);
  EXPECT_EQ(host.State(c).state(), PageState::kFree);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RecoverTest, QuarantineStartsAnew) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  client.Die();
  host.Advance(host.options().engine.quarantine_ns - 1);
  host.Restart();
  host.Advance(1);
  host.Tick();
  EXPECT_EQ(host.State(page).state(), PageState::kQuarantined);
  host.Advance(host.options().engine.quarantine_ns - 1);
  host.Tick();
  EXPECT_EQ(host.State(page).state(), PageState::kFree);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RecoverTest, ADetachedClientWhoseLockIsLetGoDies) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  host.Restart();
  EXPECT_NE(host.Tick(), 0u);
  EXPECT_EQ(host.State(page).state(), PageState::kGranted);
  host.locks().LetGo(client.slot());
  host.Tick();
  EXPECT_EQ(host.State(page).state(), PageState::kQuarantined);
}

TEST(RecoverTest, APageOfAClientThatNoTableKnowsIsQuarantined) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  // As after a crash between the end of the client's leases and that of its grants.
  host.pool().leases().DropClient(client.slot());
  host.Restart();
  EXPECT_EQ(host.State(page).state(), PageState::kQuarantined);
  EXPECT_EQ(Offenders(host.engine()), "");
}

// Two pools that were served one after the other, each with the key "both".
TestEngine::Options TwoPools() { return {.pools = {64 * kMiB, 64 * kMiB}}; }

struct Twice {
  wire::PageRef first, second;  // where "both" lies, as the two are named when served together
};
Twice StoreInBoth(TestEngine* host) {
  Twice twice;
  host->Kill();
  host->SetServed({0});
  host->Start();
  {
    TestClient client(host);
    twice.first = client.Put("both");
    client.Put("first");
    client.Die();
  }
  host->Kill();
  host->SetServed({1});
  host->Start();
  {
    TestClient client(host);
    client.Put("second");
    twice.second = client.Put("both");
    client.Die();
  }
  twice.second.pool = PoolIndex(1);
  host->Kill();
  host->SetServed({0, 1});
  return twice;
}

TEST(RecoverTest, AKeyInTwoPoolsLivesInTheFirst) {
  TestEngine host(TwoPools());
  const Twice twice = StoreInBoth(&host);
  const RecordedLog log;
  host.Start();
  EXPECT_EQ(log.LinesWith("an earlier pool"),
            std::vector<std::string>({"warning 1 keys of pool1 are in an earlier pool as well: "
                                      "their pages here come back"}));
  EXPECT_EQ(Offenders(host.engine()), "");
  EXPECT_EQ(host.State(twice.second).state(), PageState::kFree);
  TestClient client(&host);
  EXPECT_EQ(client.Find("both").page, twice.first);
  EXPECT_EQ(client.Find("second").page.pool, PoolIndex(1));
  EXPECT_EQ(client.Delete("both"), wire::DeleteOutcome::kDeleted);
  EXPECT_FALSE(client.Exists("both"));
}

TEST(RecoverTest, TheSecondPageOfAKeyWaitsForItsLeases) {
  TestEngine host(TwoPools());
  const Twice twice = StoreInBoth(&host);
  host.SetServed({1});
  host.Start();
  TestClient reader(&host);
  const wire::PageRef alone{PoolIndex(0), twice.second.record, twice.second.generation};
  ASSERT_TRUE(reader.Pin(alone));
  host.Kill();
  host.SetServed({0, 1});
  host.Start();
  EXPECT_EQ(host.State(twice.second).state(), PageState::kCondemned);
  EXPECT_EQ(Offenders(host.engine()), "");
  ASSERT_TRUE(reader.Unpin(alone));
  host.Tick();
  EXPECT_EQ(host.State(twice.second).state(), PageState::kFree);
}

TEST(RecoverTest, OneIdOrSlotInTwoPoolsAreTwoClients) {
  TestEngine host(TwoPools());
  host.Kill();
  host.SetServed({0});
  host.Start();
  TestClient a(&host, {.budget_bytes = 1 * kMiB});
  const wire::PageRef in_first = a.Grant(4096)[0];
  a.Put("a");
  // The same slot, in a pool that was served by another server meanwhile.
  host.Kill();
  host.locks().LetGo(a.slot());
  host.SetServed({1});
  host.Start();
  TestClient b(&host);
  ASSERT_EQ(a.slot(), b.slot());
  ASSERT_EQ(a.id(), b.id());
  b.Put("b1");
  b.Put("b2");
  wire::PageRef in_second = b.Grant(4096)[0];
  in_second.pool = PoolIndex(1);
  host.Kill();
  host.SetServed({0, 1});
  host.Start();
  EXPECT_EQ(host.State(in_first).state(), PageState::kGranted);
  EXPECT_EQ(host.State(in_second).state(), PageState::kGranted);
  EXPECT_EQ(Offenders(host.engine()), "");
  TestClient c(&host);
  EXPECT_NE(c.slot(), b.slot());
  host.locks().LetGo(b.slot());
  host.Tick();
  EXPECT_EQ(host.State(in_first).state(), PageState::kQuarantined);
  EXPECT_EQ(host.State(in_second).state(), PageState::kQuarantined);
  EXPECT_EQ(Offenders(host.engine()), "");
}

// A server that dies at any point of what it publishes, and the next one.
class PointCrash {};

class CrashTest : public testing::Test {
 protected:
  static constexpr uint64_t kPage = 256 * kKiB;

  // Passes every kind of point that the engine brings the writer to.
  static void Work(TestEngine* host, TestClient* client) {
    const auto pages = client->Grant(kPage, 4);
    client->Register("a", pages[0]);
    client->Register("b", pages[1]);
    client->Register("a", pages[2]);
    client->GiveBack({pages[3]});
    ASSERT_TRUE(client->Pin(pages[1]));
    client->Delete("a");
    client->Delete("b");
    ASSERT_TRUE(client->Unpin(pages[1]));
    client->Free(pages[1]);
    TestClient dying(host);
    dying.Grant(kPage);
    dying.Die();
    host->Advance(host->options().engine.quarantine_ns);
    host->Tick();
  }

  // What was there before.
  enum class Before : uint8_t { kNothing, kALeasedKey };

  struct Scene {
    explicit Scene(Before before) {
      if (before == Before::kNothing) return;
      kept = reader.Put("kept", 2 * kPage);
      EXPECT_TRUE(reader.Lease(kept));
    }
    TestEngine host{{.pools = {32 * kMiB}}};
    TestClient client{&host}, reader{&host};
    wire::PageRef kept;
  };

  // How often each point is passed.
  static std::map<std::string, uint64_t> Points(Before before) {
    std::map<std::string, uint64_t> points;
    Scene scene(before);
    ScopedHook count([&points](std::string_view name) { ++points[std::string(name)]; });
    Work(&scene.host, &scene.client);
    return points;
  }

  static void CrashAt(const std::string& point, uint64_t passing, Before before) {
    SCOPED_TRACE(point + " passed " + std::to_string(passing) + " times");
    Scene scene(before);
    TestEngine& host = scene.host;
    TestClient& client = scene.client;
    bool crashed = false;
    {
      uint64_t passed = 0;
      ScopedHook crash(point, [&] {
        if (++passed == passing) throw PointCrash();
      });
      try {
        Work(&host, &client);
      } catch (const PointCrash&) {
        crashed = true;
      }
    }
    ASSERT_TRUE(crashed);
    host.Kill();
    host.locks().LetGo(ClientSlot(2));  // the third client's process ends with the server
    host.Start();
    EXPECT_EQ(Offenders(host.engine()), "");
    ASSERT_TRUE(client.Attach().ok());
    EXPECT_TRUE(client.attached().same_client);
    client.Settle({});
    EXPECT_EQ(host->Count(PoolIndex(0)).granted, 0u);
    if (before == Before::kALeasedKey) {
      EXPECT_EQ(client.Find("kept").page, scene.kept);
    }
    EXPECT_EQ(Offenders(host.engine()), "");
  }
};

TEST_F(CrashTest, AfterACrashAtAnyPointNothingIsLost) {
  for (const Before before : {Before::kNothing, Before::kALeasedKey}) {
    const auto points = Points(before);
    EXPECT_GT(points.size(), 20u);
    for (const auto& [point, passings] : points) {
      CrashAt(point, 1, before);
      if (passings > 1) CrashAt(point, passings, before);
      if (passings > 2) CrashAt(point, passings / 2 + 1, before);
    }
  }
}

TEST(RecoverTest, ClientIdsThatAreUsedUpRefuseNewClientsAndNothingElse) {
  TestEngine host({.pools = {64 * kMiB, 64 * kMiB}});
  TestClient old(&host);
  ASSERT_TRUE(host.pool(1).NextClientId(0xFFFFFFFF).ok());
  wire::AttachRequest request;
  request.protocol_version = layout::kProtocolVersion;
  request.layout_version = layout::kLayoutVersion;
  request.label = "late";
  wire::Reply reply;
  // More often than there are places: none of them is lost to an attach that failed.
  for (uint32_t i = 0; i <= layout::kClientSlots; ++i) {
    ASSERT_EQ(host.Ask(host.NewConnection(), request, &reply).code(),
              StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(host.locks().held().size(), 1u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RecoverTest, ClientIdsGoOnInEveryPool) {
  TestEngine host({.pools = {64 * kMiB, 64 * kMiB}});
  for (int i = 0; i < 5; ++i) host.pool(1).NextClientId().value();
  TestClient a(&host);
  EXPECT_GT(a.id().value(), 5u);
  EXPECT_GT(host.pool(0).NextClientId().value(), a.id().value());
  EXPECT_GT(host.pool(1).NextClientId().value(), a.id().value());
  for (int i = 0; i < 5; ++i) host.pool(0).NextClientId().value();
  TestClient b(&host);
  EXPECT_GT(host.pool(1).NextClientId().value(), b.id().value());
  EXPECT_GT(b.id(), a.id());
}

}  // namespace
}  // namespace maru::engine
