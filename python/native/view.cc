#include "native/view.h"

#include <iterator>
#include <utility>

#include "native/dlpack.h"

namespace maru::python {

namespace nb = nanobind;

LeasedPlaces::Entry LeasedPlaces::Add(MemoryInfo* info) {
  const auto bytes = info->bytes();
  return places_.emplace(Place(info->region_id(), info->page_index(), bytes.size(), bytes.data()),
                         info);
}

MemoryInfo* LeasedPlaces::Find(uint32_t region_id, uint32_t page_index,
                               uint64_t length_bytes) const {
  const auto first = places_.lower_bound(Place(region_id, page_index, length_bytes, nullptr));
  const auto next = places_.lower_bound(Place(region_id, page_index, length_bytes + 1, nullptr));
  if (first == next) return nullptr;
  const bool same_bytes = first->first == std::prev(next)->first;
  return same_bytes ? first->second : nullptr;
}

MemoryInfo::~MemoryInfo() {
  if (places_ != nullptr) places_->Remove(entry_);
}

void MemoryInfo::ListIn(std::shared_ptr<LeasedPlaces> places) {
  entry_ = places->Add(this);
  places_ = std::move(places);
}

namespace {

// One whose constructor never ran has no memory either.
bool Leased(nb::handle self) {
  return nb::inst_ready(self) && nb::inst_ptr<MemoryInfo>(self)->leased();
}

int GetBuffer(PyObject* exporter, Py_buffer* view, int flags) {
  if (!Leased(exporter)) {
    PyErr_SetString(PyExc_BufferError, "no memory of a pool");
    return -1;
  }
  const MemoryInfo& info = *nb::inst_ptr<MemoryInfo>(nb::handle(exporter));
  // The cast is the protocol's; the flag says that nobody may write.
  void* const data = const_cast<std::byte*>(info.bytes().data());
  return PyBuffer_FillInfo(view, exporter, data, static_cast<Py_ssize_t>(info.bytes().size()),
                           /*readonly=*/1, flags);
}

PyType_Slot memory_info_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetBuffer)},
                                   {0, nullptr}};

int GetRegion(PyObject* exporter, Py_buffer* view, int flags) {
  if (!nb::inst_ready(exporter)) {
    PyErr_SetString(PyExc_BufferError, "no memory of a region");
    return -1;
  }
  const auto bytes = nb::inst_ptr<RegionBuffer>(nb::handle(exporter))->bytes();
  void* const data = const_cast<std::byte*>(bytes.data());
  return PyBuffer_FillInfo(view, exporter, data, static_cast<Py_ssize_t>(bytes.size()),
                           /*readonly=*/1, flags);
}

PyType_Slot region_buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetRegion)},
                                     {0, nullptr}};

nb::object ViewOf(nb::handle_t<MemoryInfo> self) {
  if (nb::inst_ready(self) && !Leased(self)) return nb::inst_ptr<MemoryInfo>(self)->given();
  nb::object view = nb::steal(PyMemoryView_FromObject(self.ptr()));
  if (!view.is_valid()) throw nb::python_error();
  return view;
}

nb::object CapsuleOf(nb::handle_t<MemoryInfo> self, nb::handle, nb::handle max_version,
                     nb::handle dl_device, nb::handle copy) {
  if (!Leased(self)) {
    PyErr_SetString(PyExc_BufferError, "no memory of a pool");
    throw nb::python_error();
  }
  const MemoryInfo& info = *nb::inst_ptr<MemoryInfo>(self);
  return MakeTensorCapsule(info.bytes(), Access::kReadOnly, {max_version, dl_device, copy},
                           [kept = nb::borrow(self)] {});
}

}  // namespace

void DefineViews(nb::module_ module) {
  [[maybe_unused]] const nb::class_<RegionBuffer> buffer(module, "_RegionBuffer",
                                                         nb::type_slots(region_buffer_slots));
  nb::class_<MemoryInfo>(module, "MemoryInfo", nb::type_slots(memory_info_slots),
                         "The bytes of a key where they lie, read-only. They do not change while "
                         "this, a view of it or an array over one lives.")
      .def(nb::init<nb::object, uint32_t, uint32_t>(), nb::arg("view"), nb::arg("region_id") = 0,
           nb::arg("page_index") = 0)
      .def_prop_ro("view", &ViewOf, nb::sig("def view(self) -> memoryview"))
      .def_prop_ro("region_id", &MemoryInfo::region_id)
      .def_prop_ro("page_index", &MemoryInfo::page_index)
      .def(
          "tensor", &TensorOf, nb::sig("def tensor(self) -> torch.Tensor"),
          "A torch tensor of the bytes where they lie, uint8, which keeps the lease. The memory is "
          "read-only, which torch has no word for: a write ends the process.")
      .def("__dlpack__", &CapsuleOf, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none(), nb::sig(kDlpackSignature))
      .def("__dlpack_device__", &DlpackDevice<MemoryInfo>, nb::sig(kDlpackDeviceSignature))
      .def("__len__", [](const MemoryInfo& info) { return info.bytes().size(); });
}

}  // namespace maru::python
