#include "base/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/ids.h"
#include "maru/status.h"

namespace maru {
namespace {

// Turns failures into exceptions, as the simulator does.
class CheckTest : public testing::Test {
 protected:
  void SetUp() override {
    former_ = SetCheckHandler(
        [](const CheckFailure& failure) { throw std::runtime_error(failure.ToString()); });
  }
  void TearDown() override { SetCheckHandler(former_); }

  template <typename F>
  static std::string MessageOf(F&& body) {
    try {
      body();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

 private:
  CheckHandler former_ = nullptr;
};

TEST_F(CheckTest, PassingChecksDoNothing) {
  EXPECT_EQ(MessageOf([] {
              MARU_CHECK(true) << "unused";
              MARU_CHECK_EQ(2 + 2, 4) << "unused";
              MARU_CHECK_LT(1, 2);
            }),
            "");
}

TEST_F(CheckTest, FailureNamesPlaceConditionAndMessage) {
  const std::string text = MessageOf([] { MARU_CHECK(1 > 2) << "region " << RegionId(7) << '!'; });
  EXPECT_THAT(text, testing::HasSubstr("check_test.cc:"));
  EXPECT_THAT(text, testing::HasSubstr("check failed: 1 > 2 (region 7!)"));
}

TEST_F(CheckTest, ComparisonsShowBothValuesAndEvaluateOnce) {
  int calls = 0;
  const auto next = [&] { return ++calls; };
  const std::string text = MessageOf([&] { MARU_CHECK_EQ(next(), 5) << "pages"; });
  EXPECT_THAT(text, testing::HasSubstr("next() == 5, with 1 and 5 (pages)"));
  EXPECT_EQ(calls, 1);
  EXPECT_NE(MessageOf([] { MARU_CHECK_NE(1, 1); }), "");
  EXPECT_NE(MessageOf([] { MARU_CHECK_LT(1, 1); }), "");
  EXPECT_NE(MessageOf([] { MARU_CHECK_LE(2, 1); }), "");
  EXPECT_NE(MessageOf([] { MARU_CHECK_GT(1, 1); }), "");
  EXPECT_NE(MessageOf([] { MARU_CHECK_GE(1, 2); }), "");
}

TEST_F(CheckTest, ShowsEveryKindOfValue) {
  enum class Color : std::uint8_t { kRed = 3 };
  const std::string text = MessageOf([] {
    MARU_CHECK(false) << true << ' ' << Color::kRed << ' ' << std::string("text") << ' '
                      << NotFound("x") << ' ' << nullptr << ' ' << std::uint64_t{1} << ' '
                      << std::uint8_t{65};
  });
  EXPECT_THAT(text, testing::HasSubstr("(true 3 text NotFound: x null 1 65)"));
}

TEST_F(CheckTest, BindsToNoOtherElse) {
  bool other = false;
  if (false)
    MARU_CHECK_EQ(1, 2);
  else
    other = true;
  EXPECT_TRUE(other);
}

TEST_F(CheckTest, StatusCheckShowsTheStatus) {
  EXPECT_THAT(MessageOf([] { MARU_CHECK_OK(DataLoss("torn")); }),
              testing::HasSubstr("DataLoss: torn"));
}

TEST_F(CheckTest, DebugChecksCompileAlways) {
  const std::string text = MessageOf([] { MARU_DCHECK_EQ(1, 2) << "debug"; });
#ifdef NDEBUG
  EXPECT_EQ(text, "");
#else
  EXPECT_THAT(text, testing::HasSubstr("1 == 2, with 1 and 2 (debug)"));
#endif
}

TEST(CheckDeathTest, DefaultHandlerWritesAndAborts) {
  EXPECT_EXIT(
      { MARU_CHECK(false) << "why"; }, testing::KilledBySignal(SIGABRT),
      "check failed: false \\(why\\)");
}

TEST(CheckDeathTest, HandlerThatReturnsStillAborts) {
  EXPECT_EXIT(
      {
        SetCheckHandler([](const CheckFailure&) {});
        MARU_CHECK(false);
      },
      testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace maru
