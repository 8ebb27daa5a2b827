// The native module behind the Python packages.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "native/endpoint.h"
#include "native/errors.h"
#include "native/handler.h"
#include "native/log.h"
#include "native/page_buffer.h"
#include "native/view.h"

NB_MODULE(_maru, module) {
  nanobind::set_leak_warnings(false);  // views may outlive the interpreter's last collection
  maru::python::InstallLog();
  maru::python::DefineErrors(module);
  maru::python::DefinePages(module);
  maru::python::DefineViews(module);
  maru::python::DefineHandler(module);
  maru::python::DefineEndpoint(module);
}
