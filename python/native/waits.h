// The interpreter lock around waits (base/waiting.h): let go while a call waits for the server,
// kept while it looks into shared memory.
#pragma once

#include <Python.h>

#include "base/waiting.h"

namespace maru::python {

inline constexpr WaitHooks kWaitHooks = {
    .before = []() -> void* { return PyEval_SaveThread(); },
    .after = [](void* thread) { PyEval_RestoreThread(static_cast<PyThreadState*>(thread)); }};

// In calls that usually wait for nothing.
class LetGoInWaits {
  const ScopedWaitHooks hooks_{&kWaitHooks};
};

}  // namespace maru::python
