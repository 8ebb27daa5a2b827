#pragma once

// The outcome of an operation that can fail: a code for programs and a message for people.
//
// An OK status is one null pointer: free to make, copy and return. Thread safety: as of a plain
// value. What a code means:
//   InvalidArgument, FailedPrecondition, AlreadyExists, PermissionDenied   the caller's mistake
//   NotFound, ResourceExhausted, Unavailable, DeadlineExceeded             the state of the world
//   DataLoss                                     bytes from outside that no valid writer produces
//   Internal                                     a broken promise of our own

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "maru/export.h"

namespace maru {

// The numbers cross the wire and never change their meaning.
enum class StatusCode : std::uint8_t {
  kOk = 0,
  kInvalidArgument = 1,
  kFailedPrecondition = 2,
  kNotFound = 3,
  kResourceExhausted = 4,
  kUnavailable = 5,
  kDeadlineExceeded = 6,
  kDataLoss = 7,
  kAlreadyExists = 8,
  kPermissionDenied = 9,
  kInternal = 10,
};

inline constexpr std::uint8_t kStatusCodeMax = 10;

// "NotFound" and so on; "Unknown" for a number that is no code.
MARU_EXPORT std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] MARU_EXPORT Status {
 public:
  Status() = default;  // OK
  // With kOk the message is dropped.
  Status(StatusCode code, std::string_view message);

  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return ok() ? StatusCode::kOk : rep_->code; }
  // Empty when OK; lives as long as this status.
  std::string_view message() const {
    return ok() ? std::string_view() : std::string_view(rep_->message);
  }
  // "OK", or the code's name, ": " and the message.
  std::string ToString() const;

  friend bool operator==(const Status& a, const Status& b) {
    return a.code() == b.code() && a.message() == b.message();
  }

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<const Rep> rep_;
};

inline Status OkStatus() { return Status(); }
MARU_EXPORT Status InvalidArgument(std::string_view message);
MARU_EXPORT Status FailedPrecondition(std::string_view message);
MARU_EXPORT Status NotFound(std::string_view message);
MARU_EXPORT Status ResourceExhausted(std::string_view message);
MARU_EXPORT Status Unavailable(std::string_view message);
MARU_EXPORT Status DeadlineExceeded(std::string_view message);
MARU_EXPORT Status DataLoss(std::string_view message);
MARU_EXPORT Status AlreadyExists(std::string_view message);
MARU_EXPORT Status PermissionDenied(std::string_view message);
MARU_EXPORT Status Internal(std::string_view message);

}  // namespace maru
