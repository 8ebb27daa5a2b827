#include "native/view.h"

#include <utility>

namespace maru::python {

namespace nb = nanobind;

namespace {

int GetBuffer(PyObject* exporter, Py_buffer* view, int flags) {
  const MemoryInfo& info = *nb::inst_ptr<MemoryInfo>(nb::handle(exporter));
  if (!info.leased()) {
    PyErr_SetString(PyExc_BufferError, "no memory of a pool");
    return -1;
  }
  // The cast is the protocol's; the flag says that nobody may write.
  void* const data = const_cast<std::byte*>(info.bytes().data());
  return PyBuffer_FillInfo(view, exporter, data, static_cast<Py_ssize_t>(info.bytes().size()),
                           /*readonly=*/1, flags);
}

PyType_Slot memory_info_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetBuffer)},
                                   {0, nullptr}};

int GetRegion(PyObject* exporter, Py_buffer* view, int flags) {
  const auto bytes = nb::inst_ptr<RegionBuffer>(nb::handle(exporter))->bytes();
  void* const data = const_cast<std::byte*>(bytes.data());
  return PyBuffer_FillInfo(view, exporter, data, static_cast<Py_ssize_t>(bytes.size()),
                           /*readonly=*/1, flags);
}

PyType_Slot region_buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetRegion)},
                                     {0, nullptr}};

nb::object ViewOf(nb::handle_t<MemoryInfo> self) {
  const MemoryInfo& info = *nb::inst_ptr<MemoryInfo>(self);
  if (!info.leased()) return info.given();
  nb::object view = nb::steal(PyMemoryView_FromObject(self.ptr()));
  if (!view.is_valid()) throw nb::python_error();
  return view;
}

}  // namespace

void DefineViews(nb::module_ module) {
  nb::class_<RegionBuffer>(module, "_RegionBuffer", nb::type_slots(region_buffer_slots));
  nb::class_<MemoryInfo>(module, "MemoryInfo", nb::type_slots(memory_info_slots),
                         "The bytes of a key where they lie, read-only. They do not change while "
                         "this, a view of it or an array over one lives.")
      .def(nb::init<nb::object, uint32_t, uint32_t>(), nb::arg("view"), nb::arg("region_id") = 0,
           nb::arg("page_index") = 0)
      .def_prop_ro("view", &ViewOf, nb::sig("def view(self) -> memoryview"))
      .def_prop_ro("region_id", &MemoryInfo::region_id)
      .def_prop_ro("page_index", &MemoryInfo::page_index)
      .def("__len__", [](const MemoryInfo& info) { return info.bytes().size(); });
}

}  // namespace maru::python
