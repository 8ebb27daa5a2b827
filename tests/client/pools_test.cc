// A server that comes back with other pools than it had, or with the same in another order, while
// clients live: no crash, no key shows another's bytes, no page is lost.

#include <cstring>

#include "base/test_log.h"
#include "live_server.h"

namespace maru {
namespace {

constexpr uint64_t kPageBytes = 64 * 1024;

struct Change {
  LiveServer::Pools before, after;
};

void PrintTo(const Change& change, std::ostream* out) {
  const auto print = [out](const LiveServer::Pools& pools) {
    for (const size_t pool : pools) *out << pool;
  };
  print(change.before);
  *out << " to ";
  print(change.after);
}

class PoolSets : public testing::TestWithParam<Change> {
 protected:
  std::unique_ptr<Client> Connect(const std::string& label) const {
    ClientOptions options = server_.Options(label);
    options.page_bytes = kPageBytes;
    options.hand_bytes_max = 16 * kPageBytes;
    return server_.Connect(options);
  }
  static bool Put(Client& client, const std::string& key) {
    return client.Put(key, BytesOf(key, kPageBytes)).value_or(false);
  }
  // So many that every pool has some.
  void Fill(Client& client) {
    for (std::string key = "key-0"; Put(client, key); key = "key-" + std::to_string(keys_.size())) {
      keys_.push_back(key);
    }
    // And room again, in every pool.
    for (size_t i = 0; i < keys_.size(); i += 2) ASSERT_TRUE(client.Delete(keys_[i]).ok());
  }
  // How many are there; each has its own bytes.
  size_t CountKeys(Client& client) const {
    size_t count = 0;
    for (const std::string& key : keys_) {
      const View view = client.Retrieve(key).value();
      if (!view) continue;
      ++count;
      EXPECT_EQ(view.bytes().size(), kPageBytes);
      EXPECT_TRUE(Matches(view, key)) << key;
    }
    return count;
  }
  // As many as are in hand and more, so that some lie in each pool.
  static std::vector<Page> Take(Client& client) {
    std::vector<Page> pages;
    for (int i = 0; i < 100; ++i) {
      pages.push_back(client.Alloc(kPageBytes).value());
      std::memset(pages.back().data(), 'w', kPageBytes);
    }
    return pages;
  }
  // Written to whatever happened, and either still storable or told to be over.
  static size_t StoreAll(Client& client, std::vector<Page>& pages) {
    size_t stored = 0;
    for (size_t i = 0; i < pages.size(); ++i) {
      const std::string key = "held-" + std::to_string(i);
      const auto bytes = BytesOf(key, kPageBytes);
      std::memcpy(pages[i].data(), bytes.data(), bytes.size());
      const Result<bool> done = client.Store(key, std::move(pages[i]));
      if (!done.ok()) {
        EXPECT_EQ(done.status().code(), StatusCode::kFailedPrecondition);
        continue;
      }
      stored += *done ? 1 : 0;
      const View view = client.Retrieve(key).value();
      EXPECT_EQ(static_cast<bool>(view), *done) << key;
      EXPECT_TRUE(!*done || Matches(view, key)) << key;
    }
    return stored;
  }

