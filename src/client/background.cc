#include "client/background.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "client/fork_guard.h"
#include "os/clock.h"
#include "os/process.h"

namespace maru::client {

namespace {

constexpr int64_t kWaitNsMax = kNanosPerSecond;

// The thread and its tasks. One for each process; a forked child starts anew and leaves its
// parent's copy alone, since a lock in it may never be released.
class Background {
 public:
  Status Add(BackgroundTask* task) MARU_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    // The thread of the tasks before is ending; it has none left, so that does not take long. Two
    // threads at once would share what belongs to one.
    while (stopping_) ended_.Wait(mutex_);
    if (!thread_.joinable()) {
      MARU_ASSIGN_OR_RETURN(thread_, os::StartThread("maru", [this] { Run(); }));
    }
    tasks_.push_back(task);
    ++changes_;
    wake_.NotifyAll();
    return OkStatus();
  }

  void Remove(BackgroundTask* task) MARU_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto at = std::find(tasks_.begin(), tasks_.end(), task);
    if (at == tasks_.end()) return;
    tasks_.erase(at);
    ++changes_;  // those behind it have moved up: none of them is passed over
    while (running_ == task) idle_.Wait(mutex_);
    // The last one out ends the thread; a task that is still running is removed after this one.
    // That of a task removed at the same time may have done so already.
    if (!tasks_.empty() || running_ != nullptr || !thread_.joinable()) return;
    stopping_ = true;
    wake_.NotifyAll();
    std::thread finished = std::move(thread_);
    {
      const MutexUnlock unlock(mutex_);
      finished.join();
    }
    stopping_ = false;
    ended_.NotifyAll();
  }

 private:
  void Run() MARU_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (!stopping_) {
      const uint64_t seen = changes_;
      const int64_t now = os::RealClock().Now();
      int64_t next = now + kWaitNsMax;
      // By position, since tasks may come and go while one of them runs.
      for (size_t i = 0; i < tasks_.size() && !stopping_; ++i) {
        BackgroundTask* const task = tasks_[i];
        running_ = task;
        int64_t wanted = 0;
        {
          const MutexUnlock unlock(mutex_);
          wanted = static_cast<int64_t>(task->Tick());
        }
        running_ = nullptr;
        idle_.NotifyAll();
        if (wanted != 0) next = std::min(next, std::max(wanted, now + kNanosPerMilli));
      }
      const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(next - now);
      while (!stopping_ && changes_ == seen && wake_.WaitUntil(mutex_, until)) {
      }
    }
  }

  Mutex mutex_;
  CondVar wake_, idle_, ended_;
  std::vector<BackgroundTask*> tasks_ MARU_GUARDED_BY(mutex_);
  uint64_t changes_ MARU_GUARDED_BY(mutex_) = 0;  // of tasks_
  BackgroundTask* running_ MARU_GUARDED_BY(mutex_) = nullptr;
  // From the last task's removal until the thread has ended: no task is added meanwhile.
  bool stopping_ MARU_GUARDED_BY(mutex_) = false;
  // Joinable while there is one that is to go on.
  std::thread thread_ MARU_GUARDED_BY(mutex_);
};

class Instance final : private ForkAware {
 public:
  static Instance& Get() {
    static Instance* const instance = new Instance();  // outlives all users
    return *instance;
  }

  Background* Current() {
    // Acquire, partner of the release below: another thread may have made it.
    Background* current = current_.load(std::memory_order_acquire);
    if (current != nullptr) return current;
    auto* made = new Background();
    if (current_.compare_exchange_strong(current, made, std::memory_order_acq_rel)) return made;
    delete made;
    return current;
  }

 private:
  // The parent's stays where it is, with whatever its locks were; this process makes its own.
  void InForkedChild() override { current_.store(nullptr, std::memory_order_relaxed); }

  std::atomic<Background*> current_{nullptr};
  const ForkRegistration fork_registration_{this};
};

// Made when the library is loaded, as the list of what forks concern is.
[[maybe_unused]] const Instance& at_load = Instance::Get();

}  // namespace

Status AddBackgroundTask(BackgroundTask* task) { return Instance::Get().Current()->Add(task); }
void RemoveBackgroundTask(BackgroundTask* task) { Instance::Get().Current()->Remove(task); }

}  // namespace maru::client
