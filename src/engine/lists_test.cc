#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "engine/json.h"
#include "engine/page_lists.h"
#include "engine/recency.h"
#include "engine/test_engine.h"

namespace maru::engine {
namespace {

std::vector<uint32_t> Records(const PageLists& lists, PageLists::Id list) {
  std::vector<uint32_t> records;
  for (RecordNumber at = lists.Front(list); at.value() != 0; at = lists.Next(at)) {
    records.push_back(at.value());
  }
  std::vector<uint32_t> backwards;
  for (RecordNumber at = lists.Back(list); at.value() != 0; at = lists.Prev(at)) {
    backwards.insert(backwards.begin(), at.value());
  }
  EXPECT_EQ(records, backwards);
  return records;
}

TEST(PageListsTest, KeepTheirOrder) {
  PageLists lists;
  lists.Cover(RecordNumber(100));
  const PageLists::Id a = lists.New(ListKind::kFree), b = lists.New(ListKind::kFree);
  EXPECT_TRUE(lists.Empty(a));
  EXPECT_EQ(lists.Front(a), RecordNumber(0));
  lists.PushBack(a, RecordNumber(1));
  lists.PushBack(a, RecordNumber(2));
  lists.PushFront(a, RecordNumber(3));
  lists.PushBefore(RecordNumber(2), RecordNumber(4));
  EXPECT_EQ(Records(lists, a), (std::vector<uint32_t>{3, 1, 4, 2}));
  lists.Remove(RecordNumber(1));
  EXPECT_FALSE(lists.Linked(RecordNumber(1)));
  EXPECT_TRUE(lists.Linked(RecordNumber(4)));
  lists.PushBack(b, RecordNumber(1));
  lists.Append(a, b);
  EXPECT_EQ(Records(lists, b), (std::vector<uint32_t>{1, 3, 4, 2}));
  EXPECT_TRUE(lists.Empty(a));
  lists.Append(a, b);
  EXPECT_EQ(Records(lists, b).size(), 4u);
  lists.Delete(a);
  EXPECT_EQ(lists.New(ListKind::kFree), a);
}

TEST(PageListsTest, TheNumberOfListsIsBounded) {
  PageLists lists;
  for (uint32_t i = 0; i < PageLists::kListsMax; ++i)
    ASSERT_NE(lists.New(ListKind::kFree).value(), 0u);
  EXPECT_EQ(lists.New(ListKind::kFree).value(), 0u);
}

TEST(PageListsTest, ACoveredRecordTakesEightBytes) {
  PageLists lists;
  lists.Cover(RecordNumber(1'000'000));
  EXPECT_LT(lists.heap_bytes(), 1'000'000u * 8 + 200'000);
}

TEST(RecencyTest, OrphansAreMergedInTheOrderOfUse) {
  // More dead owners than lists are kept for, their keys interleaved.
  TestEngine host;
  TestClient reader(&host);
  std::vector<std::unique_ptr<TestClient>> owners;
  for (uint32_t i = 0; i < 3 * Recency::kOrphanListsMax; ++i) {
    owners.push_back(std::make_unique<TestClient>(&host));
  }
  uint64_t keys = 0;
  for (int round = 0; round < 5; ++round) {
    for (size_t i = 0; i < owners.size(); ++i) {
      if ((i + round) % 3 != 0) owners[i]->Put("key" + std::to_string(keys++));
    }
  }
  for (const auto& owner : owners) owner->Die();
  EXPECT_EQ(Offenders(host.engine()), "");
  // They go in the order of their age, whoever stored them.
  uint64_t gone = 0;
  while (gone < keys) {
    while (host->Count(PoolIndex(0)).free > 0) reader.Grant(4096);
    if (!reader.TryGrant(4096).ok()) break;
    while (gone < keys && !reader.Exists("key" + std::to_string(gone))) ++gone;
    for (uint64_t i = gone; i < keys; ++i) {
      ASSERT_TRUE(reader.Exists("key" + std::to_string(i))) << i << " before " << gone;
    }
    if (gone > 20) break;
  }
  EXPECT_GT(gone, 20u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(JsonTest, WritesWhatAParserReads) {
  JsonWriter json;
  json.BeginObject().Field("text", "a\"b\\c\n\x7f").Field("number", ~uint64_t{0});
  json.Key("list").BeginArray().Number(1).BeginObject().EndObject().Null().Bool(true).EndArray();
  json.Key("empty").BeginArray().EndArray().EndObject();
  const auto parsed = nlohmann::json::parse(json.Take());
  EXPECT_EQ(parsed["text"], "a\"b\\c\n\x7f");
  EXPECT_EQ(parsed["number"], ~uint64_t{0});
  EXPECT_EQ(parsed["list"].dump(), "[1,{},null,true]");
  EXPECT_TRUE(parsed["empty"].empty());
}

TEST(JsonTest, AnyBytesBecomeValidText) {
  Random random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;
    for (uint64_t i = random.Below(8); i > 0; --i) {
      // Mostly bytes that matter to UTF-8.
      static constexpr uint8_t kEdges[] = {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1,
                                           0xc2, 0xdf, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff};
      bytes += static_cast<char>(random.OneIn(4) ? random.Below(256)
                                                 : kEdges[random.Below(sizeof(kEdges))]);
    }
    JsonWriter json;
    json.Text(bytes);
    // The parser refuses what is not UTF-8, and its dump does so too.
    const auto parsed = nlohmann::json::parse(json.Take());
    ASSERT_TRUE(parsed.is_string());
    // Valid bytes stay as they are.
    try {
      nlohmann::json(bytes).dump();
      EXPECT_EQ(parsed.get<std::string>(), bytes);
    } catch (const nlohmann::json::exception&) {
      EXPECT_NE(parsed.get<std::string>(), bytes);
    }
  }
}

}  // namespace
}  // namespace maru::engine