  LiveServer server_{"32MiB", {"--eviction", "none"}, GetParam().before};
  std::vector<std::string> keys_;
};

TEST_P(PoolSets, ChangeUnderLivingClients) {
  auto one = Connect("one");
  auto idle = Connect("idle");
  Fill(*one);
  std::vector<Page> pages = Take(*one);
  std::vector<Page> idle_pages = Take(*idle);
  const std::vector<std::string_view> texts(keys_.begin(), keys_.end());
  std::vector<View> views = one->BatchRetrieve(texts).value();
  const size_t before = CountKeys(*one);
  server_.End(SIGKILL);
  server_.StartOn(GetParam().after);

  EXPECT_TRUE(one->Ping().ok());
  const auto fresh = Connect("fresh");
  const size_t there = CountKeys(*fresh);
  EXPECT_EQ(CountKeys(*one), there);
  EXPECT_GT(there, 0u);
  for (size_t i = 0; i < keys_.size(); ++i) {
    EXPECT_TRUE(!views[i] || Matches(views[i], keys_[i])) << keys_[i];
  }
  const bool same = GetParam().after == GetParam().before;
  const size_t stored = StoreAll(*one, pages);
  EXPECT_EQ(stored, same ? 100u : 0u);
  EXPECT_TRUE(Put(*one, "new"));
  EXPECT_TRUE(Put(*fresh, "newer"));
  // What it holds it may write to, though it has not been told of the change yet.
  for (Page& page : idle_pages) std::memset(page.data(), 'i', kPageBytes);
  EXPECT_EQ(CountKeys(*fresh), there);
  EXPECT_TRUE(Matches(one->Retrieve("new").value(), "new"));
  EXPECT_TRUE(Matches(one->Retrieve("newer").value(), "newer"));
  EXPECT_TRUE(server_.AuditIsClean());

  // With all pools again: every key is what it was, and every page is somebody's.
  server_.End(SIGKILL);
  LiveServer::Pools all = GetParam().before;
  for (const size_t pool : GetParam().after) {
    if (std::find(all.begin(), all.end(), pool) == all.end()) all.push_back(pool);
  }
  server_.StartOn(all);
  EXPECT_TRUE(idle->Ping().ok());
  EXPECT_EQ(CountKeys(*idle), before);
  // With the last that holds anything of them the clients are gone.
  idle.reset();
  one.reset();
  views.clear();
  pages.clear();
  idle_pages.clear();
  server_.AwaitGone({"one", "idle"});
  EXPECT_TRUE(server_.AuditIsClean());
}

INSTANTIATE_TEST_SUITE_P(Pools, PoolSets,
                         testing::Values(Change{{0, 1, 2}, {0, 1, 2}}, Change{{0, 1, 2}, {0, 2, 1}},
                                         Change{{0, 1, 2}, {2, 1, 0}}, Change{{0, 1, 2}, {0, 1}},
                                         Change{{0, 1, 2}, {2}}, Change{{0, 1}, {1, 0}},
                                         Change{{0, 1}, {0, 1, 2}}, Change{{0, 1}, {2, 0, 1}},
                                         Change{{0, 1}, {1}}));

// Two pools that were served apart, to clients that had the same id and the same place there.
TEST(PoolsServedApart, ServedTogetherAreNotTakenForOneAnothers) {
  LiveServer server("32MiB", {}, {0});
  const auto left = server.Connect("left");
  ASSERT_TRUE(left->Put("left", BytesOf("left")).value());
  Page left_page = left->Alloc(64).value();
  server.End(SIGKILL);
  server.StartOn({1});
  const auto right = server.Connect("right");
  ASSERT_TRUE(right->Put("right", BytesOf("right")).value());
  Page right_page = right->Alloc(64).value();
  server.End(SIGKILL);
  server.StartOn({0, 1});
  for (Client* const client : {left.get(), right.get()}) {
    EXPECT_TRUE(client->Ping().ok());
    EXPECT_TRUE(Matches(client->Retrieve("left").value(), "left"));
    EXPECT_TRUE(Matches(client->Retrieve("right").value(), "right"));
  }
  EXPECT_EQ(left->Store("x", std::move(left_page)).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(right->Store("x", std::move(right_page)).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(left->Put("more", BytesOf("more")).value());
  EXPECT_TRUE(Matches(right->Retrieve("more").value(), "more"));
  EXPECT_TRUE(server.AuditIsClean());
}

// A pool and its copy: their keys, clients and pages are the same, but for what came since.
TEST(CopiedPools, SwappedUnderALivingClientAreNotTakenForOneAnother) {
  LiveServer server("32MiB", {"--eviction", "none"}, {0});
  ASSERT_TRUE(server.Connect("old")->Put("old", BytesOf("old")).value());
  server.End(SIGTERM);
  server.Copy(0, 1);
  server.StartOn({0, 1});
  const auto client = server.Connect("client"), other = server.Connect("other");
  const auto put = [&other](int i) {
    const std::string key = "other-" + std::to_string(i);
    return other->Put(key, BytesOf(key)).value();
  };
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(put(i));
  std::vector<Page> pages;
  for (int i = 0; i < 16; ++i) pages.push_back(client->Alloc(64).value());
  server.End(SIGKILL);
  server.StartOn({1, 0});
  EXPECT_TRUE(client->Ping().ok());
  for (Page& page : pages) {
    EXPECT_EQ(client->Store("x", std::move(page)).status().code(), StatusCode::kFailedPrecondition);
  }
  for (int i = 0; i < 16; ++i) {
    const std::string key = "new-" + std::to_string(i);
    ASSERT_TRUE(client->Put(key, BytesOf(key)).value());
  }
  const auto fresh = server.Connect("fresh");
  for (Client* const reader : {client.get(), other.get(), fresh.get()}) {
    EXPECT_TRUE(Matches(reader->Retrieve("old").value(), "old"));
    for (int i = 0; i < 16; ++i) {
      const std::string key = std::to_string(i);
      EXPECT_TRUE(Matches(reader->Retrieve("other-" + key).value(), "other-" + key)) << key;
      EXPECT_TRUE(Matches(reader->Retrieve("new-" + key).value(), "new-" + key)) << key;
    }
  }
  EXPECT_TRUE(server.AuditIsClean());
}

TEST(PinsLost, AreToldOnce) {
  const RecordedLog log(LogLevel::kWarning);
  LiveServer server("32MiB", {}, {0, 1});
  const auto client = server.Connect("pinning");
  for (const char* const key : {"a", "b"}) {
    ASSERT_TRUE(client->Put(key, BytesOf(key)).value());
    ASSERT_TRUE(client->Pin(key).value());
  }
  server.End(SIGKILL);
  server.StartOn({1, 0});
  EXPECT_TRUE(client->Ping().ok());
  EXPECT_EQ(client->statistics().pins, 0u);
  EXPECT_TRUE(client->Ping().ok());
  const std::vector<std::string> told = log.LinesWith("pins are lost");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("its 2 pins are lost"), std::string::npos) << told[0];
  Await(
      "pins end when the lock that the server looks at is free",
      [&] { return client->Delete("a").value() != Deleted::kPinned; }, kManyLooks);
  EXPECT_FALSE(client->Exists("a").value());
}

}  // namespace
}  // namespace maru
