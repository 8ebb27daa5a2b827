#include "os/line_reader.h"

#include <unistd.h>

#include "os/errno_status.h"

namespace maru::os {

Result<std::optional<std::string>> LineReader::Next() {
  while (true) {
    const std::size_t newline = buffer_.find('\n');
    if (newline != std::string::npos) {
      std::string line = buffer_.substr(0, newline);
      buffer_.erase(0, newline + 1);
      return std::optional<std::string>(std::move(line));
    }
    if (at_end_) {
      if (buffer_.empty()) return std::optional<std::string>();
      return std::optional<std::string>(std::exchange(buffer_, {}));
    }
    if (buffer_.size() > kLineBytesMax) {
      return DataLoss("a line of more than " + std::to_string(kLineBytesMax) + " bytes");
    }
    char chunk[4096];
    const ssize_t got = RetryInterrupted([&] { return ::read(fd_, chunk, sizeof(chunk)); });
    if (got < 0) return ErrnoStatus(errno, "read", "pipe");
    at_end_ = got == 0;
    buffer_.append(chunk, static_cast<std::size_t>(got));
  }
}

}  // namespace maru::os
