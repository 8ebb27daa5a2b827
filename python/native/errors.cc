#include "native/errors.h"

#include <array>
#include <string>

namespace maru::python {

namespace nb = nanobind;

namespace {

// By status code. Owned by the module, which lives as long as the process.
std::array<PyObject*, kStatusCodeMax + 1> types{};

PyObject* Define(nb::module_ module, const char* name, const char* doc, nb::object bases) {
  const std::string qualified = std::string("maru.") + name;
  PyObject* const type =
      PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), /*dict=*/nullptr);
  if (type == nullptr) throw nb::python_error();
  module.attr(name) = nb::borrow(type);
  return type;
}

[[noreturn]] void RaiseAs(StatusCode code, std::string_view message) {
  // Names in messages are bytes of other processes.
  const auto text = nb::steal(PyUnicode_DecodeUTF8(
      message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
  PyErr_SetObject(types[static_cast<size_t>(code)], text.ptr());
  throw nb::python_error();
}

}  // namespace

void DefineErrors(nb::module_ module) {
  PyObject* const base = Define(module, "MaruError", "Something that Maru could not do.",
                                nb::borrow(PyExc_RuntimeError));
  const auto derived = [&](const char* name, const char* doc, PyObject* builtin) {
    return Define(module, name, doc, nb::make_tuple(nb::borrow(base), nb::borrow(builtin)));
  };
  const auto plain = [&](const char* name, const char* doc) {
    return Define(module, name, doc, nb::borrow(base));
  };
  types.fill(base);
  const auto set = [](StatusCode code, PyObject* type) { types[static_cast<size_t>(code)] = type; };
  set(StatusCode::kInvalidArgument,
      derived("InvalidArgumentError", "An argument that cannot be; the message names it.",
              PyExc_ValueError));
  set(StatusCode::kFailedPrecondition,
      derived(
          "StateError",
          "A handle whose life is over, a pinned key, versions that do not fit, a forked child.",
          PyExc_ValueError));
  set(StatusCode::kNotFound,
      derived("NotFoundError", "A page that was never this handler's.", PyExc_KeyError));
  set(StatusCode::kResourceExhausted,
      derived("PoolFullError", "The pool (or the budget) is full and nothing may go.",
              PyExc_ValueError));
  set(StatusCode::kUnavailable,
      derived("NotConnectedError", "Not connected, closing, or no server.", PyExc_ConnectionError));
  set(StatusCode::kDeadlineExceeded,
      derived("DeadlineError", "No answer within timeout_ms.", PyExc_TimeoutError));
  set(StatusCode::kDataLoss,
      plain("CorruptionError", "Bytes that no valid writer produces, or a checksum that differs."));
  set(StatusCode::kPermissionDenied,
      derived("AccessError", "The server does not admit this user, or is not trusted.",
              PyExc_PermissionError));
}

void Raise(const Status& status) { RaiseAs(status.code(), status.message()); }

void RaiseNotConnected() {
  RaiseAs(StatusCode::kUnavailable,
          "Not connected: call connect() first; a handler that was closed stays closed");
}

}  // namespace maru::python
