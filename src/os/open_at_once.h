#pragma once

// Opening what a path names, for those who want a file there: nobody who put something else in its
// place holds them up.

#include <string>
#include <string_view>

#include "maru/result.h"
#include "os/unique_fd.h"

namespace maru::os {

// FLAGS as of open(2), without O_CREAT; the descriptor is close-on-exec. Does not wait for the
// other end of a FIFO: one that has a name is refused with FailedPrecondition, a socket as well.
// The end of a pipe that a shell hands on (/dev/fd/N) is no such file, and is opened. LINK_REMEDY
// is told where O_NOFOLLOW meets a link.
Result<UniqueFd> OpenAtOnce(const std::string& path, int flags, std::string_view link_remedy = {});

}  // namespace maru::os
