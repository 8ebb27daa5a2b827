// Registers over many live extents: some go in each step, with others' requests between.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/metadata.h"
#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

class RegisterStepsTest : public testing::Test {
 protected:
  static constexpr uint64_t kGrain = 64;
  // Over all that one step takes, the first one's and two more.
  static constexpr uint64_t kKeys =
      2 * Metadata::kOverwritesPerStep + Metadata::kOverwritesFirst + 10;

  RegisterStepsTest() {
    for (uint64_t i = 0; i < kKeys; ++i) {
      EXPECT_TRUE(client_.Register(Name(i), region_, i * kGrain, kGrain));
    }
  }
  ~RegisterStepsTest() override { EXPECT_EQ(Offenders(host_.engine()), ""); }

  static std::string Name(uint64_t i) { return "key" + std::to_string(i); }
  uint64_t Left() { return client_.Stats().keys; }
  // REQUIRES: it takes several steps.
  uint64_t Begin(MetadataType type, compat::RegisterRequest request) {
    compat::MetadataReply reply;
    const uint64_t number = client_.Begin(type, request, &reply);
    EXPECT_NE(number, 0u);
    return number;
  }
  std::optional<compat::MetadataReply> GoOn(uint64_t number) {
    return host_->GoOnMetadata(number, host_.now_ns());
  }
  // The number of further steps.
  template <typename Reply>
  int Finish(uint64_t number, Reply* reply) {
    for (int steps = 1;; ++steps) {
      const uint64_t left = Left();
      const auto done = GoOn(number);
      EXPECT_LE(left - Left(), Metadata::kOverwritesPerStep);
      if (!done.has_value()) continue;
      *reply = std::get<Reply>(*done);
      return steps;
    }
  }

  compat::RegisterEntry Entry(std::string_view name, uint64_t grain, uint64_t grains = 1) const {
    return {name, region_, grain * kGrain, grains * kGrain};
  }
  // How often the lease areas were read from end to end.
  uint64_t Scans() {
    const auto reply =
        ours_.Ask<wire::InspectReply>(wire::InspectRequest{wire::InspectTopic::kSummary, 0});
    return nlohmann::json::parse(reply.json).at("counters").at("lease_scans");
  }

  TestEngine host_{{.pools = {64 * kMiB}}};
  UpstreamClient client_{&host_, "a"};
  TestClient ours_{&host_};
  const uint64_t region_ = client_.Alloc();
};

TEST_F(RegisterStepsTest, OneOverManyIsAnsweredWhenAllHaveGone) {
  std::string name = "large";
  const uint64_t number =
      Begin(MetadataType::kRegister, {{{name, region_, 0, kKeys * kGrain}}, {}});
  name = "moved";  // the request's texts live no longer
  EXPECT_LT(Left(), kKeys);
  EXPECT_FALSE(client_.Exists("large"));
  EXPECT_TRUE(client_.Exists(Name(kKeys - 1)));
  compat::RegisterReply reply;
  EXPECT_EQ(Finish(number, &reply), 3);
  EXPECT_TRUE(reply.is_new);
  EXPECT_EQ(Left(), 1u);
  EXPECT_EQ(client_.Lookup("large")->length_bytes, kKeys * kGrain);
}

TEST_F(RegisterStepsTest, OneOfABatchGoesOnWhereItWas) {
  const uint64_t half = kKeys / 2 * kGrain;
  const uint64_t number = Begin(MetadataType::kBatchRegister, {{{"low", region_, 0, half},
                                                                {"none", 0, 0, 1},
                                                                {"high", region_, half, half},
                                                                {"low", region_, 0, half}}});
  compat::BatchRegisterReply reply;
  EXPECT_GT(Finish(number, &reply), 1);
  EXPECT_EQ(reply.results, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(Left(), 2u);
}

TEST_F(RegisterStepsTest, AllAtOnceIsTheSame) {
  EXPECT_TRUE(client_.Register("large", region_, 0, kKeys * kGrain));
  EXPECT_EQ(Left(), 1u);
}

TEST_F(RegisterStepsTest, TheKeysOwnExtentStays) {
  const std::string own = Name(0);
  const uint64_t number = Begin(MetadataType::kRegister, {{{own, region_, 0, kKeys * kGrain}}, {}});
  compat::RegisterReply reply;
  Finish(number, &reply);
  EXPECT_FALSE(reply.is_new);
  EXPECT_EQ(Left(), 1u);
  EXPECT_EQ(client_.Lookup(own)->length_bytes, kGrain);
}

// The scans read every lease of every client: one for RETIRING and one for CONDEMNED.
TEST_F(RegisterStepsTest, AsManyEntriesAsOneStepTakesCostTwoScans) {
  std::vector<std::string> names;
  for (uint64_t i = 0; i < 1024; ++i) names.push_back("new" + std::to_string(i));
  compat::RegisterRequest request;
  for (uint64_t i = 0; i < names.size(); ++i) request.entries.push_back(Entry(names[i], i));
  const uint64_t before = Scans();
  compat::MetadataReply reply;
  ASSERT_EQ(client_.Begin(MetadataType::kBatchRegister, request, &reply), 0u);
  EXPECT_EQ(std::get<compat::BatchRegisterReply>(reply).results, std::vector<bool>(1024, true));
  EXPECT_EQ(Scans() - before, 2u);
  EXPECT_EQ(Left(), kKeys);
}

TEST_F(RegisterStepsTest, EntriesOverEachOtherTakeFewScansAStep) {
  constexpr uint64_t kEntries = 10 * Metadata::kOverwriteRoundsPerStep;
  std::vector<std::string> names;
  for (uint64_t i = 0; i < kEntries; ++i) names.push_back("new" + std::to_string(i));
  compat::RegisterRequest request;
  for (uint64_t i = 0; i < kEntries; ++i) request.entries.push_back(Entry(names[i], i, 2));
  uint64_t before = Scans();
  const uint64_t number = Begin(MetadataType::kBatchRegister, request);
  while (true) {
    EXPECT_LE(Scans() - before, 2 * Metadata::kOverwriteRoundsPerStep);
    before = Scans();
    const auto done = GoOn(number);
    if (!done.has_value()) continue;
    EXPECT_EQ(std::get<compat::BatchRegisterReply>(*done).results,
              std::vector<bool>(kEntries, true));
    break;
  }
  EXPECT_FALSE(client_.Exists("new0"));
  EXPECT_TRUE(client_.Exists(names.back()));
}

TEST_F(RegisterStepsTest, ARegionThatIsReturnedMeanwhileTakesNoKey) {
  const uint64_t number =
      Begin(MetadataType::kRegister, {{{"large", region_, 0, kKeys * kGrain}}, {}});
  ASSERT_TRUE(client_.Return(region_));
  const uint64_t left = Left();
  compat::RegisterReply reply;
  EXPECT_EQ(Finish(number, &reply), 1);
  EXPECT_FALSE(reply.is_new);
  EXPECT_EQ(Left(), left);
}

TEST_F(RegisterStepsTest, WhatIsGivenUpHasNoKey) {
  const uint64_t number =
      Begin(MetadataType::kRegister, {{{"large", region_, 0, kKeys * kGrain}}, {}});
  EXPECT_FALSE(GoOn(number).has_value());
  host_->GiveUpMetadata(number, host_.now_ns());
  EXPECT_FALSE(client_.Exists("large"));
  EXPECT_TRUE(client_.Register("large", region_, 0, kKeys * kGrain));
}

}  // namespace
}  // namespace maru::engine
