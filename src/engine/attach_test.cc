#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/stock.h"
#include "engine/test_engine.h"

namespace maru::engine {
namespace {

using layout::PageState;
using testing::HasSubstr;

wire::AttachRequest ValidAttach() {
  wire::AttachRequest request;
  request.protocol_version = layout::kProtocolVersion;
  request.layout_version = layout::kLayoutVersion;
  request.label = "label";
  return request;
}

Status TryAttach(TestEngine* host, const wire::AttachRequest& request) {
  wire::Reply reply;
  return host->Ask(host->NewConnection(), request, &reply);
}

TEST(AttachTest, NamesBothVersionsAndTheSideToUpgrade) {
  TestEngine host;
  wire::AttachRequest request = ValidAttach();
  request.protocol_version = layout::kProtocolVersion + 1;
  Status status = TryAttach(&host, request);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("protocol version 2"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1.2.3"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("upgrade the server"));

  request = ValidAttach();
  request.layout_version = layout::kLayoutVersion - 1;
  status = TryAttach(&host, request);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("pool layout version 0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("upgrade the client"));
}

TEST(AttachTest, RefusesALabelAndANamespaceOverTheirLimits) {
  TestEngine host;
  const std::string label(layout::kLabelBytes, 'x'), space(layout::kNamespaceBytesMax + 1, 'x');
  wire::AttachRequest request = ValidAttach();
  request.label = label;
  EXPECT_EQ(TryAttach(&host, request).code(), StatusCode::kInvalidArgument);
  request.label = std::string_view(label).substr(1);
  EXPECT_TRUE(TryAttach(&host, request).ok());
  request.name_space = space;
  EXPECT_EQ(TryAttach(&host, request).code(), StatusCode::kInvalidArgument);
}

TEST(AttachTest, TellsEveryPoolAndTheClientsBlocks) {
  TestEngine host({.pools = {64 * kMiB, 128 * kMiB}, .flags = layout::kFlagChecksums});
  TestClient client(&host);
  ASSERT_EQ(client.attached().pools.size(), 2u);
  EXPECT_EQ(client.attached().server_version, "1.2.3");
  EXPECT_FALSE(client.attached().same_client);
  for (size_t i = 0; i < 2; ++i) {
    const wire::AttachedPool& pool = client.attached().pools[i];
    EXPECT_EQ(pool.uuid, host.view(i).superblock().device.uuid);
    EXPECT_EQ(pool.pool_bytes, (i + 1) * 64 * kMiB);
    EXPECT_EQ(pool.flags, layout::kFlagChecksums);
    EXPECT_EQ(pool.region_id_base, (i + 1) * layout::kRegionIdsPerPool);
    EXPECT_GE(pool.lease_blocks.size(), 2u);
  }
}

TEST(AttachTest, LabelsMayRepeatIdsAndSlotsDoNot) {
  TestEngine host;
  TestClient a(&host), b(&host);
  EXPECT_NE(a.id(), b.id());
  EXPECT_NE(a.slot(), b.slot());
  b.Die();
  TestClient c(&host);
  EXPECT_EQ(c.slot(), b.slot());  // its place is used again, its id is not
  EXPECT_GT(c.id(), b.id());
}

TEST(AttachTest, ASlotWhoseLockIsStillHeldIsPassedOver) {
  TestEngine host;
  ASSERT_TRUE(host.locks().Take(ClientSlot(0)).ok());
  TestClient client(&host);
  EXPECT_EQ(client.slot(), ClientSlot(1));
}

TEST(AttachTest, NothingIsAnsweredBefore) {
  TestEngine host;
  wire::Reply reply;
  const Status status = host.Ask(host.NewConnection(), wire::GrantRequest{4096, 1}, &reply);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not attached"));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(reply));
}

TEST(AttachTest, ASecondClientOnOneConnectionIsRefused) {
  TestEngine host;
  TestClient client(&host);
  wire::Reply reply;
  EXPECT_EQ(host.Ask(client.connection(), ValidAttach(), &reply).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(client.Ask<wire::PingReply>(wire::PingRequest{}).uptime_ms == 0);
}

TEST(AttachTest, TheNumberOfClientsIsBounded) {
  TestEngine host({.pools = {256 * kMiB}});
  for (uint32_t i = 0; i < layout::kClientSlots; ++i) {
    ASSERT_TRUE(TryAttach(&host, ValidAttach()).ok()) << i;
  }
  const Status status = TryAttach(&host, ValidAttach());
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1024"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(AttachTest, AFullPoolHasRoomForClientsAndSaysWhenThatIsUsed) {
  TestEngine host({.pools = {512 * kMiB}});
  TestClient hoarder(&host);
  while (hoarder.TryGrant(kMiB, 64).ok()) host.EndCuts();
  uint32_t attached = 1;
  Status status;
  for (; status.ok() && attached <= layout::kClientSlots; ++attached) {
    status = TryAttach(&host, ValidAttach());
  }
  EXPECT_GT(attached, 200u);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lease area of another client"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(AttachTest, APoolWithoutRoomForLeaseBlocksLeavesNothingBehind) {
  TestEngine host({.pools = {64 * kMiB, 32 * kMiB}});
  while (host.pool(1).Carve(layout::RegionKind::kText, layout::kUnitBytes).ok()) {
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(TryAttach(&host, ValidAttach()).code(), StatusCode::kResourceExhausted);
    EXPECT_TRUE(host.pool(0).leases().Clients().empty());
    host.locks().LetGo(ClientSlot(0));
  }
}

// --- Coming back.

TEST(ReattachTest, ADetachedClientKeepsGrantsLeasesAndSlot) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef stored = client.Put("key");
  const wire::PageRef granted = client.Grant(4096)[0];
  ASSERT_TRUE(client.Pin(stored));
  client.Disconnect();
  EXPECT_EQ(host.State(granted).state(), PageState::kGranted);
  EXPECT_EQ(other.Delete("key"), wire::DeleteOutcome::kPinned);

  const ClientId id = client.id();
  client.options().label = "renamed";
  client.options().name_space = "space";
  client.options().budget_bytes = 4096;
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_TRUE(client.attached().same_client);
  EXPECT_EQ(client.id(), id);
  EXPECT_EQ(other.Delete("key"), wire::DeleteOutcome::kPinned);
  // Namespace and budget are the request's.
  EXPECT_FALSE(client.Exists("key"));
  EXPECT_EQ(client.TryGrant(4096).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(client.GiveBack({granted}), 1u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(ReattachTest, TheOldConnectionIsDroppedAndItsLateMessagesRefused) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  const ConnectionId old = client.connection();
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_TRUE(client.attached().same_client);
  wire::Reply reply;
  EXPECT_EQ(host.Ask(old, wire::GiveBackRequest{{page}}, &reply).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(host.State(page).state(), PageState::kGranted);
  host.Close(old);  // nobody minds
  host.locks().LetGo(client.slot());
  host.Tick();
  EXPECT_EQ(client.GiveBack({page}), 1u);  // attached: alive whatever its lock
}

TEST(ReattachTest, WithoutItsLockItIsANewClient) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef stored = client.Put("key");
  const wire::PageRef granted = client.Grant(4096)[0];
  ASSERT_TRUE(client.Lease(stored));
  const ClientId id = client.id();
  host.locks().LetGo(client.slot());
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_FALSE(client.attached().same_client);
  EXPECT_NE(client.id(), id);
  EXPECT_EQ(host.State(granted).state(), PageState::kQuarantined);
  EXPECT_TRUE(client.Exists("key"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(ReattachTest, AfterARestartADetachedClientGoesOn) {
  TestEngine host;
  TestClient client(&host, {.name_space = "space"});
  const wire::PageRef stored = client.Put("key");
  const wire::PageRef granted = client.Grant(4096)[0];
  ASSERT_TRUE(client.Lease(stored));
  host.Restart();
  EXPECT_EQ(Offenders(host.engine()), "");
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_TRUE(client.attached().same_client);
  EXPECT_EQ(client.Register("second", granted).outcome, wire::RegisterOutcome::kRegistered);
  EXPECT_EQ(client.Delete("key"), wire::DeleteOutcome::kDeleted);
  EXPECT_EQ(host.State(stored).state(), PageState::kCondemned);  // its own lease holds the bytes
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(ReattachTest, AnotherPoolInFrontMakesANewClient) {
  TestEngine host({.pools = {64 * kMiB, 64 * kMiB}});
  TestClient client(&host);
  const ClientSlot old_slot = client.slot();
  const wire::PageRef granted = client.Grant(4096)[0];
  host.Kill();
  host.SetServed({1, 0});
  host.Start();
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_FALSE(client.attached().same_client);
  EXPECT_NE(client.slot(), old_slot);
  // The old one went with its lock.
  host.Tick();
  EXPECT_EQ(host.State({PoolIndex(1), granted.record, granted.generation}).state(),
            PageState::kQuarantined);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(ReattachTest, APoolThatIsNewToTheClientMakesANewClient) {
  TestEngine host;
  TestClient client(&host);
  const ClientId old = client.id();
  host.Kill();
  host.AddMemory(64 * kMiB);
  host.Start();
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_FALSE(client.attached().same_client);
  EXPECT_GT(client.id(), old);
  EXPECT_EQ(client.attached().pools.size(), 2u);
  host.Tick();  // the old one went with its lock
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(ReattachTest, AClientDiesThatIsNotInEveryPool) {
  for (const std::vector<size_t>& served : {std::vector<size_t>{0, 1}, {1, 0}}) {
    TestEngine host;
    TestClient client(&host);
    const wire::PageRef granted = client.Grant(4096)[0];
    client.Put("key");
    host.Kill();
    host.AddMemory(64 * kMiB);
    host.SetServed(served);
    host.Start();
    host.locks().LetGo(client.slot());
    host.Tick();
    EXPECT_EQ(Offenders(host.engine()), "");
    const PoolIndex old(served[0] == 0 ? 0 : 1);
    EXPECT_EQ(host.State({old, granted.record, granted.generation}).state(),
              PageState::kQuarantined);
    TestClient next(&host);
    EXPECT_TRUE(next.Exists("key"));
  }
}

TEST(ReattachTest, AStrangersIdIsANewClient) {
  TestEngine host;
  TestClient a(&host);
  wire::AttachRequest request = ValidAttach();
  request.previous_client = ClientId(a.id().value() + 5);
  request.previous_pool = a.attached().pools[0].uuid;
  wire::Reply reply;
  ASSERT_TRUE(host.Ask(host.NewConnection(), request, &reply).ok());
  EXPECT_FALSE(std::get<wire::AttachReply>(reply).same_client);
}

// --- Death.

TEST(DeathTest, LeasesAndPinsEndGrantsAreQuarantinedKeysStay) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef leased = client.Put("leased"), pinned = client.Put("pinned");
  const wire::PageRef granted = client.Grant(4096)[0];
  ASSERT_TRUE(client.Lease(leased));
  ASSERT_TRUE(client.Pin(pinned));
  EXPECT_EQ(other.Delete("leased"), wire::DeleteOutcome::kDeleted);
  EXPECT_EQ(other.Delete("pinned"), wire::DeleteOutcome::kPinned);
  EXPECT_EQ(host.State(leased).state(), PageState::kCondemned);

  client.Die();
  EXPECT_EQ(host.State(granted).state(), PageState::kQuarantined);
  EXPECT_TRUE(other.Exists("pinned"));
  EXPECT_EQ(other.Delete("pinned"), wire::DeleteOutcome::kDeleted);
  host.Tick();
  EXPECT_EQ(host.State(leased).state(), PageState::kFree);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(DeathTest, AnOpenConnectionOrAHeldLockIsLife) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef granted = client.Grant(4096)[0];
  client.Disconnect();
  host.Tick();
  EXPECT_EQ(host.State(granted).state(), PageState::kGranted);  // detached
  host.locks().LetGo(client.slot());
  EXPECT_EQ(host.State(granted).state(), PageState::kGranted);
  host.Tick();
  EXPECT_EQ(host.State(granted).state(), PageState::kQuarantined);
}

TEST(DeathTest, TheQuarantineEndsInItsTime) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const auto granted = client.Grant(4096, 3);
  EXPECT_NE(host.Tick(), 0u);
  client.Die();
  const uint64_t began_ns = host.now_ns();
  uint64_t next_ns = host.Tick();
  EXPECT_LE(next_ns, began_ns + host.options().engine.quarantine_ns);
  host.Advance(host.options().engine.quarantine_ns - 1);
  host.Tick();
  EXPECT_EQ(host->Count(PoolIndex(0)).quarantined, 3u);
  host.Advance(1);
  host.Tick();
  EXPECT_EQ(host->Count(PoolIndex(0)).quarantined, 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(DeathTest, OneStepEndsSoManyQuarantinesTheNextTheRest) {
  TestEngine host({.pools = {128 * kMiB}});
  TestClient client(&host);
  uint64_t granted = 0;
  while (granted <= Stock::kQuarantinesEndedMax) granted += client.Grant(512, 8192).size();
  client.Die();
  host.Advance(host.options().engine.quarantine_ns);
  EXPECT_LE(host.Tick(), host.now_ns());  // at once
  EXPECT_EQ(host->Count(PoolIndex(0)).quarantined, granted - Stock::kQuarantinesEndedMax);
  EXPECT_EQ(Offenders(host.engine()), "");
  host.Tick();
  EXPECT_EQ(host->Count(PoolIndex(0)).quarantined, 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(DeathTest, WithoutClientsNothingWaits) {
  TestEngine host;
  EXPECT_EQ(host.Tick(), 0u);
}

}  // namespace
}  // namespace maru::engine
