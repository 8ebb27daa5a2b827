#include "maru/status.h"

#include "base/check.h"
#include "maru/result.h"

namespace maru {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "OK";
    case StatusCode::kInvalidArgument: return "InvalidArgument";
    case StatusCode::kFailedPrecondition: return "FailedPrecondition";
    case StatusCode::kNotFound: return "NotFound";
    case StatusCode::kResourceExhausted: return "ResourceExhausted";
    case StatusCode::kUnavailable: return "Unavailable";
    case StatusCode::kDeadlineExceeded: return "DeadlineExceeded";
    case StatusCode::kDataLoss: return "DataLoss";
    case StatusCode::kAlreadyExists: return "AlreadyExists";
    case StatusCode::kPermissionDenied: return "PermissionDenied";
    case StatusCode::kInternal: return "Internal";
  }
  return "Unknown";
}

Status::Status(StatusCode code, std::string_view message) {
  if (code != StatusCode::kOk) rep_ = std::make_unique<const Rep>(Rep{code, std::string(message)});
}

Status::Status(const Status& other) {
  if (other.rep_ != nullptr) rep_ = std::make_unique<const Rep>(*other.rep_);
}

Status& Status::operator=(const Status& other) {
  if (this != &other) *this = Status(other);
  return *this;
}

std::string Status::ToString() const {
  std::string text(StatusCodeName(code()));
  if (!ok()) text.append(": ").append(message());
  return text;
}

Status InvalidArgument(std::string_view message) {
  return Status(StatusCode::kInvalidArgument, message);
}
Status FailedPrecondition(std::string_view message) {
  return Status(StatusCode::kFailedPrecondition, message);
}
Status NotFound(std::string_view message) { return Status(StatusCode::kNotFound, message); }
Status ResourceExhausted(std::string_view message) {
  return Status(StatusCode::kResourceExhausted, message);
}
Status Unavailable(std::string_view message) { return Status(StatusCode::kUnavailable, message); }
Status DeadlineExceeded(std::string_view message) {
  return Status(StatusCode::kDeadlineExceeded, message);
}
Status DataLoss(std::string_view message) { return Status(StatusCode::kDataLoss, message); }
Status AlreadyExists(std::string_view message) {
  return Status(StatusCode::kAlreadyExists, message);
}
Status PermissionDenied(std::string_view message) {
  return Status(StatusCode::kPermissionDenied, message);
}
Status Internal(std::string_view message) { return Status(StatusCode::kInternal, message); }

void internal::BadResult(const Status& status) {
  if (status.ok()) FailCheck({__FILE__, __LINE__, "a Result made from an OK status", ""});
  FailCheck({__FILE__, __LINE__, "the value of a failed Result was read", status.ToString()});
}

}  // namespace maru
