// Batches far beyond one frame: split by the client, in the order of the keys.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "layout/geometry.h"
#include "live_server.h"
#include "wire/messages.h"

namespace maru {
namespace {

std::vector<Page> AllocAll(Client* client, size_t count) {
  std::vector<Page> pages;
  pages.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    Result<Page> page = client->Alloc(sizeof(i));
    EXPECT_TRUE(page.ok()) << i << ": " << page.status().ToString();
    if (!page.ok()) break;
    std::memcpy(page->data(), &i, sizeof(i));
    pages.push_back(std::move(*page));
  }
  return pages;
}

size_t TrueOnes(const std::vector<bool>& answers) {
  return static_cast<size_t>(std::count(answers.begin(), answers.end(), true));
}

TEST(LargeBatch, AMillionKeysAreStoredByOneCall) {
  constexpr size_t kKeys = 1'000'000;
  const LiveServer server("1536MiB");
  ClientOptions options = server.Options();
  options.page_bytes = 512;
  const auto client = server.Connect(options);
  std::vector<std::string> names;
  names.reserve(kKeys);
  for (size_t i = 0; i < kKeys; ++i) names.push_back("k" + std::to_string(i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<Page> pages = AllocAll(client.get(), kKeys);
  ASSERT_EQ(pages.size(), kKeys);
  EXPECT_EQ(client->statistics().pages_held, kKeys);

  const auto stored = client->BatchStore(keys, pages);
  ASSERT_TRUE(stored.ok()) << stored.status().ToString();
  ASSERT_EQ(stored->size(), kKeys);
  EXPECT_EQ(TrueOnes(*stored), kKeys);
  EXPECT_EQ(std::count_if(pages.begin(), pages.end(), [](const Page& page) { return bool{page}; }),
            0);
  EXPECT_EQ(client->statistics().pages_held, 0u);
  EXPECT_EQ(client->statistics().pages_unknown, 0u);

  EXPECT_EQ(TrueOnes(client->BatchExists(keys).value()), kKeys);
  EXPECT_EQ(client->MatchPrefix(keys).value(), kKeys);
  for (size_t i = 0; i < kKeys; i += 997) {
    const View view = client->Retrieve(keys[i]).value();
    ASSERT_EQ(view.bytes().size(), sizeof(i));
    EXPECT_EQ(std::memcmp(view.bytes().data(), &i, sizeof(i)), 0) << i;
  }
  EXPECT_TRUE(server.AuditIsClean());
}

TEST(LargeBatch, KeysOfTheLongestNamesFillManyFrames) {
  constexpr size_t kKeys = 40;
  const LiveServer server("256MiB");
  const auto client = server.Connect();
  // Together twenty times what a frame holds; one is over the limit of a key, in their midst.
  std::vector<std::string> names;
  for (size_t i = 0; i < kKeys; ++i) {
    std::string name = std::to_string(i) + "/";
    name.resize(layout::kKeyBytesMax + (i == 7 ? 1 : 0), 'x');
    names.push_back(std::move(name));
  }
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<Page> pages = AllocAll(client.get(), kKeys);
  const auto stored = client->BatchStore(keys, pages);
  ASSERT_TRUE(stored.ok()) << stored.status().ToString();
  for (size_t i = 0; i < kKeys; ++i) EXPECT_EQ((*stored)[i], i != 7) << i;
  EXPECT_EQ(client->statistics().pages_held, 0u);
  for (size_t i = 0; i < kKeys; ++i) {
    if (i == 7) continue;
    const View view = client->Retrieve(keys[i]).value();
    ASSERT_EQ(view.bytes().size(), sizeof(i));
    EXPECT_EQ(std::memcmp(view.bytes().data(), &i, sizeof(i)), 0) << i;
  }
  EXPECT_TRUE(server.AuditIsClean());
}

TEST(LargeBatch, OneMoreThanAFrameTakesIsInTheNext) {
  // What ends a frame is the bytes of the entries of a store, also of the shortest keys, and the
  // number of the keys of a deletion.
  constexpr size_t kKeys = 2 * wire::kKeysPerMessageMax + 1;
  const LiveServer server("64MiB");
  ClientOptions options = server.Options();
  options.page_bytes = 512;
  const auto client = server.Connect(options);
  std::vector<std::string> names;
  for (size_t i = 0; i < kKeys; ++i) names.push_back(std::to_string(i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<Page> pages = AllocAll(client.get(), kKeys);
  ASSERT_EQ(pages.size(), kKeys);
  EXPECT_EQ(TrueOnes(client->BatchStore(keys, pages).value()), kKeys);
  EXPECT_EQ(client->MatchPrefix(keys).value(), kKeys);
  const auto deleted = client->BatchDelete(keys);
  ASSERT_TRUE(deleted.ok()) << deleted.status().ToString();
  EXPECT_EQ(std::count(deleted->begin(), deleted->end(), Deleted::kDeleted), kKeys);
  EXPECT_EQ(TrueOnes(client->BatchExists(keys).value()), 0u);
  EXPECT_TRUE(server.AuditIsClean());
}

// The server brings its memory in little by little and answers others in between.
TEST(LargePage, ComesAfterSomeAnswersWithoutOne) {
  const LiveServer server("1GiB");
  ClientOptions options = server.Options();
  options.page_bytes = 40 << 20;
  const auto client = server.Connect(options);
  Result<Page> page = client->Alloc(options.page_bytes);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_LE(client->statistics().alloc_messages, options.page_bytes / layout::kUnitBytes + 1);
  std::memset(page->data(), 7, options.page_bytes);
  EXPECT_TRUE(client->Store("large", std::move(*page)).value());
  EXPECT_EQ(client->Retrieve("large").value().bytes().size(), options.page_bytes);
  EXPECT_TRUE(server.AuditIsClean());
}

}  // namespace
}  // namespace maru
