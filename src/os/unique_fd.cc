#include "os/unique_fd.h"

#include <unistd.h>

namespace maru::os {

void UniqueFd::Reset(int fd) {
  const int former = std::exchange(fd_, fd);
  // Linux frees the descriptor whatever close answers; a second close could hit another file.
  if (former >= 0 && former != fd) ::close(former);
}

}  // namespace maru::os
