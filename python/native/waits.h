// The interpreter lock around waits (base/waiting.h): let go while a call waits for the server or
// copies much, kept while it looks into shared memory.
//
// An interpreter that ends does not give its lock to other threads any more: up to Python 3.13 it
// ends each that asks, by an unwinding that no destructor on its way may meet, or the process is
// aborted. Here such a thread sleeps until the process is gone, as with later Pythons.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include "base/waiting.h"

namespace maru::python {

[[noreturn]] void SleepForEver();

// What CALL, of Python's C interface, answers. REQUIRES: it is all that may wait for the lock or
// run Python here, and throws nothing of its own.
template <typename Call>
auto OrSleep(const Call& call) {
  try {
    return call();
  } catch (...) {  // the unwinding
    SleepForEver();
  }
}

// The object that CALL, as above, makes; else its exception.
template <typename Call>
nanobind::object Calling(const Call& call) {
  nanobind::object made = nanobind::steal(OrSleep(call));
  if (!made.is_valid()) throw nanobind::python_error();
  return made;
}

inline void TakeLockAgain(PyThreadState* thread) {
  OrSleep([thread] { PyEval_RestoreThread(thread); });
}

// Without the lock that this thread has.
class WithoutLock {
 public:
  WithoutLock() : thread_(PyEval_SaveThread()) {}
  ~WithoutLock() { TakeLockAgain(thread_); }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* const thread_;
};

// With the lock, whether this thread has it or not.
class WithLock {
 public:
  WithLock() : state_(OrSleep(&PyGILState_Ensure)) {}
  ~WithLock() { PyGILState_Release(state_); }
  WithLock(const WithLock&) = delete;
  WithLock& operator=(const WithLock&) = delete;

 private:
  const PyGILState_STATE state_;
};

inline constexpr WaitHooks kWaitHooks = {
    .before = []() -> void* { return PyEval_SaveThread(); },
    .after = [](void* thread) { TakeLockAgain(static_cast<PyThreadState*>(thread)); }};

// In calls that usually wait for nothing.
class LetGoInWaits {
  const ScopedWaitHooks hooks_{&kWaitHooks};
};

}  // namespace maru::python
