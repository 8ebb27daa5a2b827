// The native module behind the Python packages.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>

#include "native/endpoint.h"
#include "native/errors.h"
#include "native/handler.h"
#include "native/log.h"
#include "native/page_buffer.h"
#include "native/view.h"

namespace {

constexpr int64_t kMainInterpreter = 0;
constexpr size_t kSlotsMax = 8;

// What nanobind knows of types is the process's: a second interpreter would take it away from the
// first.
int RefuseOtherInterpreters(PyObject*) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == kMainInterpreter) return 0;
  PyErr_SetString(PyExc_ImportError, "maru works in the main interpreter only");
  return -1;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that nanobind makes others of
NB_MODULE(_maru_of_main, module) {
  nanobind::set_leak_warnings(false);  // views may outlive the interpreter's last collection
  maru::python::InstallLog();
  maru::python::DefineErrors(module);
  maru::python::DefinePages(module);
  maru::python::DefineViews(module);
  maru::python::DefineHandler(module);
  maru::python::DefineEndpoint(module);
}

// That module, whose first step refuses.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name that Python looks for
extern "C" NB_EXPORT PyObject* PyInit__maru() {
  PyObject* const made = PyInit__maru_of_main();
  if (made == nullptr) return nullptr;
  auto* const definition = reinterpret_cast<PyModuleDef*>(made);
  static constinit std::array<PyModuleDef_Slot, kSlotsMax> slots{};
  if (definition->m_slots == slots.data()) return made;
  slots[0] = {Py_mod_exec, reinterpret_cast<void*>(&RefuseOtherInterpreters)};
  for (size_t i = 0; definition->m_slots[i].slot != 0; ++i) {
    if (i + 2 == kSlotsMax) {  // the last one ends them
      PyErr_SetString(PyExc_ImportError, "this nanobind makes modules of more parts than expected");
      return nullptr;
    }
    slots[i + 1] = definition->m_slots[i];
  }
  definition->m_slots = slots.data();
  return made;
}
