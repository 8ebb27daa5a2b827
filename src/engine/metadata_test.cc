// Clients of upstream's metadata protocol beside our own: regions, keys of both kinds, leases,
// pins, restarts. An audit ends each test.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/stats_book.h"
#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

using layout::PageState;
using wire::DeleteOutcome;

constexpr uint64_t kSecondNs = 1'000'000'000;

class MetadataTest : public testing::Test {
 protected:
  ~MetadataTest() override {
    if (!host_.running()) return;
    EXPECT_EQ(Offenders(host_.engine()), "");
  }
  uint64_t FreeBytes() { return host_.pool().usage().free_bytes; }
  uint64_t ClientCutBytes() { return host_.pool().usage().client_cut_bytes; }
  wire::PageRef Page(TestClient& client, std::string_view key) {
    const auto found = client.Find(key);
    EXPECT_TRUE(found.found) << key;
    return found.page;
  }
  // The keys that are in a pool that has no room for another page of 1 MiB.
  std::vector<std::string> Fill(TestClient& client) {
    std::vector<std::string> keys;
    for (int i = 0; i < 100; ++i) {  // more than there is room for
      keys.push_back("key" + std::to_string(i));
      client.Put(keys.back(), kMiB);
    }
    return Those(client, keys);
  }
  // Those of them that are there.
  static std::vector<std::string> Those(TestClient& client, std::vector<std::string> keys) {
    std::erase_if(keys, [&](const std::string& key) { return !client.Exists(key); });
    return keys;
  }
  uint64_t Wait(uint64_t by_ns) { return host_.Pass(by_ns); }

  TestEngine host_{{.pools = {96 * kMiB}, .engine = {.handle_key = {std::byte{7}}}}};
};

// --- Regions.

