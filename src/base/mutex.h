#pragma once

// Locks that clang's thread-safety analysis understands (https://clang.llvm.org/docs/
// ThreadSafetyAnalysis.html). They are this process's own: no lock of ours lies in shared memory.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define MARU_TSA(x) __attribute__((x))
#else
#define MARU_TSA(x)
#endif

#define MARU_GUARDED_BY(mutex) MARU_TSA(guarded_by(mutex))
#define MARU_REQUIRES(...) MARU_TSA(requires_capability(__VA_ARGS__))
#define MARU_REQUIRES_SHARED(...) MARU_TSA(requires_shared_capability(__VA_ARGS__))
#define MARU_EXCLUDES(...) MARU_TSA(locks_excluded(__VA_ARGS__))
#define MARU_ACQUIRED_AFTER(...) MARU_TSA(acquired_after(__VA_ARGS__))

namespace maru {

class MARU_TSA(capability("mutex")) Mutex {
 public:
  void Lock() MARU_TSA(acquire_capability()) { mutex_.lock(); }
  void Unlock() MARU_TSA(release_capability()) { mutex_.unlock(); }
  bool TryLock() MARU_TSA(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class MARU_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MARU_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.Lock();
  }
  // Of one that is held already.
  MutexLock(Mutex& mutex, std::adopt_lock_t) MARU_TSA(requires_capability(mutex)) : mutex_(mutex) {}
  ~MutexLock() MARU_TSA(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Lets go of a held mutex while it lives.
class MARU_TSA(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) MARU_TSA(release_capability(mutex)) : mutex_(mutex) {
    mutex_.Unlock();
  }
  ~MutexUnlock() MARU_TSA(release_capability()) { mutex_.Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Lets go of the mutex while it waits. Returns when it likes to: ask what was waited for.
  void Wait(Mutex& mutex) MARU_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    waiting_.wait(lock);
    lock.release();
  }
  // The same at most until then; false: that is over. What was waited for may have come as well.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point until) MARU_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = waiting_.wait_until(lock, until) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyAll() { waiting_.notify_all(); }

 private:
  std::condition_variable waiting_;
};

class MARU_TSA(capability("shared_mutex")) SharedMutex {
 public:
  void Lock() MARU_TSA(acquire_capability()) { mutex_.lock(); }
  void Unlock() MARU_TSA(release_capability()) { mutex_.unlock(); }
  void LockShared() MARU_TSA(acquire_shared_capability()) { mutex_.lock_shared(); }
  void UnlockShared() MARU_TSA(release_shared_capability()) { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class MARU_TSA(scoped_lockable) ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) MARU_TSA(acquire_shared_capability(mutex))
      : mutex_(mutex) {
    mutex_.LockShared();
  }
  ~ReaderLock() MARU_TSA(release_generic_capability()) { mutex_.UnlockShared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class MARU_TSA(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) MARU_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~WriterLock() MARU_TSA(release_capability()) { mutex_.Unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace maru
