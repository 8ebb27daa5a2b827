#pragma once

// Where maru's log lines go. The library never prints: without an installed sink lines are dropped.

#include <cstdint>
#include <memory>
#include <string_view>

#include "maru/export.h"

namespace maru {

enum class LogLevel : std::uint8_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// "debug", "info", "warning", "error".
MARU_EXPORT std::string_view LogLevelName(LogLevel level);

class MARU_EXPORT LogSink {
 public:
  virtual ~LogSink();
  // One line without its newline. Called from any thread, several at once; must not throw and must
  // not call back into maru.
  virtual void Write(LogLevel level, std::string_view line) = 0;
};

// Installs the process's sink for lines of LEVEL and above; null drops them again. A line that is
// being written keeps the former sink alive until it is done. Thread-safe.
MARU_EXPORT void SetLogSink(std::shared_ptr<LogSink> sink, LogLevel level = LogLevel::kInfo);

}  // namespace maru
