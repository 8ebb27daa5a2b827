#include "os/errno_status.h"

#include <string>
#include <system_error>

namespace maru::os {
namespace {

struct Meaning {
  StatusCode code;
  std::string_view remedy;
};

Meaning MeaningOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENXIO:
    case ENODEV: return {StatusCode::kNotFound, "check the path"};
    case EEXIST: return {StatusCode::kAlreadyExists, "remove it or choose another path"};
    case EADDRINUSE:
      return {StatusCode::kAlreadyExists, "stop its owner or choose another address"};
    case EACCES:
    case EPERM:
    case EROFS: return {StatusCode::kPermissionDenied, "check its owner and mode"};
    case ENOSPC:
    case EDQUOT: return {StatusCode::kResourceExhausted, "free room there or ask for less"};
    case ENOMEM: return {StatusCode::kResourceExhausted, "free memory or raise the limit"};
    case EBADF: return {StatusCode::kFailedPrecondition, "it is closed, or not open for that"};
    case EMFILE: return {StatusCode::kResourceExhausted, "raise ulimit -n"};
    case ENFILE: return {StatusCode::kResourceExhausted, "raise fs.file-max"};
    case EFBIG: return {StatusCode::kResourceExhausted, "raise ulimit -f or ask for less"};
    case EAGAIN:
    case ETIMEDOUT: return {StatusCode::kDeadlineExceeded, ""};
    case ECONNREFUSED:
    case ECONNRESET:
    case ENOTCONN:
    case EPIPE:
    case EBUSY: return {StatusCode::kUnavailable, ""};
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG: return {StatusCode::kInvalidArgument, ""};
    case EOPNOTSUPP:
    case ENOSYS: return {StatusCode::kFailedPrecondition, ""};
    case EIO: return {StatusCode::kDataLoss, "see the kernel's log"};
    default: return {StatusCode::kInternal, ""};
  }
}

}  // namespace

Status ErrnoStatus(int error, std::string_view action, std::string_view subject,
                   std::string_view remedy) {
  const Meaning meaning = MeaningOf(error);
  if (remedy.empty()) remedy = meaning.remedy;
  std::string message = "cannot ";
  message += action;
  if (!subject.empty()) message.append(" ").append(subject);
  message.append(": ").append(std::system_category().message(error));
  if (!remedy.empty()) message.append("; ").append(remedy);
  return Status(meaning.code, message);
}

}  // namespace maru::os
