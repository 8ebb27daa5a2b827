#include "tools/stderr_log.h"

#include <algorithm>
#include <ctime>

#include "os/process.h"
#include "tools/output.h"

namespace maru::tools {

std::string LogLine(LogLevel level, std::string_view text) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &parts);
  std::string line = std::string(stamp) + " " + std::string(LogLevelName(level)) + " ";
  line += Printable(text);
  constexpr std::string_view kCut = "...";
  if (line.size() >= os::kErrorBytesMax) {
    line.resize(os::kErrorBytesMax - kCut.size() - 1);
    line += kCut;
  }
  return line + "\n";
}

bool StderrLog::Allowed() {
  constexpr int64_t kEachNs = kNanosPerSecond / static_cast<int64_t>(kLinesPerSecond);
  const auto more = static_cast<uint64_t>((clock_->Now() - counted_ns_) / kEachNs);
  counted_ns_ += static_cast<int64_t>(more) * kEachNs;
  allowed_ = std::min(kLinesAtOnce, allowed_ + more);
  if (allowed_ == 0) return false;
  --allowed_;
  return true;
}

void StderrLog::Write(LogLevel level, std::string_view line) {
  const std::string text = LogLine(level, line);
  MutexLock lock(mutex_);
  if (!Allowed()) {
    ++dropped_;
    return;
  }
  if (dropped_ > 0) {
    const std::string lost =
        LogLine(LogLevel::kWarning, std::to_string(dropped_) +
                                        " lines are missing here: nobody read them, "
                                        "or there were too many");
    if (os::TryWriteError(lost)) dropped_ = 0;
  }
  if (dropped_ > 0 || !os::TryWriteError(text)) ++dropped_;
}

}  // namespace maru::tools
