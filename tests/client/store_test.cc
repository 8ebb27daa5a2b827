// Stores: races, lost servers, limits, and where the pages are afterwards.

#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>

#include "live_server.h"

namespace maru {
namespace {

TEST(StoreRace, EveryInstanceHearsTrueAndOnePageWins) {
  const LiveServer server("64MiB");
  for (int instances = 2; instances <= 8; ++instances) {
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < instances; ++i) clients.push_back(server.Connect());
    const std::string key = "raced by " + std::to_string(instances);
    const std::vector<std::byte> bytes = BytesOf(key);
    std::barrier start(instances);
    std::atomic<int> stored{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < instances; ++i) {
      threads.emplace_back([&, i] {
        std::vector<Page> pages;
        const std::string twice = key + " twice";
        const std::vector<std::string_view> keys = {key, twice, twice};
        for (size_t n = 0; n < keys.size(); ++n) {
          pages.push_back(clients[i]->Alloc(bytes.size()).value());
          std::copy(bytes.begin(), bytes.end(), pages.back().data());
        }
        start.arrive_and_wait();
        const auto answers = clients[i]->BatchStore(keys, pages).value();
        if (answers == std::vector<bool>{true, true, true}) ++stored;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(stored, instances);
    uint64_t duplicates = 0;
    for (const auto& client : clients) {
      duplicates += client->statistics().duplicates;
      EXPECT_TRUE(Matches(client->Retrieve(key).value(), key));
      EXPECT_EQ(client->statistics().pages_held, 0u);
      EXPECT_EQ(client->statistics().pages_unknown, 0u);
    }
    EXPECT_EQ(duplicates, static_cast<uint64_t>(3 * instances - 2));
    EXPECT_TRUE(server.AuditIsClean());
  }
}

TEST(Store, AHandleIsConsumedOnce) {
  const LiveServer server("64MiB");
  const auto client = server.Connect();
  Page page = client->Alloc(10).value();
  EXPECT_TRUE(client->Store("key", std::move(page)).value());
  EXPECT_FALSE(page);
  EXPECT_EQ(client->Store("key", std::move(page)).status().code(), StatusCode::kInvalidArgument);
}

TEST(Store, APageOfAnotherServersClientStaysItsOwn) {
  const LiveServer here("64MiB"), there("64MiB");
  const auto client = here.Connect(), stranger = there.Connect();
  const auto written = [](Client& of, const std::string& text) {
    Page page = of.Alloc(text.size()).value();
    std::memcpy(page.data(), text.data(), text.size());
    return page;
  };
  Page strange = written(*stranger, "strange");
  std::vector<Page> pages;
  pages.push_back(written(*client, "own"));
  pages.push_back(std::move(strange));
  const std::vector<std::string_view> keys = {"own", "strange"};
  EXPECT_EQ(client->BatchStore(keys, pages).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Store("strange", std::move(pages[1])).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Free(std::move(pages[1])).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Hold(pages[1]).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client->BatchExists(keys).value(), (std::vector<bool>{false, false}));
  ASSERT_TRUE(pages[0] && pages[1]);
  EXPECT_TRUE(client->Store("own", std::move(pages[0])).value());
  EXPECT_TRUE(stranger->Store("strange", std::move(pages[1])).value());
  const View own = client->Retrieve("own").value(), theirs = stranger->Retrieve("strange").value();
  EXPECT_EQ(std::memcmp(own.bytes().data(), "own", 3), 0);
  EXPECT_EQ(std::memcmp(theirs.bytes().data(), "strange", 7), 0);
  EXPECT_TRUE(here.AuditIsClean() && there.AuditIsClean());
}

TEST(Free, GivesBackOnceAndSaysSoTheSecondTime) {
  const LiveServer server("64MiB");
  const auto client = server.Connect();
  Page page = client->Alloc(10).value();
  const PageAddress address = page.address();
  EXPECT_TRUE(client->Free(std::move(page)).ok());
  EXPECT_FALSE(page);
  EXPECT_EQ(client->statistics().pages_held, 0u);
  EXPECT_EQ(client->Free(std::move(page)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Free(address).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(client->Store("key", address, 10).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(client->Free({address.region_id + 1, 0}).code(), StatusCode::kNotFound);
}

TEST(Free, ByItsAddressAPageIsTheLifeThatTheClientHadLast) {
  const LiveServer server("64MiB");
  const auto client = server.Connect();
  Page page = client->Alloc(10).value();
  std::memcpy(page.data(), "0123456789", 10);
  EXPECT_TRUE(client->Store("key", page.address(), 10).value());
  EXPECT_EQ(client->Store("other", std::move(page)).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(client->Free(std::move(page)).code(), StatusCode::kFailedPrecondition);
  const PageAddress address = page.address();
  {
    const Page dropped(std::move(page));
  }
  const View view = client->Retrieve("key").value();
  ASSERT_EQ(view.bytes().size(), 10u);
  EXPECT_EQ(std::memcmp(view.bytes().data(), "0123456789", 10), 0);
  // Stored: the key goes with it, unless it is pinned.
  EXPECT_TRUE(client->Pin("key").value());
  EXPECT_EQ(client->Free(address).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(client->Unpin("key").value());
  EXPECT_TRUE(client->Free(address).ok());
  EXPECT_FALSE(client->Exists("key").value());
  EXPECT_EQ(client->Free(address).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(server.AuditIsClean());
}

TEST(Store, TheCommonAllocCostsNoMessage) {
  const LiveServer server("64MiB");
  const auto client = server.Connect();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client->Put("key-" + std::to_string(i), BytesOf("x")).value());
  }
  EXPECT_EQ(client->statistics().allocs, 100u);
  EXPECT_LE(client->statistics().alloc_messages, 3u);
}

TEST(Store, AServerThatDiesInBetweenCostsNoPage) {
  LiveServer server("64MiB");
  const auto client = server.Connect();
  for (int round = 0; round < 5; ++round) {
    std::vector<Page> pages;
    for (int i = 0; i < 4; ++i) pages.push_back(client->Alloc(64).value());
    server.End(SIGKILL);
    const std::vector<std::string_view> keys = {"a", "b", "c", "d"};
    // Nobody answers: all False, or an error and nothing consumed.
    const auto stored = client->BatchStore(keys, pages);
    EXPECT_EQ(stored.value_or(std::vector<bool>(4, false)), std::vector<bool>(4, false));
    server.Start();
    const std::string key = "after round " + std::to_string(round);
    EXPECT_TRUE(client->Put(key, BytesOf(key)).value());
    EXPECT_TRUE(Matches(client->Retrieve(key).value(), key));
    pages.clear();
    EXPECT_TRUE(server.AuditIsClean());
  }
  EXPECT_EQ(client->statistics().reconnects, 5u);
  EXPECT_EQ(client->statistics().pages_held, 0u);
}

TEST(Store, AnotherPoolAtTheSameSocketIsMappedAndOldHandlesAreStale) {
  LiveServer server("64MiB");
  const auto client = server.Connect();
  ASSERT_TRUE(client->Put("key", BytesOf("key")).value());
  View view = client->Retrieve("key").value();
  Page page = client->Alloc(64).value();
  server.End(SIGTERM);
  server.StartFresh();
  // The page in hand was the old pool's: this store is refused, and the client has seen why.
  EXPECT_FALSE(client->Put("new", BytesOf("new")).value());
  EXPECT_TRUE(client->Put("new", BytesOf("new")).value());
  EXPECT_FALSE(client->Exists("key").value());
  EXPECT_TRUE(Matches(view, "key"));
  view.Release();
  // It may be written to all the same: who holds it need not know that the server came back.
  std::memset(page.data(), 'x', page.size_bytes());
  EXPECT_EQ(page.data()[63], std::byte{'x'});
  EXPECT_EQ(client->Store("old", std::move(page)).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Matches(client->Retrieve("new").value(), "new"));
  EXPECT_TRUE(server.AuditIsClean());
}

TEST(Store, APageThatOutlivesItsClientIsNobodyElses) {
  LiveServer server("32MiB", {"--eviction", "none"});
  ClientOptions options = server.Options("closed");
  options.page_bytes = 64 * 1024;
  auto client = server.Connect(options);
  Page page = client->Alloc(64).value();
  Page closed_first = client->Alloc(64).value();
  client->Close();
  options.label = "other";
  const auto other = server.Connect(options);
  std::vector<std::string> keys;
  while (
      other->Put("key-" + std::to_string(keys.size()), BytesOf("x", 64 * 1024)).value_or(false)) {
    keys.push_back("key-" + std::to_string(keys.size()));
  }
  ASSERT_GT(keys.size(), 100u);
  std::memset(page.data(), 'w', page.size_bytes());
  client.reset();
  std::memset(closed_first.data(), 'w', page.size_bytes());
  for (const std::string& key : keys) EXPECT_TRUE(Matches(other->Retrieve(key).value(), "x"));
  EXPECT_TRUE(server.AuditIsClean());
  EXPECT_EQ(server.CountInClients("\"closed\""), 1u);
  // With the last of them the client is gone, and its pages come back.
  {
    const Page dropped(std::move(page));
  }
  {
    const Page dropped(std::move(closed_first));
  }
  server.AwaitGone({"closed"});
  Await(
      "pages of a client that is gone come back",
      [&] { return other->Put("room", BytesOf("room", 64 * 1024)).value_or(false); }, kManyLooks);
  EXPECT_TRUE(server.AuditIsClean());
}

TEST(Limits, AreNamed) {
  const LiveServer server("64MiB");
  const auto client = server.Connect();
  for (const uint64_t size : {uint64_t{0}, uint64_t{4097}, ~uint64_t{0}}) {
    const Status status = client->Alloc(size).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(std::to_string(size)), std::string::npos) << status.message();
  }
  const std::string over(65537, 'x');
  EXPECT_EQ(client->Exists(over).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Put(over, BytesOf("x")).status().code(), StatusCode::kInvalidArgument);
  const std::string most(65536, 'x');
  EXPECT_TRUE(client->Put(most, BytesOf("x")).value());
  EXPECT_TRUE(client->Exists(most).value());
  EXPECT_TRUE(client->Put(std::string("\0\xFF/@", 4), BytesOf("x")).value());
  EXPECT_FALSE(client->Exists(std::string("\0\xFF/", 3)).value());
}

TEST(Limits, AMillionKeysInOneBatch) {
  const LiveServer server("64MiB");
  const auto client = server.Connect();
  std::vector<std::string> keys;
  for (int i = 0; i < 1'000'000; ++i) keys.push_back("missing-" + std::to_string(i));
  keys[777] = "there";
  ASSERT_TRUE(client->Put("there", BytesOf("there")).value());
  const std::vector<std::string_view> texts(keys.begin(), keys.end());
  const auto exist = client->BatchExists(texts).value();
  EXPECT_EQ(std::count(exist.begin(), exist.end(), true), 1);
  EXPECT_TRUE(exist[777]);
  const auto deleted = client->BatchDelete(texts).value();
  ASSERT_EQ(deleted.size(), keys.size());
  EXPECT_EQ(deleted[777], Deleted::kDeleted);
  EXPECT_EQ(std::count(deleted.begin(), deleted.end(), Deleted::kMissing), 999'999);
}

TEST(Clients, TwoWithOneLabelAreTwo) {
  const LiveServer server("64MiB");
  const auto one = server.Connect("same");
  const auto other = server.Connect("same");
  ASSERT_TRUE(one->Put("key", BytesOf("key")).value());
  EXPECT_TRUE(other->Pin("key").value());
  EXPECT_FALSE(one->Unpin("key").value());
  EXPECT_EQ(server.CountInClients("\"same\""), 2u);
}

}  // namespace
}  // namespace maru