TEST_F(MetadataTest, ARegionIsHandedOutListedAndReturned) {
  UpstreamClient a(&host_, "a"), b(&host_, "b");
  const compat::AllocReply reply = a.TryAlloc(3 * kMiB);
  ASSERT_TRUE(reply.handle.has_value());
  EXPECT_EQ(reply.handle->length_bytes, 4 * kMiB);
  EXPECT_TRUE(a.List().empty());
  ASSERT_EQ(b.List().size(), 1u);
  EXPECT_EQ(b.List()[0], *reply.handle);
  EXPECT_FALSE(b.Return(reply.handle->region_id));
  EXPECT_FALSE(a.Return(999'999));
  EXPECT_FALSE(a.Return(~uint64_t{0}));
  EXPECT_EQ(ClientCutBytes(), 4 * kMiB);
  EXPECT_TRUE(a.Return(reply.handle->region_id));
  EXPECT_EQ(ClientCutBytes(), 0u);
  EXPECT_FALSE(a.Return(reply.handle->region_id));
  EXPECT_TRUE(b.List().empty());
}

TEST_F(MetadataTest, WhatCannotBeAllocatedIsAnError) {
  UpstreamClient a(&host_, "a"), zero_name(&host_, std::string("x\0y", 3));
  EXPECT_FALSE(a.TryAlloc(0).handle.has_value());
  EXPECT_NE(a.TryAlloc(uint64_t{1} << 50).error.find("no pool is as large"), std::string::npos);
  EXPECT_NE(a.TryAlloc(90 * kMiB).error.find("no room"), std::string::npos);
  EXPECT_NE(zero_name.TryAlloc(kMiB).error.find("zero"), std::string::npos);
  EXPECT_EQ(ClientCutBytes(), 0u);
}

TEST_F(MetadataTest, LongNamesAreClientsLikeAny) {
  const std::string pod(250, 'p'), lease(200, 'l');
  UpstreamClient one(&host_, pod + "1", lease + "1"), two(&host_, pod + "2", lease + "2");
  const uint64_t region = one.Alloc(2 * kMiB);
  EXPECT_TRUE(one.List().empty());
  EXPECT_EQ(two.List().size(), 1u);
  EXPECT_FALSE(two.Return(region));
  host_.Restart();
  EXPECT_FALSE(one.Beat().lease_expired);
  two.Alloc(2 * kMiB);
  two.Beat(true);
  EXPECT_TRUE(one.Register("key", region, 0));
  ASSERT_EQ(one.Usage().instances.size(), 1u);
  EXPECT_TRUE(one.Return(region));
}

TEST_F(MetadataTest, AReturnedRegionStaysAsLongAsItsKeys) {
  UpstreamClient a(&host_, "a"), b(&host_, "b");
  const uint64_t region = a.Alloc();
  ASSERT_TRUE(a.Register("one", region, 0));
  ASSERT_TRUE(a.Register("two", region, 4096));
  ASSERT_TRUE(a.Return(region));
  EXPECT_EQ(ClientCutBytes(), 4 * kMiB);
  EXPECT_TRUE(b.List().empty());
  EXPECT_EQ(b.Lookup("one")->handle.region_id, region);
  EXPECT_FALSE(a.Register("three", region, 8192));  // it is nobody's
  EXPECT_TRUE(b.Delete("one"));
  EXPECT_EQ(ClientCutBytes(), 4 * kMiB);
  EXPECT_TRUE(b.Delete("two"));
  // Somebody was told of the first: its room is lent to nobody before the hold is over, which a new
  // server knows as well. (The test's wall clock starts anew with it.)
  Wait(59 * kSecondNs);
  EXPECT_EQ(ClientCutBytes(), 4 * kMiB);
  EXPECT_FALSE(b.Exists("one"));
  host_.Restart();
  Wait(59 * kSecondNs);
  EXPECT_EQ(ClientCutBytes(), 4 * kMiB);
  Wait(2 * kSecondNs);
  EXPECT_EQ(ClientCutBytes(), 0u);
  // Nobody was told of this one.
  const uint64_t untold = a.Alloc();
  ASSERT_TRUE(a.Register("three", untold, 0));
  ASSERT_TRUE(a.Return(untold));
  EXPECT_TRUE(b.Delete("three"));
  EXPECT_EQ(ClientCutBytes(), 0u);
}

TEST_F(MetadataTest, HoldsOfAClockThatWasAheadAreCutAtTheStart) {
  UpstreamClient a(&host_, "a");
  TestClient client(&host_);
  const wire::PageRef page = client.Put("key"), kept = client.Put("kept");
  ASSERT_TRUE(a.Lookup("key").has_value());
  ASSERT_TRUE(a.Lookup("kept").has_value());
  ASSERT_TRUE(a.Delete("key"));
  for (const wire::PageRef& held : {page, kept}) {
    host_.pool().writer().SetHoldUntil(held.record, TestEngine::kUnixNs * 2);
  }
  host_.Restart();
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_EQ(host_.State(page).state(), PageState::kCondemned);
  Wait(61 * kSecondNs);
  EXPECT_EQ(host_.State(page).state(), PageState::kFree);
  ASSERT_TRUE(a.Delete("kept"));
  EXPECT_EQ(host_.State(kept).state(), PageState::kFree);
}

TEST_F(MetadataTest, NoHoldOutlivesTheReadersBoot) {
  UpstreamClient a(&host_, "a");
  wire::PageRef page;
  {
    TestClient client(&host_);
    page = client.Put("key");
    ASSERT_TRUE(a.Lookup("key").has_value());
    ASSERT_TRUE(a.Delete("key"));
    client.Die();
  }
  host_.Reboot();
  host_.Tick();
  EXPECT_EQ(host_.State(page).state(), PageState::kFree);
}

TEST_F(MetadataTest, AReturnedRegionWaitsForTheLastLease) {
  UpstreamClient a(&host_, "a");
  TestClient reader(&host_);
  const uint64_t region = a.Alloc();
  ASSERT_TRUE(a.Register("key", region, 0, 100));
  const wire::PageRef page = Page(reader, "key");
  ASSERT_TRUE(reader.Lease(page));
  // Overwritten by its own client: the key goes, the room is held by the reader.
  ASSERT_TRUE(a.Register("new", region, 50, 100));
  EXPECT_EQ(host_.State(page).state(), PageState::kCondemned);
  ASSERT_TRUE(a.Delete("new"));
  ASSERT_TRUE(a.Return(region));
  EXPECT_NE(host_.Tick(), 0u);
  EXPECT_EQ(ClientCutBytes(), 4 * kMiB);
  host_.Restart();
  EXPECT_EQ(Offenders(host_.engine()), "");
  EXPECT_EQ(ClientCutBytes(), 4 * kMiB);
  reader.Release(page);
  host_.Tick();
  EXPECT_EQ(ClientCutBytes(), 0u);
}

// --- Keys.

TEST_F(MetadataTest, AKeyLiesWhereItWasRegistered) {
  UpstreamClient a(&host_, "a"), b(&host_, "b");
  const compat::Handle handle = *a.TryAlloc(4 * kMiB).handle;
  EXPECT_TRUE(a.Register("key", handle.region_id, 12'345, 678));
  const auto found = b.Lookup("key");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->handle, handle);
  EXPECT_EQ(found->offset_bytes, 12'345u);
  EXPECT_EQ(found->length_bytes, 678u);
  EXPECT_TRUE(b.Exists("key"));
  EXPECT_FALSE(b.Lookup("missing").has_value());
  EXPECT_FALSE(b.Exists("missing"));
  EXPECT_FALSE(a.Register("key", handle.region_id, 0));  // not new, and where it was
  EXPECT_EQ(b.Lookup("key")->offset_bytes, 12'345u);
  EXPECT_TRUE(b.Delete("key"));
  EXPECT_FALSE(b.Delete("key"));
  EXPECT_FALSE(a.Exists("key"));
}

TEST_F(MetadataTest, RegistersOutOfBoundsAreRefusedAndChangeNothing) {
  UpstreamClient a(&host_, "a");
  TestClient client(&host_);
  const wire::PageRef page = client.Put("of a page");
  const uint64_t region = a.Alloc(4 * kMiB);
  const uint64_t server_cut = a.Lookup("of a page")->handle.region_id;
  EXPECT_FALSE(a.Register("k", region + 1, 0));
  EXPECT_FALSE(a.Register("k", ~uint64_t{0}, 0));
  EXPECT_FALSE(a.Register("k", server_cut, 0));
  EXPECT_FALSE(a.Register("k", region, 4 * kMiB));
  EXPECT_FALSE(a.Register("k", region, 4 * kMiB - 1, 2));
  EXPECT_FALSE(a.Register("k", region, uint64_t{1} << 40));
  EXPECT_FALSE(a.Register("k", region, 0, ~uint64_t{0}));  // a negative length
  EXPECT_FALSE(a.Register("k", region, 1, ~uint64_t{0}));
  EXPECT_FALSE(a.Register("k", region, 0, 0));
  EXPECT_FALSE(a.Register(std::string(layout::kKeyBytesMax + 1, 'k'), region, 0));
  EXPECT_FALSE(a.Exists("k"));
  EXPECT_EQ(a.Stats().keys, 1u);
  EXPECT_TRUE(a.Register("k", region, 4 * kMiB - 1, 1));
  EXPECT_EQ(host_.State(page).state(), PageState::kLive);
}

TEST_F(MetadataTest, ARegisterOverLiveExtentsDropsTheirKeys) {
  UpstreamClient a(&host_, "a");
  TestClient reader(&host_);
  const uint64_t region = a.Alloc();
  ASSERT_TRUE(a.Register("before", region, 0, 100));
  ASSERT_TRUE(a.Register("1", region, 100, 100));
  ASSERT_TRUE(a.Register("2", region, 200, 100));
  ASSERT_TRUE(a.Register("3", region, 300, 100));
  ASSERT_TRUE(a.Register("behind", region, 400, 100));
  ASSERT_TRUE(a.Pin("1"));
  const wire::PageRef leased = Page(reader, "2");
  ASSERT_TRUE(reader.Lease(leased));
  // Also what is pinned or leased: the bytes are gone already.
  EXPECT_TRUE(a.Register("new", region, 150, 200));
  for (const char* key : {"before", "behind", "new"}) EXPECT_TRUE(a.Exists(key)) << key;
  for (const char* key : {"1", "2", "3"}) EXPECT_FALSE(a.Exists(key)) << key;
  EXPECT_EQ(host_.State(leased).state(), PageState::kCondemned);
  reader.Release(leased);
  host_.Tick();
  EXPECT_EQ(host_.State(leased).state(), PageState::kAbsent);
  EXPECT_EQ(a.Usage().instances[0].used_bytes, 400u);
}

TEST_F(MetadataTest, ADuplicateRegisterDropsTheOtherKeysWhoseBytesItOverwrote) {
  UpstreamClient a(&host_, "a"), b(&host_, "b");
  const uint64_t of_a = a.Alloc(), of_b = b.Alloc();
  ASSERT_TRUE(a.Register("k", of_a, 0, 4096));
  ASSERT_TRUE(b.Register("late", of_b, 0, 4096));
  ASSERT_TRUE(b.Register("beside", of_b, 4096, 4096));
  // B never saw the answer for "late", took the room again and lost the race for "k".
  EXPECT_FALSE(b.Register("k", of_b, 0, 4096));
  EXPECT_FALSE(b.Exists("late"));
  EXPECT_TRUE(b.Exists("beside"));
  EXPECT_EQ(b.Lookup("k")->handle.region_id, of_a);
  // A repeat of its own register changes nothing; one at another place over it does.
  EXPECT_FALSE(a.Register("k", of_a, 0, 4096));
  EXPECT_TRUE(a.Exists("k"));
  EXPECT_TRUE(a.Register("k", of_a, 2048, 4096));
  EXPECT_EQ(a.Lookup("k")->offset_bytes, 2048u);
  // What is no place of the client's overwrites nothing.
  EXPECT_FALSE(b.Register("k", of_b, 4096, 0));
  EXPECT_FALSE(b.Register("k", of_b, 4096, ~uint64_t{0}));
  EXPECT_TRUE(b.Exists("beside"));
}

TEST_F(MetadataTest, BothKindsOfClientsShareTheirKeys) {
  UpstreamClient a(&host_, "a");
  TestClient client(&host_);
  const uint64_t region = a.Alloc();
  ASSERT_TRUE(a.Register("extent", region, 8192, 1000));
  const wire::PageRef page = client.Put("page");
  // Ours finds, reads in place, leases and pins the extent.
  const wire::PageRef extent = Page(client, "extent");
  catalogue::PoolView::PageExtent place;
  ASSERT_TRUE(host_.view().Page(extent.record, &place));
  EXPECT_EQ(place.region_id, region);
  EXPECT_EQ(place.in_region_bytes(), 8192u);
  ASSERT_TRUE(client.Lease(extent));
  EXPECT_FALSE(a.Delete("extent"));  // its room would be written over
  EXPECT_EQ(client.Delete("extent"), DeleteOutcome::kPinned);
  client.Release(extent);
  ASSERT_TRUE(client.Pin(extent));
  EXPECT_FALSE(a.Delete("extent"));
  ASSERT_TRUE(client.Unpin(extent));
  // Upstream's finds, pins and deletes the page.
  const auto found = a.Lookup("page");
  ASSERT_TRUE(found.has_value());
  ASSERT_TRUE(host_.view().Page(page.record, &place));
  EXPECT_EQ(found->handle.region_id, place.region_id);
  EXPECT_EQ(found->handle.offset_bytes + found->offset_bytes, place.offset_bytes);
  EXPECT_FALSE(a.Register("page", region, 0));
  ASSERT_TRUE(a.Pin("page"));
  EXPECT_EQ(client.Delete("page"), DeleteOutcome::kPinned);
  ASSERT_TRUE(a.Unpin("page"));
  ASSERT_TRUE(client.Lease(page));
  EXPECT_TRUE(a.Delete("page"));  // its bytes stay while they are leased
  EXPECT_EQ(host_.State(page).state(), PageState::kCondemned);
  client.Release(page);
  EXPECT_EQ(client.Delete("extent"), DeleteOutcome::kDeleted);
  EXPECT_FALSE(a.Exists("extent"));
  // A store of ours meets the key in the client-cut region.
  ASSERT_TRUE(a.Register("both", region, 0));
  const wire::PageRef mine = client.Grant(4096)[0];
  EXPECT_EQ(client.Register("both", mine).outcome, wire::RegisterOutcome::kDuplicate);
  // The wire names only a life that is LIVE; freeing it by page is deleting it.
  EXPECT_EQ(client.Free(Page(client, "both")), wire::FreeOutcome::kFreed);
  EXPECT_FALSE(a.Exists("both"));
}

TEST_F(MetadataTest, NamespacesAreTheEndpointsOwn) {
  UpstreamClient a(&host_, "a"), other(&host_, "a", "", "tcp://127.0.0.1:5556");
  TestClient ours(&host_), theirs(&host_, {.name_space = "tcp://127.0.0.1:5556"});
  const uint64_t region = a.Alloc();
  ASSERT_TRUE(a.Register("key", region, 0));
  EXPECT_FALSE(other.Exists("key"));
  const uint64_t others = other.Alloc();
  EXPECT_TRUE(other.Register("key", others, 4096));
  EXPECT_EQ(a.Lookup("key")->offset_bytes, 0u);
  EXPECT_EQ(other.Lookup("key")->offset_bytes, 4096u);
  EXPECT_NE(Page(ours, "key").record, Page(theirs, "key").record);
  const auto list = ours.Ask<wire::ListReply>(wire::ListRequest{});
  ASSERT_EQ(list.items.size(), 1u);
  EXPECT_EQ(list.items[0].key, "key");
}

TEST_F(MetadataTest, RegionsAreTheEndpointsOwn) {
  // Two applications that use the same instance and lease ids.
  UpstreamClient one(&host_, "a", "lease", "tcp://127.0.0.1:5555"),
      two(&host_, "a", "lease", "tcp://127.0.0.1:5556"), reader(&host_, "b", "", "");
  const uint64_t region = one.Alloc(2 * kMiB);
  ASSERT_TRUE(one.Register("key", region, 0));
  UpstreamClient beside(&host_, "x", "", "tcp://127.0.0.1:5555");
  EXPECT_EQ(beside.List().size(), 1u);
  for (const bool restarted : {false, true}) {
    if (restarted) host_.Restart();
    EXPECT_TRUE(reader.List().empty());
    EXPECT_FALSE(two.Register("other", region, 0));
    EXPECT_FALSE(two.Return(region));
    EXPECT_FALSE(reader.Register("other", region, 0));
    EXPECT_TRUE(one.Exists("key"));
    EXPECT_EQ(two.Stats().allocations, 0u);
    EXPECT_TRUE(two.Usage().instances.empty());
    EXPECT_EQ(one.Stats().allocations, 1u);
    ASSERT_EQ(one.Usage().instances.size(), 1u);
    EXPECT_EQ(one.Usage().instances[0].used_bytes, 4096u);
  }
  // The end of one's lease is not the other's.
  two.Alloc(2 * kMiB);
  two.Beat(true);
  EXPECT_TRUE(one.Register("more", region, 8192));
  EXPECT_TRUE(one.Return(region));
}

TEST_F(MetadataTest, TotalsAreOfThePoolsThatTheEndpointUses) {
  host_.AddMemory(64 * kMiB);
  host_.SetServed({0, 1});
  host_.Restart();
  UpstreamClient any(&host_, "a"), second(&host_, "b");
  any.Alloc(2 * kMiB);
  second.TakeRegionsFrom({"pool1"});
  EXPECT_EQ(any.Stats().pool->total_bytes, 160 * kMiB);
  EXPECT_EQ(second.Stats().pool->total_bytes, 64 * kMiB);
  EXPECT_EQ(second.Stats().pool->free_bytes, host_.pool(1).usage().free_bytes);
  EXPECT_EQ(second.Usage().pool.total_bytes, 64 * kMiB);
  EXPECT_TRUE(second.List().empty());
}

TEST_F(MetadataTest, BatchesAnswerEachKeyAndPinsStopAtTheFirstMissing) {
  UpstreamClient a(&host_, "a");
  const uint64_t region = a.Alloc();
  const auto registered = a.Ask<compat::BatchRegisterReply>(
      MetadataType::kBatchRegister, compat::RegisterRequest{{{"a", region, 0, 10},
                                                             {"a", region, 10, 10},
                                                             {"b", region, 20, 10},
                                                             {"bad", region + 9, 0, 10},
                                                             {"c", region, 30, 10}}});
  EXPECT_TRUE(registered.success);
  EXPECT_EQ(registered.results, (std::vector<bool>{true, false, true, false, true}));
  EXPECT_EQ(a.Batch(MetadataType::kBatchExists, {"a", "x", "b", "a"}),
            (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(a.Batch(MetadataType::kBatchPin, {"a", "a", "b", "x", "c"}),
            (std::vector<bool>{true, true, true, false, false}));
  EXPECT_FALSE(a.Delete("a"));
  EXPECT_TRUE(a.Delete("c"));
  EXPECT_EQ(a.Batch(MetadataType::kBatchUnpin, {"x", "a", "a", "a", "b"}),
            (std::vector<bool>{false, true, true, false, true}));
  EXPECT_TRUE(a.Delete("a"));
  const auto found = a.Ask<compat::BatchLookupReply>(MetadataType::kBatchLookup,
                                                     compat::KeysRequest{{"a", "b", "x"}});
  ASSERT_EQ(found.entries.size(), 3u);
  EXPECT_FALSE(found.entries[0].location.has_value());
  EXPECT_EQ(found.entries[1].location->offset_bytes, 20u);
  EXPECT_FALSE(found.entries[2].location.has_value());
  EXPECT_TRUE(a.Batch(MetadataType::kBatchExists, {}).empty());
}

TEST_F(MetadataTest, ARequestThatDoesNotFitItsTypeIsAnError) {
  UpstreamClient a(&host_, "a");
  const auto error = [&a](MetadataType type, const compat::MetadataRequest& request) {
    return std::holds_alternative<compat::ErrorReply>(a.AskAny(type, request));
  };
  EXPECT_TRUE(error(MetadataType::kLookup, compat::KeysRequest{}));
  EXPECT_TRUE(error(MetadataType::kLookup, compat::KeysRequest{{"a", "b"}}));
  EXPECT_TRUE(error(MetadataType::kRegister, compat::RegisterRequest{}));
  EXPECT_TRUE(error(MetadataType::kLookup, compat::PlainRequest{}));
  EXPECT_TRUE(error(static_cast<MetadataType>(0x77), compat::KeysRequest{{"a"}}));
  EXPECT_TRUE(error(MetadataType::kLookup, std::monostate{}));
}

// --- Pins and holds.

TEST_F(MetadataTest, GlobalPinsKeepAKeyAcrossARestart) {
  UpstreamClient a(&host_, "a");
  TestClient client(&host_);
  const uint64_t region = a.Alloc();
  ASSERT_TRUE(a.Register("extent", region, 0));
  client.Put("page");
  for (const char* key : {"extent", "page"}) {
    EXPECT_FALSE(a.Unpin(key));
    ASSERT_TRUE(a.Pin(key));
    ASSERT_TRUE(a.Pin(key));
  }
  host_.Restart();
  ASSERT_TRUE(client.Attach().ok());
  for (const char* key : {"extent", "page"}) {
    EXPECT_EQ(client.Delete(key), DeleteOutcome::kPinned) << key;
    EXPECT_TRUE(a.Unpin(key));
    EXPECT_FALSE(a.Delete(key)) << key;
  }
  // `maru unpin` mends what is stuck.
  const auto unpinned = client.Ask<wire::UnpinReply>(wire::UnpinRequest{{"extent", "x", "page"}});
  EXPECT_EQ(unpinned.unpinned, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_TRUE(a.Delete("extent"));
  EXPECT_TRUE(a.Delete("page"));
  EXPECT_FALSE(a.Pin("page"));
}

TEST_F(MetadataTest, APageThatWasToldOverTheWireIsHeld) {
  UpstreamClient a(&host_, "a");
  TestClient client(&host_);
  const wire::PageRef page = client.Put("key");
  ASSERT_TRUE(a.Lookup("key").has_value());
  ASSERT_TRUE(a.Delete("key"));
  EXPECT_EQ(host_.State(page).state(), PageState::kCondemned);
  Wait(59 * kSecondNs);
  EXPECT_EQ(host_.State(page).state(), PageState::kCondemned);
  // A new server knows it too. (The test's wall clock starts anew with it.)
  host_.Restart();
  ASSERT_TRUE(client.Attach().ok());
  Wait(59 * kSecondNs);
  EXPECT_EQ(host_.State(page).state(), PageState::kCondemned);
  Wait(2 * kSecondNs);
  EXPECT_EQ(host_.State(page).state(), PageState::kFree);
  // Asking whether it is there holds nothing.
  const wire::PageRef asked = client.Put("asked");
  ASSERT_TRUE(a.Exists("asked"));
  ASSERT_TRUE(a.Delete("asked"));
  EXPECT_EQ(host_.State(asked).state(), PageState::kFree);
}

TEST_F(MetadataTest, KeysOnHoldAreNoVictims) {
  UpstreamClient a(&host_, "a");
  TestClient client(&host_);
  const std::vector<std::string> keys = Fill(client);
  ASSERT_GT(keys.size(), 40u);
  // All but the last three were told to a reader that holds no lease, or are pinned by one.
  const std::vector<std::string> held(keys.begin(), keys.end() - 3);
  for (size_t i = 0; i < held.size(); ++i) {
    ASSERT_TRUE(i % 2 == 0 ? a.Lookup(held[i]).has_value() : a.Pin(held[i]));
  }
  for (int i = 0; i < 20; ++i) client.Put("new" + std::to_string(i), kMiB);
  EXPECT_EQ(Those(client, held), held);
  EXPECT_EQ(host_->Count(PoolIndex(0)).condemned, 0u);
  // When all is held, the newcomer is refused and nothing goes.
  for (int i = 0; i < 20; ++i) a.Lookup("new" + std::to_string(i));
  for (const std::string& key : keys) a.Lookup(key);
  const uint64_t live = host_->Count(PoolIndex(0)).live;
  // What went last, a batch, left some pages.
  auto refused = client.TryGrant(kMiB);
  for (int left = 0; left < 16 && refused.ok(); ++left) refused = client.TryGrant(kMiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("on hold"), std::string_view::npos);
  EXPECT_EQ(host_->Count(PoolIndex(0)).live, live);
  Wait(61 * kSecondNs);
  EXPECT_TRUE(client.TryGrant(kMiB).ok());
}

TEST_F(MetadataTest, ABudgetTakesNoKeysOnHold) {
  UpstreamClient a(&host_, "a");
  TestClient client(&host_, {.budget_bytes = 4 * kMiB});
  for (int i = 0; i < 4; ++i) client.Put("key" + std::to_string(i), kMiB);
  ASSERT_TRUE(a.Lookup("key0").has_value());
  client.Put("more", kMiB);
  EXPECT_TRUE(client.Exists("key0"));
  EXPECT_FALSE(client.Exists("key1"));
  for (const char* key : {"key0", "key2", "key3", "more"}) a.Lookup(key);
  EXPECT_FALSE(client.TryGrant(kMiB).ok());
  EXPECT_EQ(host_->Count(PoolIndex(0)).live, 4u);
}

TEST_F(MetadataTest, RegistersWithoutARecordTakeNoKeys) {
  UpstreamClient a(&host_, "a");
  TestClient client(&host_);
  const uint64_t region = a.Alloc();
  std::vector<std::string> keys = Fill(client);
  uint64_t extents = 0;
  while (a.Register("extent" + std::to_string(extents), region, extents, 1)) ++extents;
  keys = Those(client, std::move(keys));  // some may have gone for the text of extents
  ASSERT_FALSE(keys.empty());
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_FALSE(a.Register("no" + std::to_string(i), region, extents + i, 1));
    Wait(2 * kSecondNs);
  }
  EXPECT_EQ(Those(client, keys), keys);
}

TEST_F(MetadataTest, RegistersWithoutRoomForTheirTextTakeNoBatchEach) {
  UpstreamClient a(&host_, "a");
  TestClient client(&host_);
  const uint64_t region = a.Alloc();
  std::vector<std::string> keys = Fill(client);
  // The slab with their texts cannot be emptied for others.
  ASSERT_TRUE(client.Lease(client.Find(keys.back()).page));
  const auto text = [](uint64_t i) { return std::string(60'000, 'x') + std::to_string(i); };
  uint64_t extents = 0;
  while (a.Register(text(extents), region, extents, 1)) ++extents;
  keys = Those(client, std::move(keys));
  ASSERT_GT(keys.size(), 20u);
  for (uint64_t i = 1; i < 50; ++i) {
    ASSERT_FALSE(a.Register(text(extents + i), region, extents + i, 1));
  }
  EXPECT_EQ(Those(client, keys), keys);
  Wait(2 * kSecondNs);
  ASSERT_FALSE(a.Register(text(extents), region, extents, 1));
  EXPECT_GT(Those(client, keys).size(), keys.size() * 3 / 4);
}

TEST_F(MetadataTest, ExtentsAreNeverEvictedAndTakeNoPartInBudgets) {
  UpstreamClient a(&host_, "a");
  TestClient client(&host_, {.budget_bytes = 4 * kMiB});
  const uint64_t region = a.Alloc(2 * kMiB);
  for (uint64_t i = 0; i < 64; ++i) {
    ASSERT_TRUE(a.Register("extent" + std::to_string(i), region, i * 4096));
  }
  for (int i = 0; i < 500; ++i) client.Put("page" + std::to_string(i), kMiB / 2);
  const auto counts = host_->Count(PoolIndex(0));
  EXPECT_LE(counts.live, 8u);
  for (uint64_t i = 0; i < 64; ++i) {
    EXPECT_TRUE(a.Exists("extent" + std::to_string(i))) << i;
  }
  EXPECT_EQ(counts.free + counts.quarantined + counts.granted + counts.live + counts.retiring +
                counts.condemned + counts.worn,
            counts.pages);
}

// --- Leases.

TEST_F(MetadataTest, ALeaseThatIsNotRenewedLeavesItsRegionsWithoutAnOwner) {
  UpstreamClient a(&host_, "a", "lease-1"), b(&host_, "b");
  const uint64_t keyed = a.Alloc(), empty = a.Alloc();
  ASSERT_NE(keyed, empty);
  ASSERT_TRUE(a.Register("key", keyed, 0));
  const uint64_t without_lease = b.Alloc();
  for (int i = 0; i < 5; ++i) {
    Wait(25 * kSecondNs);
    const auto beat = a.Beat();
    EXPECT_EQ(beat.lease_ttl_s, 30.0);
    EXPECT_FALSE(beat.lease_expired);
  }
  EXPECT_EQ(ClientCutBytes(), 12 * kMiB);
  const uint64_t next_ns = Wait(29 * kSecondNs);
  EXPECT_EQ(next_ns, host_.now_ns() + kSecondNs);
  EXPECT_EQ(ClientCutBytes(), 12 * kMiB);
  Wait(2 * kSecondNs);
  EXPECT_EQ(ClientCutBytes(), 8 * kMiB);  // the empty one has gone
  EXPECT_TRUE(a.Beat().lease_expired);
  EXPECT_TRUE(a.Exists("key"));
  EXPECT_FALSE(a.Register("late", keyed, 4096));
  EXPECT_NE(a.TryAlloc(kMiB).error.find("lease-1 has ended"), std::string::npos);
  // Who never had a lease is never taken for dead.
  Wait(3600 * kSecondNs);
  EXPECT_TRUE(b.Register("other", without_lease, 0));
  EXPECT_TRUE(a.Delete("key"));
  EXPECT_EQ(ClientCutBytes(), 4 * kMiB);
}

TEST_F(MetadataTest, ALeaseLastsAsLongAsItsEndpointSays) {
  UpstreamClient brief(&host_, "a", "lease-1"), standard(&host_, "b", "lease-2");
  UpstreamClient without(&host_, "c", "lease-3"), lengthy(&host_, "d", "lease-4");
  brief.SetLease(2 * kSecondNs);
  without.SetLease(0);
  lengthy.SetLease(600 * kSecondNs);
  const uint64_t regions[] = {brief.Alloc(), standard.Alloc(), without.Alloc(), lengthy.Alloc()};
  EXPECT_EQ(brief.Beat().lease_ttl_s, 2.0);
  EXPECT_EQ(standard.Beat().lease_ttl_s, 30.0);
  EXPECT_EQ(without.Beat().lease_ttl_s, 0.0);  // an empty reply
  EXPECT_EQ(lengthy.Beat().lease_ttl_s, 600.0);
  Wait(2 * kSecondNs);
  EXPECT_TRUE(brief.Beat().lease_expired);
  EXPECT_FALSE(brief.Register("1", regions[0], 0));
  EXPECT_FALSE(standard.Beat().lease_expired);
  Wait(30 * kSecondNs);
  EXPECT_TRUE(standard.Beat().lease_expired);
  EXPECT_FALSE(standard.Register("2", regions[1], 0));
  EXPECT_TRUE(without.Register("3", regions[2], 0));
  EXPECT_TRUE(lengthy.Register("4", regions[3], 0));
  // A longer one keeps what was left of it: its client renews it only once in 150 s.
  host_.Restart();
  Wait(100 * kSecondNs);
  EXPECT_TRUE(lengthy.Register("5", regions[3], 4096));
  EXPECT_FALSE(lengthy.Beat().lease_expired);
  Wait(600 * kSecondNs);
  EXPECT_TRUE(lengthy.Beat().lease_expired);
  EXPECT_TRUE(without.Register("6", regions[2], 4096));
}

TEST_F(MetadataTest, AReleasedLeaseEndsAtOnce) {
  UpstreamClient a(&host_, "a", "lease-1");
  const uint64_t region = a.Alloc();
  EXPECT_FALSE(a.Beat(true).lease_expired);
  EXPECT_EQ(ClientCutBytes(), 0u);
  EXPECT_FALSE(a.Register("late", region, 0));
  EXPECT_EQ(host_.Tick(), 0u);
  // The end of its old lease is no reason to refuse what it asks for now.
  EXPECT_NE(a.Alloc(), region);
}

TEST_F(MetadataTest, AHeartbeatWithoutALeaseIsAnEmptyOne) {
  UpstreamClient a(&host_, "a"), leased(&host_, "b", "lease-1");
  EXPECT_EQ(a.Beat().lease_ttl_s, 0.0);
  EXPECT_EQ(leased.Beat().lease_ttl_s, 30.0);
  EXPECT_FALSE(leased.Beat().lease_expired);
  EXPECT_FALSE(leased.TryAlloc(layout::kPoolBytesMax).handle.has_value());
  EXPECT_FALSE(leased.Beat().lease_expired);
}

TEST_F(MetadataTest, AHeartbeatNeedsNoInstanceId) {
  UpstreamClient a(&host_, "a", "lease-1"), nameless(&host_, "", "lease-1"),
      elsewhere(&host_, "", "lease-1", "tcp://127.0.0.1:5556");
  const uint64_t region = a.Alloc();
  for (int i = 0; i < 3; ++i) {
    Wait(25 * kSecondNs);
    EXPECT_FALSE(nameless.Beat().lease_expired);
  }
  EXPECT_TRUE(a.Register("key", region, 0));
  // Another endpoint's lease of that name is another one.
  elsewhere.Beat(true);
  EXPECT_TRUE(a.Register("more", region, 4096));
  nameless.Beat(true);
  EXPECT_FALSE(a.Register("late", region, 8192));
  const uint64_t second = a.Alloc();
  Wait(31 * kSecondNs);
  EXPECT_TRUE(nameless.Beat().lease_expired);
  EXPECT_FALSE(elsewhere.Beat().lease_expired);
  EXPECT_FALSE(a.Register("late", second, 0));
}

TEST_F(MetadataTest, AHealthyLeaseWithoutARegionGoesOnUnderTheNextServer) {
  UpstreamClient returned(&host_, "a", "lease-1"), never(&host_, "b", "lease-2"),
      released(&host_, "c", "lease-3");
  EXPECT_TRUE(returned.Return(returned.Alloc()));
  released.Alloc();
  released.Beat(true);
  for (int i = 0; i < 2; ++i) {
    host_.Restart();
    EXPECT_FALSE(returned.Beat().lease_expired);
    EXPECT_FALSE(never.Beat().lease_expired);
    EXPECT_FALSE(released.Beat().lease_expired);
  }
  EXPECT_TRUE(returned.TryAlloc(kMiB).handle.has_value());
}

TEST_F(MetadataTest, APauseOfTheServerCountsAgainstNoLease) {
  UpstreamClient a(&host_, "a", "lease-1"), late(&host_, "late", "lease-2");
  const uint64_t region = a.Alloc();
  late.Alloc();
  Wait(20 * kSecondNs);
  ASSERT_FALSE(a.Beat().lease_expired);
  Wait(5 * kSecondNs);
  host_.Advance(600 * kSecondNs);  // stopped, or busy with one thing
  host_.Tick();
  EXPECT_EQ(ClientCutBytes(), 8 * kMiB);
  EXPECT_FALSE(a.Beat().lease_expired);
  // What is not renewed while it serves lapses as before.
  Wait(6 * kSecondNs);
  EXPECT_EQ(ClientCutBytes(), 4 * kMiB);
  EXPECT_TRUE(late.Beat().lease_expired);
  EXPECT_TRUE(a.Register("key", region, 0));
  // The pause may end with a request as well as with a tick.
  host_.Advance(600 * kSecondNs);
  EXPECT_FALSE(a.Beat().lease_expired);
  host_.Tick();
  EXPECT_EQ(ClientCutBytes(), 4 * kMiB);
}

TEST_F(MetadataTest, ALeaseThatLapsedIsToldAfterRestarts) {
  UpstreamClient bare(&host_, "a", "lease-1"), keyed(&host_, "b", "lease-2"),
      returned(&host_, "c", "lease-3"), other(&host_, "o");
  bare.Alloc();
  const uint64_t region = keyed.Alloc();
  ASSERT_TRUE(keyed.Register("key", region, 0));
  const uint64_t kept = returned.Alloc();
  ASSERT_TRUE(returned.Register("key3", kept, 0));
  ASSERT_TRUE(returned.Return(kept));
  Wait(31 * kSecondNs);
  for (int i = 0; i < 2; ++i) {
    host_.Restart();
    other.Alloc();  // where the first had its region
    for (UpstreamClient* const client : {&bare, &keyed}) {
      EXPECT_TRUE(client->Beat().lease_expired);
      EXPECT_NE(client->TryAlloc(kMiB).error.find("has ended"), std::string::npos);
    }
  }
  // One that gave its region back has not lapsed.
  EXPECT_TRUE(returned.TryAlloc(kMiB).handle.has_value());
  EXPECT_FALSE(returned.Beat().lease_expired);
  // No client of an earlier boot is alive: who comes with that id is another.
  host_.Reboot();
  ASSERT_TRUE(keyed.Exists("key"));
  for (const bool restarted : {false, true}) {
    if (restarted) host_.Restart();
    for (UpstreamClient* const client : {&bare, &keyed}) {
      EXPECT_FALSE(client->Beat().lease_expired);
      EXPECT_TRUE(client->TryAlloc(kMiB).handle.has_value());
    }
  }
}

TEST_F(MetadataTest, ALapsedLeaseIsKnownByEachPoolThatItHadARegionIn) {
  TestEngine host({.pools = {64 * kMiB, 64 * kMiB, 64 * kMiB}});
  UpstreamClient a(&host, "a", "lease-1");
  a.TakeRegionsFrom({"pool1"});
  a.Alloc();
  a.TakeRegionsFrom({"pool2"});
  a.Alloc();
  host.Pass(31 * kSecondNs);
  for (const size_t pool : {0, 1, 2}) {
    host.SetServed({pool});
    host.Restart();
    EXPECT_EQ(a.Beat().lease_expired, pool != 0);
  }
}

TEST_F(MetadataTest, TheNewestLapsedLeasesAreRemembered) {
  const auto lease = [&](uint32_t number) {
    UpstreamClient client(&host_, "a", "lease-" + std::to_string(number));
    client.SetLease(2 * kSecondNs);
    return client;
  };
  constexpr uint32_t kAll = layout::kLapsedLeases + 3;
  for (uint32_t i = 0; i < kAll; ++i) {
    lease(i).Alloc(2 * kMiB);
    Wait(2 * kSecondNs);
  }
  EXPECT_EQ(ClientCutBytes(), 0u);
  EXPECT_EQ(host_.pool().LapsedLeases().size(), layout::kLapsedLeases);
  host_.Restart();
  for (uint32_t i = 0; i < kAll; ++i) EXPECT_EQ(lease(i).Beat().lease_expired, i >= 3) << i;
}

// --- Restart.

TEST_F(MetadataTest, ARestartKeepsRegionsOwnersLeasesAndHandles) {
  UpstreamClient a(&host_, "a", "lease-1"), b(&host_, "b");
  const compat::Handle mine = *a.TryAlloc(4 * kMiB).handle;
  const compat::Handle other = *b.TryAlloc(2 * kMiB).handle;
  ASSERT_TRUE(a.Register("key", mine.region_id, 100, 50));
  host_.Restart();
  EXPECT_EQ(a.List(), std::vector{other});
  EXPECT_EQ(a.Lookup("key")->handle, mine);
  EXPECT_TRUE(a.Register("more", mine.region_id, 0, 100));
  EXPECT_FALSE(a.Register("over", mine.region_id, 100, 0));
  EXPECT_TRUE(b.Register("too", other.region_id, 0, 100));
  EXPECT_FALSE(b.Return(mine.region_id));
  const compat::StatsReply stats = a.Stats();
  EXPECT_EQ(stats.keys, 3u);
  EXPECT_EQ(stats.keys_bytes, 250u);
  EXPECT_EQ(stats.allocations, 2u);
  // The lease's time starts anew.
  Wait(29 * kSecondNs);
  EXPECT_FALSE(a.Beat().lease_expired);
  Wait(31 * kSecondNs);
  EXPECT_TRUE(a.Beat().lease_expired);
  EXPECT_TRUE(b.Return(other.region_id));
}

TEST_F(MetadataTest, ASecondKeyInALaterPoolGoesAtTheStart) {
  host_.AddMemory(64 * kMiB);
  host_.SetServed({1});
  host_.Restart();
  UpstreamClient a(&host_, "a");
  const uint64_t region = a.Alloc();
  ASSERT_TRUE(a.Register("key", region, 0));
  ASSERT_TRUE(a.Register("other", region, 4096));
  host_.SetServed({0});
  host_.Restart();
  TestClient client(&host_);
  client.Put("key");
  host_.SetServed({0, 1});
  host_.Restart();
  EXPECT_NE(a.Lookup("key")->handle.region_id, region);
  EXPECT_EQ(a.Lookup("other")->handle.region_id, region);
  EXPECT_EQ(a.Stats().keys, 2u);
  client.Die();
}

TEST_F(MetadataTest, RegionsComeFromThePoolsThatTheEndpointNames) {
  host_.AddMemory(64 * kMiB);
  host_.SetServed({0, 1});
  host_.Restart();
  const auto free_bytes = [this] {
    return std::array{host_.pool(0).usage().free_bytes, host_.pool(1).usage().free_bytes};
  };
  UpstreamClient any(&host_, "a"), second(&host_, "b"), nowhere(&host_, "c");
  second.TakeRegionsFrom({host_.pool(1).name()});
  nowhere.TakeRegionsFrom({"gone"});
  const auto before = free_bytes();
  any.Alloc(2 * kMiB);
  second.Alloc(4 * kMiB);
  EXPECT_EQ(free_bytes(), (std::array{before[0] - 2 * kMiB, before[1] - 4 * kMiB}));
  EXPECT_NE(nowhere.TryAlloc(2 * kMiB).error, "");
  // In the order in which it names them.
  UpstreamClient other_way(&host_, "d");
  other_way.TakeRegionsFrom({host_.pool(1).name(), "gone", host_.pool(0).name()});
  other_way.Alloc(8 * kMiB);
  EXPECT_EQ(free_bytes()[1], before[1] - 12 * kMiB);
  const uint64_t rest = free_bytes()[1];
  other_way.Alloc(48 * kMiB);  // more than the first has
  EXPECT_EQ(free_bytes()[0], before[0] - 50 * kMiB);
  EXPECT_EQ(free_bytes()[1], rest);
}

// --- What is shown.

TEST_F(MetadataTest, StatsAndUsageAreWhatWasCountedAsItChanged) {
  UpstreamClient a(&host_, "a"), b(&host_, "b");
  TestClient client(&host_);
  const uint64_t region = a.Alloc(4 * kMiB);
  const uint64_t second = a.Alloc(2 * kMiB);
  const uint64_t third = b.Alloc(2 * kMiB);
  ASSERT_TRUE(a.Register("a1", region, 0, 1000));
  ASSERT_TRUE(a.Register("a2", second, 0, 500));
  ASSERT_TRUE(b.Register("b1", third, 0, 7));
  client.Register("page", client.Grant(4096)[0], 33);
  ASSERT_TRUE(b.Return(third));
  const compat::StatsReply stats = a.Stats();
  EXPECT_EQ(stats.keys, 4u);
  EXPECT_EQ(stats.keys_bytes, 1540u);
  EXPECT_EQ(stats.allocations, 3u);
  EXPECT_EQ(stats.allocated_bytes, 8 * kMiB);
  EXPECT_EQ(stats.active_clients, 1u);
  ASSERT_TRUE(stats.pool.has_value());
  EXPECT_EQ(stats.pool->total_bytes, 96 * kMiB);
  EXPECT_EQ(stats.pool->free_bytes, FreeBytes());
  const compat::UsageReply usage = a.Usage();
  ASSERT_EQ(usage.instances.size(), 2u);
  EXPECT_EQ(usage.instances[0].instance_id, "a");
  EXPECT_EQ(usage.instances[0].regions, 2u);
  EXPECT_EQ(usage.instances[0].allocated_bytes, 6 * kMiB);
  EXPECT_EQ(usage.instances[0].used_bytes, 1500u);
  ASSERT_EQ(usage.instances[0].devices.size(), 1u);
  EXPECT_EQ(usage.instances[0].devices[0].second, 6 * kMiB);
  EXPECT_EQ(usage.instances[1].instance_id, "b");
  EXPECT_EQ(usage.instances[1].used_bytes, 7u);
  ASSERT_TRUE(a.Delete("b1"));
  EXPECT_EQ(a.Usage().instances.size(), 1u);
  EXPECT_EQ(a.Stats().keys_bytes, 1533u);
}

TEST_F(MetadataTest, ReportsAreSummedAndBounded) {
  UpstreamClient a(&host_, "a");
  compat::ReportStatsRequest report;
  report.entries.push_back({"c1", "store", "ok", 100, 2.5});
  report.entries.push_back({"c1", "store", "failed", 50, 1.5});
  report.entries.push_back({"c2", "retrieve", "hit", 7, 1});
  EXPECT_TRUE(a.Ask<compat::SuccessReply>(MetadataType::kReportStats, report).success);
  compat::StatsReply stats = a.Stats();
  ASSERT_EQ(stats.clients.size(), 3u);
  EXPECT_EQ(stats.clients[0].client_id, "_all");
  EXPECT_EQ(stats.clients[0].operations.size(), 2u);
  EXPECT_EQ(stats.clients[1].client_id, "c1");
  const compat::OperationCounters& store = stats.clients[1].operations[0];
  EXPECT_EQ(store.operation, "store");
  EXPECT_EQ(store.count, 2u);
  EXPECT_EQ(store.size_bytes, 150u);
  EXPECT_EQ(store.latency_us, 4.0);
  EXPECT_EQ(store.results.size(), 2u);

  std::vector<std::string> names;
  for (int i = 0; i < 400; ++i) names.push_back("n" + std::to_string(i));
  report.entries.clear();
  for (const std::string& name : names) {
    report.entries.push_back({name, "store", "ok", 1, 1});
    report.entries.push_back({"c1", name, name, 1, 1});
  }
  a.Ask<compat::SuccessReply>(MetadataType::kReportStats, report);
  stats = a.Stats();
  EXPECT_EQ(stats.clients.size(), StatsBook::kClientsMax + 2);  // "_all", and "_other"
  uint64_t counted = 0;
  for (const compat::OperationCounters& operation : stats.clients[0].operations) {
    counted += operation.count;
  }
  EXPECT_EQ(counted, 803u);
  for (const compat::ClientCounters& client : stats.clients) {
    EXPECT_LE(client.operations.size(), StatsBook::kOperationsMax + 1);
    for (const compat::OperationCounters& operation : client.operations) {
      EXPECT_LE(operation.results.size(), StatsBook::kResultsMax + 1);
    }
  }
}

TEST_F(MetadataTest, StatisticsAreThoseOfTheEndpoint) {
  UpstreamClient one(&host_, "a", "", "tcp://127.0.0.1:5555");
  UpstreamClient two(&host_, "a", "", "tcp://127.0.0.1:5556"), daemons(&host_, "a");
  const uint64_t region = one.Alloc();
  ASSERT_TRUE(one.Register("key", region, 0, 100));
  ASSERT_TRUE(one.Register("more", region, 4096, 50));
  const compat::ReportStatsRequest report{{{"c", "store", "ok", 7, 1}}};
  EXPECT_TRUE(one.Ask<compat::SuccessReply>(MetadataType::kReportStats, report).success);
  for (const bool restarted : {false, true}) {
    if (restarted) host_.Restart();
    EXPECT_EQ(one.Stats().keys, 2u);
    EXPECT_EQ(one.Stats().keys_bytes, 150u);
    EXPECT_EQ(one.Stats().clients.size(), restarted ? 1u : 2u);
    for (UpstreamClient* const other : {&two, &daemons}) {
      const compat::StatsReply stats = other->Stats();
      EXPECT_EQ(stats.keys, 0u);
      EXPECT_EQ(stats.keys_bytes, 0u);
      ASSERT_EQ(stats.clients.size(), 1u);
      EXPECT_EQ(stats.clients[0].client_id, "_all");
      EXPECT_TRUE(stats.clients[0].operations.empty());
    }
  }
  EXPECT_TRUE(one.Delete("key"));
  EXPECT_EQ(one.Stats().keys, 1u);
  EXPECT_EQ(one.Stats().keys_bytes, 50u);
}

TEST_F(MetadataTest, InspectionShowsRegionsAndTheirExtents) {
  UpstreamClient a(&host_, "prefill-0", "lease-1");
  TestClient client(&host_);
  client.Put("page");
  const uint64_t region = a.Alloc();
  ASSERT_TRUE(a.Register("key", region, 0, 77));
  const auto regions =
      client.Ask<wire::InspectReply>(wire::InspectRequest{wire::InspectTopic::kRegions, 0});
  EXPECT_EQ(regions.next_cursor, 0u);
  for (const std::string text : {R"("kind":"pages")", R"("kind":"client-cut")",
                                 R"("instance_id":"prefill-0")", R"("lease_id":"lease-1")",
                                 R"("live_bytes":77)", R"("owned":true)", R"("road":"metadata")"}) {
    EXPECT_NE(regions.json.find(text), std::string::npos) << text << " in " << regions.json;
  }
  const auto summary = client.Ask<wire::InspectReply>(wire::InspectRequest{});
  EXPECT_NE(summary.json.find(R"("extents":1)"), std::string::npos) << summary.json;
  EXPECT_NE(summary.json.find(R"("extent_bytes":77)"), std::string::npos);
  // A condemned extent that a reader holds is named with its length.
  const wire::PageRef page = Page(client, "key");
  ASSERT_TRUE(client.Lease(page));
  ASSERT_TRUE(a.Register("over", region, 0, 10));
  const auto condemned =
      client.Ask<wire::InspectReply>(wire::InspectRequest{wire::InspectTopic::kCondemned, 0});
  EXPECT_NE(condemned.json.find(R"("page_bytes":77)"), std::string::npos) << condemned.json;
  client.Release(page);
}

// A region's record has a hash of its endpoint's namespace alone.
TEST_F(MetadataTest, InspectionNamesTheEndpointThatLentARegion) {
  const std::string keyed_name = "tcp://127.0.0.1:1", empty_name = "tcp://127.0.0.1:2";
  UpstreamClient keyed(&host_, "a", "", keyed_name), empty(&host_, "a", "", empty_name);
  const auto shows = [this](const std::string& name) {
    const std::string json =
        TestClient(&host_)
            .Ask<wire::InspectReply>(wire::InspectRequest{wire::InspectTopic::kRegions, 0})
            .json;
    return json.find("\"namespace\":\"" + name + "\"") != std::string::npos;
  };
  keyed.MoveEndpoint();  // opened
  empty.MoveEndpoint();
  const uint64_t region = keyed.Alloc();
  empty.Alloc();
  EXPECT_TRUE(shows(keyed_name));
  EXPECT_TRUE(shows(empty_name));
  ASSERT_TRUE(keyed.Register("key", region, 0));
  host_.Restart();
  EXPECT_TRUE(shows(keyed_name));
  EXPECT_FALSE(shows(empty_name));  // until it is open again
  empty.MoveEndpoint();
  EXPECT_TRUE(shows(empty_name));
}

TEST_F(MetadataTest, WhatIsNotOfferedIsDeclined) {
  UpstreamClient a(&host_, "a");
  EXPECT_FALSE(a.Plain<compat::SuccessReply>(MetadataType::kStorage).success);
  EXPECT_FALSE(a.Plain<compat::SuccessReply>(MetadataType::kShutdown).success);
  const auto hello =
      a.Ask<compat::HandshakeReply>(MetadataType::kHandshake, compat::HandshakeRequest{});
  EXPECT_EQ(hello.error, "");
  EXPECT_EQ(hello.rm_address, "127.0.0.1:9850");
  EXPECT_EQ(hello.server_version, "1.2.3");
  EXPECT_EQ(hello.server_epoch, host_->epoch());
}

}  // namespace
}  // namespace maru::engine
