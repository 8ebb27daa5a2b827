#pragma once

// For tests only: what is logged while one of these lives. Thread-safe.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "maru/log.h"

namespace maru {

// The process's sink from its making until its end. REQUIRES: one at a time.
class RecordedLog {
 public:
  explicit RecordedLog(LogLevel level = LogLevel::kInfo) { SetLogSink(sink_, level); }
  ~RecordedLog() { Remove(); }
  RecordedLog(const RecordedLog&) = delete;
  RecordedLog& operator=(const RecordedLog&) = delete;

  // No longer the sink; what it has stays.
  void Remove() { SetLogSink(nullptr); }
  // Whether the process keeps the sink, installed or amid a line.
  bool in_use() const { return sink_.use_count() > 1; }

  // Each as "LEVEL LINE".
  std::vector<std::string> lines() const {
    const MutexLock lock(sink_->mutex);
    return sink_->lines;
  }
  std::vector<std::string> LinesWith(std::string_view words) const {
    std::vector<std::string> found = lines();
    std::erase_if(
        found, [words](const std::string& line) { return line.find(words) == std::string::npos; });
    return found;
  }

 private:
  struct Sink final : LogSink {
    void Write(LogLevel level, std::string_view line) override {
      const MutexLock lock(mutex);
      lines.push_back(std::string(LogLevelName(level)) + " " + std::string(line));
    }
    Mutex mutex;
    std::vector<std::string> lines MARU_GUARDED_BY(mutex);
  };

  const std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
};

}  // namespace maru
