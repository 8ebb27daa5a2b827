#include "maru/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "maru/result.h"

namespace maru {
namespace {

static_assert(sizeof(Status) == sizeof(void*), "an OK status is one null pointer");

TEST(Status, OkHasNoMessage) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.ToString(), "OK");
  EXPECT_EQ(Status(StatusCode::kOk, "dropped"), OkStatus());
}

TEST(Status, CopiesKeepCodeAndMessage) {
  const Status first = NotFound("no key \"a\"");
  Status second = first;
  EXPECT_EQ(second, first);
  second = DataLoss("torn");
  EXPECT_EQ(first.ToString(), "NotFound: no key \"a\"");
  EXPECT_EQ(second.ToString(), "DataLoss: torn");
  second = OkStatus();
  EXPECT_TRUE(second.ok());
  Status third = first;
  const Status& same = third;
  third = same;
  EXPECT_EQ(third, first);
}

TEST(Status, EachMakerHasItsCodeAndName) {
  const std::vector<Status> all = {OkStatus(),
                                   InvalidArgument("m"),
                                   FailedPrecondition("m"),
                                   NotFound("m"),
                                   ResourceExhausted("m"),
                                   Unavailable("m"),
                                   DeadlineExceeded("m"),
                                   DataLoss("m"),
                                   AlreadyExists("m"),
                                   PermissionDenied("m"),
                                   Internal("m")};
  ASSERT_EQ(all.size(), kStatusCodeMax + 1u);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(all[i].code()), i);
    for (const std::string& name : names) EXPECT_NE(name, StatusCodeName(all[i].code()));
    names.emplace_back(StatusCodeName(all[i].code()));
  }
  EXPECT_EQ(StatusCodeName(static_cast<StatusCode>(kStatusCodeMax + 1)), "Unknown");
}

Result<int> Half(int n) {
  if (n % 2 != 0) return InvalidArgument("odd");
  return n / 2;
}

Status Quarter(int n, int* out) {
  MARU_ASSIGN_OR_RETURN(const int half, Half(n));
  MARU_ASSIGN_OR_RETURN(*out, Half(half));
  return OkStatus();
}

Result<std::string> QuarterText(int n) {
  int quarter = 0;
  MARU_RETURN_IF_ERROR(Quarter(n, &quarter));
  return std::to_string(quarter);
}

TEST(Result, MacrosPassValuesAndErrorsOn) {
  EXPECT_EQ(*QuarterText(8), "2");
  EXPECT_EQ(QuarterText(6).status(), InvalidArgument("odd"));
  EXPECT_EQ(QuarterText(3).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(QuarterText(4).status().ok());
}

TEST(Result, CarriesValuesThatOnlyMove) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 7);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
  EXPECT_EQ(Result<int>(NotFound("x")).value_or(3), 3);
  EXPECT_EQ(Result<int>(4).value_or(3), 4);
}

TEST(ResultDeathTest, ReadingAValueThatIsNotThereStops) {
  const Result<int> failed = NotFound("gone");
  EXPECT_DEATH((void)*failed, "failed Result.*NotFound: gone");
  EXPECT_DEATH((void)Result<int>(OkStatus()), "OK status");
}

// On one line once it is expanded.
#define HALF_OF_EACH(a, b, first, second) \
  MARU_ASSIGN_OR_RETURN(a, Half(first));  \
  MARU_ASSIGN_OR_RETURN(b, Half(second))
Result<int> SumOfHalves(int first, int second) {
  HALF_OF_EACH(const int a, const int b, first, second);
  return a + b;
}

TEST(Result, TwoMayBeAssignedOnOneLine) {
  EXPECT_EQ(SumOfHalves(4, 6).value(), 5);
  EXPECT_EQ(SumOfHalves(3, 6).status(), InvalidArgument("odd"));
  EXPECT_EQ(SumOfHalves(4, 5).status(), InvalidArgument("odd"));
}

}  // namespace
}  // namespace maru
