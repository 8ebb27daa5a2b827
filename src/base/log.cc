#include "base/log.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace maru {
namespace {

constexpr int kOff = 4;  // above every level

// A hint only: the sink itself is read under the lock. Relaxed on both sides, a line that races
// with SetLogSink may be dropped or written.
std::atomic<int> min_level{kOff};

struct Installed {
  std::mutex mutex;
  std::shared_ptr<LogSink> sink;  // guarded by mutex
};

// Never destroyed: threads may log while the process exits.
Installed& installed() {
  static Installed* const instance = new Installed;
  return *instance;
}

}  // namespace

LogSink::~LogSink() = default;

std::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "unknown";
}

void SetLogSink(std::shared_ptr<LogSink> sink, LogLevel level) {
  Installed& state = installed();
  const int wanted = sink == nullptr ? kOff : static_cast<int>(level);
  {
    const std::lock_guard lock(state.mutex);
    state.sink.swap(sink);
    min_level.store(wanted, std::memory_order_relaxed);
  }
  // The former sink is destroyed here, outside the lock.
}

bool LogEnabled(LogLevel level) {
  return static_cast<int>(level) >= min_level.load(std::memory_order_relaxed);
}

void Log(LogLevel level, std::string_view line) {
  if (!LogEnabled(level)) return;
  Installed& state = installed();
  std::shared_ptr<LogSink> sink;
  {
    const std::lock_guard lock(state.mutex);
    sink = state.sink;
  }
  if (sink != nullptr) sink->Write(level, line);
}

}  // namespace maru
