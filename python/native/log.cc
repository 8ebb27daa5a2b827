#include "native/log.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "maru/log.h"
#include "native/waits.h"

namespace maru::python {

namespace nb = nanobind;

namespace {

// Beyond that the oldest go: a process that makes no calls reads no lines.
constexpr size_t kLinesMax = 1000;

class Queue final : public LogSink {
 public:
  void Write(LogLevel level, std::string_view line) override {
    const std::lock_guard lock(mutex_);
    if (lines_.size() == kLinesMax) lines_.pop_front();
    lines_.emplace_back(level, line);
    // Relaxed: whoever misses it tells the line at the next call.
    any_.store(true, std::memory_order_relaxed);
  }
  bool any() const { return any_.load(std::memory_order_relaxed); }
  std::deque<std::pair<LogLevel, std::string>> Take() {
    const std::lock_guard lock(mutex_);
    any_.store(false, std::memory_order_relaxed);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::deque<std::pair<LogLevel, std::string>> lines_;  // guarded by mutex_
  std::atomic<bool> any_{false};
};

// Reachable as long as the process, like the threads that write to it.
std::shared_ptr<Queue>& TheQueue() {
  static auto* const queue = new std::shared_ptr<Queue>(std::make_shared<Queue>());
  return *queue;
}

const char* MethodOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: break;
  }
  return "error";
}

}  // namespace

void InstallLog() { SetLogSink(TheQueue()); }

void TellLog() {
  Queue& queue = *TheQueue();
  if (!queue.any()) return;
  // All of this runs Python, and the application's handlers may wait.
  const nb::object logging = Calling([] { return PyImport_ImportModule("logging"); });
  const nb::object logger =
      Calling([&] { return PyObject_CallMethod(logging.ptr(), "getLogger", "s", "maru_handler"); });
  for (const auto& [level, line] : queue.Take()) {
    const auto text = nb::steal(PyUnicode_DecodeUTF8(
        line.data(), static_cast<Py_ssize_t>(line.size()), "backslashreplace"));
    Calling([&, method = MethodOf(level)] {
      return PyObject_CallMethod(logger.ptr(), method, "sO", "%s", text.ptr());
    });
  }
}

}  // namespace maru::python
