#include "client/background.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

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
  Status Add(BackgroundTask* task) {
    std::unique_lock lock(mutex_);
    // The thread of the tasks before is ending; it has none left, so that does not take long. Two
    // threads at once would share what belongs to one.
    ended_.wait(lock, [&] { return !stopping_; });
    tasks_.push_back(task);
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread([this] { Run(); });
      } catch (const std::system_error& error) {
        tasks_.pop_back();
        return ResourceExhausted(std::string("no background thread can be made: ") + error.what());
      }
    }
    ++changes_;
    wake_.notify_all();
    return OkStatus();
  }

  void Remove(BackgroundTask* task) {
    std::unique_lock lock(mutex_);
    const auto at = std::find(tasks_.begin(), tasks_.end(), task);
    if (at == tasks_.end()) return;
    tasks_.erase(at);
    ++changes_;  // those behind it have moved up: none of them is passed over
    idle_.wait(lock, [&] { return running_ != task; });
    // The last one out ends the thread; a task that is still running is removed after this one.
    // That of a task removed at the same time may have done so already.
    if (!tasks_.empty() || running_ != nullptr || !thread_.joinable()) return;
    stopping_ = true;
    wake_.notify_all();
    std::thread finished = std::move(thread_);
    lock.unlock();
    finished.join();
    lock.lock();
    stopping_ = false;
    ended_.notify_all();
  }

 private:
  void Run() {
    os::BlockSignalsInThisThread();
    os::NameThisThread("maru");
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const uint64_t seen = changes_;
      const int64_t now = os::RealClock().Now();
      int64_t next = now + kWaitNsMax;
      // By position, since tasks may come and go while one of them runs.
      for (size_t i = 0; i < tasks_.size() && !stopping_; ++i) {
        running_ = tasks_[i];
        lock.unlock();
        const auto wanted = static_cast<int64_t>(running_->Tick());
        lock.lock();
        running_ = nullptr;
        idle_.notify_all();
        if (wanted != 0) next = std::min(next, std::max(wanted, now + kNanosPerMilli));
      }
      wake_.wait_for(lock, std::chrono::nanoseconds(next - now),
                     [&] { return stopping_ || changes_ != seen; });
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_, ended_;
  std::vector<BackgroundTask*> tasks_;
  uint64_t changes_ = 0;  // of tasks_
  BackgroundTask* running_ = nullptr;
  // From the last task's removal until the thread has ended: no task is added meanwhile.
  bool stopping_ = false;
  std::thread thread_;  // joinable while there is one that is to go on
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
