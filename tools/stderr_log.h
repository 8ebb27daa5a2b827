// A daemon's log: lines on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "maru/log.h"

namespace maru::tools {

// Nobody who reads the log, slowly or not at all, holds up who writes it, and nobody who causes
// lines fills the disk: a line that standard error does not take at once is dropped, and so is one
// over kLinesPerSecond once kLinesAtOnce were written. The next one says how many were. What a line
// quotes from others (labels, paths) cannot end it: control bytes are escaped.
class StderrLog final : public LogSink {
 public:
  static constexpr uint64_t kLinesAtOnce = 1000, kLinesPerSecond = 10;

  // REQUIRES: the clock outlives this.
  explicit StderrLog(const Clock* clock) : clock_(clock) {}
  void Write(LogLevel level, std::string_view line) override;

 private:
  // Whether there may be one more line now.
  bool Allowed() MARU_REQUIRES(mutex_);

  const Clock* const clock_;
  Mutex mutex_;
  uint64_t allowed_ MARU_GUARDED_BY(mutex_) = kLinesAtOnce;
  int64_t counted_ns_ MARU_GUARDED_BY(mutex_) = 0;  // until when allowed_ has grown
  uint64_t dropped_ MARU_GUARDED_BY(mutex_) = 0;
};

// The time, the level and the text as one line with its end, cut to os::kErrorBytesMax.
std::string LogLine(LogLevel level, std::string_view text);

}  // namespace maru::tools
