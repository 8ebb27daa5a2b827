#include "engine/touches.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/test_engine.h"

namespace maru::engine {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kPage = 4096;

uint64_t TouchesTaken(TestEngine* host, const TestClient& client) {
  wire::Reply reply;
  MARU_CHECK_OK(host->Ask(client.connection(), wire::InspectRequest{}, &reply));
  const auto json = nlohmann::json::parse(std::get<wire::InspectReply>(reply).json);
  return json.at("counters").at("touches").get<uint64_t>();
}

TEST(TouchesTest, ARoundIsBoundedInEachStepAndLeavesNoRingOut) {
  TestEngine host;
  TestClient writer(&host);
  writer.Put("key", kPage);
  const RecordNumber record = writer.Find("key").page.record;
  std::vector<std::unique_ptr<TestClient>> readers;
  for (int i = 0; i < 9; ++i) readers.push_back(std::make_unique<TestClient>(&host));
  host.Tick();  // the round at the start
  const uint64_t before = TouchesTaken(&host, writer);

  const auto fill = [&] {
    for (const auto& reader : readers) {
      for (uint32_t i = 0; i < layout::kTouchRingEntries; ++i) reader->leases().Touch(record);
    }
  };
  constexpr uint64_t kBound = Touches::kPerStep + layout::kTouchRingEntries;
  host.Advance(2 * kSecond);
  uint64_t taken = before;
  int steps = 0;
  uint64_t wake_ns = host.now_ns();
  for (; taken < before + readers.size() * layout::kTouchRingEntries && steps < 100; ++steps) {
    host.Advance(wake_ns - host.now_ns());
    fill();  // rings that fill up while others wait do not delay them
    wake_ns = host.Tick();
    const uint64_t now_taken = TouchesTaken(&host, writer);
    EXPECT_LE(now_taken - taken, kBound);
    EXPECT_GT(now_taken, taken);
    taken = now_taken;
    ASSERT_GT(wake_ns, host.now_ns());
  }
  EXPECT_EQ(taken, before + readers.size() * layout::kTouchRingEntries) << "each ring once";
  EXPECT_GT(steps, 1);
  // The next round begins a second after the end of this one.
  fill();
  host.Advance(kSecond / 2);
  host.Tick();
  EXPECT_EQ(TouchesTaken(&host, writer), taken);
  host.Advance(kSecond);
  host.Tick();
  EXPECT_GT(TouchesTaken(&host, writer), taken);
  EXPECT_EQ(Offenders(host.engine()), "");
}

}  // namespace
}  // namespace maru::engine
