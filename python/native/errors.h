// Status to Python exceptions. Every exception of this package is a MaruError, which is a
// RuntimeError, as callers of upstream's handler expect; its subclasses are also the built-in
// exception of their cause (ValueError, TimeoutError, ...).
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "maru/result.h"
#include "maru/status.h"

namespace maru::python {

// Makes the exception types, attributes of MODULE.
void DefineErrors(nanobind::module_ module);

// Raises what STATUS, which is not OK, is in Python.
[[noreturn]] void Raise(const Status& status);

inline void OkOrRaise(const Status& status) {
  if (!status.ok()) Raise(status);
}

template <typename T>
T ValueOrRaise(Result<T> result) {
  if (!result.ok()) Raise(result.status());
  return *std::move(result);
}

// For calls on something that is not connected or whose life is over.
[[noreturn]] void RaiseNotConnected();

}  // namespace maru::python
