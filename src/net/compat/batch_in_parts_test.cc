#include "net/compat/batch_in_parts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace maru::net::compat {
namespace {

using wire::compat::BatchLookupReply;
using wire::compat::BatchRegisterReply;
using wire::compat::ErrorReply;
using wire::compat::KeysRequest;
using wire::compat::LookupReply;
using wire::compat::MetadataRequest;
using wire::compat::MetadataType;
using wire::compat::RegisterRequest;
using wire::compat::ReportStatsRequest;
using wire::compat::ResultsReply;
using wire::compat::SuccessReply;

constexpr size_t kItems = 2 * BatchInParts::kItemsMax + 5;

MetadataRequest Keys(size_t count) {
  return KeysRequest{std::vector<std::string_view>(count, "key")};
}

TEST(BatchInParts, LeavesWhatOnePartHolds) {
  MetadataRequest request = Keys(BatchInParts::kItemsMax);
  EXPECT_EQ(BatchInParts::Cut(MetadataType::kBatchExists, &request), nullptr);
  EXPECT_EQ(std::get<KeysRequest>(request).keys.size(), BatchInParts::kItemsMax);
  request = wire::compat::PlainRequest{};
  EXPECT_EQ(BatchInParts::Cut(MetadataType::kGetStats, &request), nullptr);
}

TEST(BatchInParts, GivesEachEntryOnceAndJoinsTheReplies) {
  RegisterRequest all;
  for (size_t i = 0; i < kItems; ++i) all.entries.push_back({"key", i, 2, 3});
  MetadataRequest request = all;
  const auto batch = BatchInParts::Cut(MetadataType::kBatchRegister, &request);
  uint64_t next = 0;
  while (!batch->done()) {
    const MetadataRequest part = batch->Next();
    BatchRegisterReply reply;
    for (const auto& entry : std::get<RegisterRequest>(part).entries) {
      EXPECT_EQ(entry.region_id, next);
      reply.results.push_back(next++ % 7 == 0);
    }
    EXPECT_LE(reply.results.size(), BatchInParts::kItemsMax);
    batch->Take(reply);
  }
  const auto whole = std::get<BatchRegisterReply>(batch->Whole());
  ASSERT_EQ(whole.results.size(), kItems);
  for (size_t i = 0; i < kItems; ++i) EXPECT_EQ(whole.results[i], i % 7 == 0) << i;
  EXPECT_TRUE(whole.success);
}

TEST(BatchInParts, JoinsLookupsAndReports) {
  MetadataRequest request = Keys(kItems);
  const auto lookups = BatchInParts::Cut(MetadataType::kBatchLookup, &request);
  for (uint64_t part = 1; !lookups->done(); ++part) {
    const size_t keys = std::get<KeysRequest>(lookups->Next()).keys.size();
    const LookupReply found{wire::compat::Location{{}, part, 0}};
    lookups->Take(BatchLookupReply{std::vector<LookupReply>(keys, found)});
  }
  const auto found = std::get<BatchLookupReply>(lookups->Whole());
  ASSERT_EQ(found.entries.size(), kItems);
  EXPECT_EQ(found.entries.front().location->offset_bytes, 1u);
  EXPECT_EQ(found.entries.back().location->offset_bytes, 3u);

  request = ReportStatsRequest{std::vector<wire::compat::StatsEntry>(kItems)};
  const auto report = BatchInParts::Cut(MetadataType::kReportStats, &request);
  size_t entries = 0;
  while (!report->done()) {
    entries += std::get<ReportStatsRequest>(report->Next()).entries.size();
    report->Take(SuccessReply{true, ""});
  }
  EXPECT_EQ(entries, kItems);
  EXPECT_TRUE(std::get<SuccessReply>(report->Whole()).success);
}

TEST(BatchInParts, CostsItsKeysTheirOwnTextsAndItsReply) {
  const auto cost = [](MetadataType type, MetadataRequest request) {
    return BatchInParts::Cut(type, &request)->cost_bytes();
  };
  const size_t views = kItems * sizeof(std::string_view);
  EXPECT_EQ(cost(MetadataType::kBatchLookup, Keys(kItems)), views + kItems * sizeof(LookupReply));
  EXPECT_EQ(cost(MetadataType::kBatchExists, Keys(kItems)), views + kItems / 8 + 1);
  KeysRequest numbers{std::vector<std::string_view>(kItems), {}};
  for (std::string_view& key : numbers.keys) key = numbers.own_texts.Keep("number");
  const size_t texts = numbers.own_texts.bytes();
  EXPECT_GE(texts, 6 * kItems);
  EXPECT_EQ(cost(MetadataType::kBatchPin, std::move(numbers)), views + texts + kItems / 8 + 1);
  // The service may copy the keys of a part, here of the second.
  RegisterRequest registers;
  registers.entries.resize(kItems, {"key", 1, 2, 3});
  const std::string long_key(1000, 'k');
  registers.entries[BatchInParts::kItemsMax].key = long_key;
  EXPECT_EQ(cost(MetadataType::kBatchRegister, std::move(registers)),
            kItems * sizeof(wire::compat::RegisterEntry) + kItems / 8 + 1 +
                3 * (BatchInParts::kItemsMax - 1) + long_key.size());
}

TEST(BatchInParts, PinsNoKeyBehindTheFirstMissingOne) {
  MetadataRequest request = Keys(kItems);
  const auto batch = BatchInParts::Cut(MetadataType::kBatchPin, &request);
  batch->Take(ResultsReply{std::vector<bool>(BatchInParts::kItemsMax, true)});
  ASSERT_FALSE(batch->done());
  ResultsReply second{std::vector<bool>(BatchInParts::kItemsMax, false)};
  second.results[0] = true;
  batch->Take(second);
  EXPECT_TRUE(batch->done()) << "the third part is not asked";
  const auto whole = std::get<ResultsReply>(batch->Whole());
  ASSERT_EQ(whole.results.size(), kItems);
  for (size_t i = 0; i < kItems; ++i) {
    EXPECT_EQ(whole.results[i], i <= BatchInParts::kItemsMax) << i;
  }
}

TEST(BatchInParts, AnErrorIsThatOfTheWhole) {
  MetadataRequest request = Keys(kItems);
  const auto batch = BatchInParts::Cut(MetadataType::kBatchExists, &request);
  batch->Take(ResultsReply{std::vector<bool>(BatchInParts::kItemsMax, true)});
  batch->Take(ErrorReply{"why"});
  EXPECT_TRUE(batch->done());
  EXPECT_EQ(std::get<ErrorReply>(batch->Whole()).error, "why");
}

}  // namespace
}  // namespace maru::net::compat
