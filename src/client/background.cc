#include "client/background.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
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
  void Add(BackgroundTask* task) {
    std::unique_lock lock(mutex_);
    tasks_.push_back(task);
    if (!thread_.joinable()) {
      stopping_ = false;
      thread_ = std::thread([this] { Run(); });
    }
    wake_.notify_all();
  }

  void Remove(BackgroundTask* task) {
    std::thread finished;
    {
      std::unique_lock lock(mutex_);
      const auto at = std::find(tasks_.begin(), tasks_.end(), task);
      if (at == tasks_.end()) return;
      tasks_.erase(at);
      idle_.wait(lock, [&] { return running_ != task; });
      if (!tasks_.empty()) return;
      stopping_ = true;
      wake_.notify_all();
      finished = std::move(thread_);
    }
    if (finished.joinable()) finished.join();
  }

 private:
  void Run() {
    os::BlockSignalsInThisThread();
    os::NameThisThread("maru");
    std::unique_lock lock(mutex_);
    while (!stopping_) {
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
      if (stopping_) break;
      wake_.wait_for(lock, std::chrono::nanoseconds(next - now));
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::vector<BackgroundTask*> tasks_;
  BackgroundTask* running_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;
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

}  // namespace

void AddBackgroundTask(BackgroundTask* task) { Instance::Get().Current()->Add(task); }
void RemoveBackgroundTask(BackgroundTask* task) { Instance::Get().Current()->Remove(task); }

}  // namespace maru::client
