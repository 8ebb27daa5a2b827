#pragma once

// Lines from a descriptor, as a child process writes them. One thread at a time.

#include <cstddef>
#include <optional>
#include <string>

#include "maru/result.h"

namespace maru::os {

class LineReader {
 public:
  static constexpr std::size_t kLineBytesMax = 64 * 1024;

  // REQUIRES: the descriptor outlives the reader.
  explicit LineReader(int fd) : fd_(fd) {}

  // Waits. The next line without its newline; nothing at the end. DataLoss: a line that is too
  // long.
  Result<std::optional<std::string>> Next();
  // A line that has been read already: Next() does not wait, though the descriptor may not be
  // ready.
  bool HasLine() const { return buffer_.find('\n') != std::string::npos; }

 private:
  int fd_;
  std::string buffer_;
  bool at_end_ = false;
};

}  // namespace maru::os
