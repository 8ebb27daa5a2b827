#pragma once

// For tests only: assertions over Status and Result that show the status, and the seed of random
// steps.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

#include "maru/result.h"

namespace maru {

inline const Status& StatusOf(const Status& status) { return status; }
template <typename T>
Status StatusOf(const Result<T>& result) {
  return result.status();
}

inline testing::AssertionResult IsOk(const Status& status) {
  if (status.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status.ToString();
}

// gtest prints statuses and their codes by these.
inline void PrintTo(const Status& status, std::ostream* out) { *out << status.ToString(); }
inline void PrintTo(StatusCode code, std::ostream* out) { *out << StatusCodeName(code); }

// Of a test of random steps: MARU_TEST_SEED where that is set, else another one each time. Told at
// once, so that it is known also where the test ends the process.
inline std::uint64_t TestSeed() {
  const char* const given = std::getenv("MARU_TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device()();
  std::fprintf(stderr, "MARU_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace maru

#define EXPECT_OK(expression) EXPECT_TRUE(::maru::IsOk(::maru::StatusOf(expression)))
#define ASSERT_OK(expression) ASSERT_TRUE(::maru::IsOk(::maru::StatusOf(expression)))

// ASSERT_OK_AND_ASSIGN(auto page, Alloc(size));
#define ASSERT_OK_AND_ASSIGN(target, expression) \
  MARU_INTERNAL_TEST_ASSIGN(MARU_INTERNAL_CONCAT(maru_test_result, __LINE__), target, expression)
#define MARU_INTERNAL_TEST_ASSIGN(result, target, expression) \
  auto result = (expression);                                 \
  ASSERT_OK(result);                                          \
  target = std::move(result).value()

// The code of a failed Status or Result.
#define EXPECT_CODE(expression, expected) \
  EXPECT_EQ(::maru::StatusOf(expression).code(), ::maru::StatusCode::expected)
