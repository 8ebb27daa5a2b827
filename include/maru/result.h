#pragma once

// A value, or the status that says why there is none.
//
//   Result<Page> page = Alloc(size);
//   if (!page.ok()) return page.status();
//   Use(*page);
//
// Thread safety: as of a plain value.

#include <type_traits>
#include <utility>
#include <variant>

#include "maru/status.h"

namespace maru {

namespace internal {
// Stops through the process's check handler: reading a value that is not there, or wrapping an OK
// status without a value, is a bug of the code that does it.
[[noreturn]] MARU_EXPORT void BadResult(const Status& status);
}  // namespace internal

template <typename T>
class [[nodiscard]] Result {
 public:
  static_assert(!std::is_reference_v<T> && !std::is_same_v<std::remove_cv_t<T>, Status>);
  using value_type = T;

  // Implicit, so that functions return either a value or a status.
  template <typename U = T>
    requires(std::is_constructible_v<T, U &&> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Status>)
  Result(U&& value) : state_(std::in_place_index<1>, std::forward<U>(value)) {}  // NOLINT

  // REQUIRES: !status.ok()
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {  // NOLINT
    if (std::get_if<0>(&state_)->ok()) internal::BadResult(*std::get_if<0>(&state_));
  }

  bool ok() const { return state_.index() == 1; }
  // OK when there is a value.
  Status status() const& { return ok() ? Status() : *std::get_if<0>(&state_); }
  Status status() && { return ok() ? Status() : std::move(*std::get_if<0>(&state_)); }

  // REQUIRES: ok()
  T& value() & { return *Get(); }
  const T& value() const& { return *Get(); }
  T&& value() && { return std::move(*Get()); }
  T& operator*() & { return *Get(); }
  const T& operator*() const& { return *Get(); }
  T&& operator*() && { return std::move(*Get()); }
  T* operator->() { return Get(); }
  const T* operator->() const { return Get(); }

  template <typename U>
  T value_or(U&& fallback) const& {
    return ok() ? *Get() : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  T* Get() {
    if (!ok()) [[unlikely]]
      internal::BadResult(*std::get_if<0>(&state_));
    return std::get_if<1>(&state_);
  }
  const T* Get() const { return const_cast<Result*>(this)->Get(); }

  std::variant<Status, T> state_;
};

}  // namespace maru

// Leaves the function with the status of EXPRESSION (a Status) unless it is OK.
#define MARU_RETURN_IF_ERROR(expression)        \
  do {                                          \
    ::maru::Status maru_status_ = (expression); \
    if (!maru_status_.ok()) [[unlikely]]        \
      return maru_status_;                      \
  } while (false)

#define MARU_INTERNAL_CONCAT2(a, b) a##b
#define MARU_INTERNAL_CONCAT(a, b) MARU_INTERNAL_CONCAT2(a, b)
#define MARU_INTERNAL_ASSIGN_OR_RETURN(result, target, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) [[unlikely]]                                   \
    return std::move(result).status();                             \
  target = std::move(result).value()

// MARU_ASSIGN_OR_RETURN(auto page, Alloc(size)): the value of EXPRESSION (a Result), or leaves the
// function with its status. A number of its own for each use, so that two may stand on one line;
// not in functions that a header defines, whose text would differ from file to file.
#define MARU_ASSIGN_OR_RETURN(target, expression)                                         \
  MARU_INTERNAL_ASSIGN_OR_RETURN(MARU_INTERNAL_CONCAT(maru_result_, __COUNTER__), target, \
                                 expression)
