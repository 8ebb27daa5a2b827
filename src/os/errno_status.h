#pragma once

// errno becomes a Status here and nowhere else.

#include <cerrno>
#include <string_view>

#include "maru/status.h"

namespace maru::os {

// "cannot ACTION SUBJECT: <what the system says>[; REMEDY]", with the code that fits ERROR. Where
// REMEDY is empty, the usual one for ERROR is named. SUBJECT is a path or an address, and may be
// empty.
Status ErrnoStatus(int error, std::string_view action, std::string_view subject,
                   std::string_view remedy = {});

// Calls BODY again while a signal interrupts it. BODY returns -1 with errno set on failure.
template <typename F>
auto RetryInterrupted(F&& body) {
  auto result = body();
  while (result == -1 && errno == EINTR) result = body();
  return result;
}

}  // namespace maru::os
