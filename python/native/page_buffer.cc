#include "native/page_buffer.h"

#include <string>
#include <utility>
#include <vector>

#include "native/dlpack.h"
#include "native/errors.h"
#include "native/waits.h"

namespace maru::python {

namespace nb = nanobind;

std::shared_ptr<PageMemory> PagesInHands::Find(const Address& address) const {
  const auto at = pages_.find(address);
  return at == pages_.end() ? nullptr : at->second.lock();
}

void PagesInHands::Add(const std::shared_ptr<PageMemory>& page) { pages_[page->address()] = page; }

void PagesInHands::Remove(const PageMemory& page) {
  const auto at = pages_.find(page.address());
  if (at == pages_.end()) return;
  // By now it may be the page's next handing out.
  const auto there = at->second.lock();
  if (there == nullptr || there.get() == &page) pages_.erase(at);
}

std::vector<std::shared_ptr<PageMemory>> PagesInHands::All() const {
  std::vector<std::shared_ptr<PageMemory>> all;
  for (const auto& [address, page] : pages_) {
    if (auto there = page.lock(); there != nullptr) all.push_back(std::move(there));
  }
  return all;
}

PageMemory::PageMemory(std::weak_ptr<handler::Handler> handler, handler::PageHandle handle,
                       std::shared_ptr<PagesInHands> pages)
    : handler_(std::move(handler)), handle_(std::move(handle)), pages_(std::move(pages)) {}

PageMemory::~PageMemory() {
  LetGo(std::move(hold_));
  if (!open_) return;
  pages_->Remove(*this);
  if (const auto handler = handler_.lock()) {
    const LetGoInWaits waits;
    handler->Free(handle_, handler::Handler::IfStored::kIsOver).ok();
  }
}

bool PageMemory::OfHandler(const std::weak_ptr<handler::Handler>& handler) const {
  return !handler_.owner_before(handler) && !handler.owner_before(handler_);
}

std::shared_ptr<handler::MemoryHold> PageMemory::HoldOn() const {
  const auto handler = handler_.lock();
  if (handler == nullptr) return nullptr;
  auto hold = handler->HoldOn(handle_);
  return hold.ok() ? *std::move(hold) : nullptr;
}

void PageMemory::LetGo(std::shared_ptr<handler::MemoryHold> hold) const {
  if (hold == nullptr) return;
  if (const auto handler = handler_.lock()) handler->LetGo(std::move(hold));
}

void PageMemory::Consumed(std::shared_ptr<handler::MemoryHold> hold) {
  if (open_) {
    open_ = false;
    pages_->Remove(*this);
    EndView();
  }
  // Of two calls that end the same life one may have come too late to hold it.
  if (hold_ == nullptr) hold_.swap(hold);
  LetGo(std::move(hold));
  if (exports_ == 0) LetGo(std::exchange(hold_, nullptr));
}

void PageMemory::Close() {
  if (!open_) return;
  open_ = false;
  pages_->Remove(*this);
  EndView();
  // What something is over stays granted with its mapping, which this keeps until that is gone.
  if (exports_ != 0) return;
  if (const auto handler = handler_.lock()) {
    const LetGoInWaits waits;
    handler->Free(handle_, handler::Handler::IfStored::kIsOver).ok();
  }
}

PageMemory::KeptView PageMemory::View() {
  if (KeptView kept = kept_view_.lock(); kept != nullptr && kept->is_valid()) return kept;
  nb::object view = view_.is_valid() ? view_() : nb::none();
  if (view.is_none()) {
    const nb::object buffer = nb::cast(PageBuffer(shared_from_this()));
    view = nb::steal(PyMemoryView_FromObject(buffer.ptr()));
    if (!view.is_valid()) throw nb::python_error();
    view_ = nb::steal(PyWeakref_NewRef(view.ptr(), nullptr));
    if (!view_.is_valid()) throw nb::python_error();
  }
  auto kept = std::make_shared<nb::object>(std::move(view));
  kept_view_ = kept;
  return kept;
}

void PageMemory::EndView() {
  if (const KeptView kept = kept_view_.lock()) kept->reset();
  if (!view_.is_valid()) return;
  const nb::object there = view_();
  if (there.is_none()) return;
  const nb::object released = nb::steal(PyObject_CallMethod(there.ptr(), "release", nullptr));
  // An array is over it: it lives on, and so does the memory's hold.
  if (!released.is_valid()) PyErr_Clear();
  Exported();
  const nb::object gone =
      nb::cpp_function([memory = shared_from_this()](nb::handle) { memory->Released(); });
  view_ = nb::steal(PyWeakref_NewRef(there.ptr(), gone.ptr()));
  // Without it nobody is told: then the memory stays as it is.
  if (!view_.is_valid()) PyErr_Clear();
}

void PageMemory::Released() {
  if (--exports_ == 0 && !open_) LetGo(std::exchange(hold_, nullptr));
}

PageInCall::PageInCall(std::shared_ptr<PageMemory> memory) : memory_(std::move(memory)) {
  if (memory_ != nullptr && memory_->open()) hold_ = memory_->HoldOn();
}

PageInCall::~PageInCall() {
  if (memory_ != nullptr) memory_->LetGo(std::move(hold_));
}

void PageInCall::Consumed() {
  if (memory_ != nullptr) memory_->Consumed(std::move(hold_));
}

AllocHandle::AllocHandle(std::shared_ptr<PageMemory> memory)
    : memory_(std::move(memory)),
      region_id_(memory_->handle().region_id),
      page_index_(memory_->handle().page_index),
      size_(memory_->handle().size_bytes) {}

nb::object AllocHandle::buf() const {
  if (memory_ == nullptr) return given_;
  if (!memory_->open()) Raise(FailedPrecondition("the page was stored or freed"));
  if (view_ == nullptr) view_ = memory_->View();
  return *view_;
}

namespace {

int GetBuffer(PyObject* exporter, Py_buffer* view, int flags) {
  if (!nb::inst_ready(exporter)) {
    PyErr_SetString(PyExc_BufferError, "no memory of a page");
    return -1;
  }
  PageMemory& memory = nb::inst_ptr<PageBuffer>(nb::handle(exporter))->memory();
  if (!memory.open()) {
    PyErr_SetString(PyExc_BufferError, "the page was stored or freed");
    return -1;
  }
  const handler::PageHandle& page = memory.handle();
  if (PyBuffer_FillInfo(view, exporter, page.data, static_cast<Py_ssize_t>(page.size_bytes),
                        /*readonly=*/0, flags) != 0) {
    return -1;
  }
  memory.Exported();
  return 0;
}

void ReleaseBuffer(PyObject* exporter, Py_buffer*) {
  nb::inst_ptr<PageBuffer>(nb::handle(exporter))->memory().Released();
}

nb::object CapsuleOf(const AllocHandle& handle, nb::handle, nb::handle max_version,
                     nb::handle dl_device, nb::handle copy) {
  const auto& memory = handle.memory();
  if (memory == nullptr || !memory->open()) {
    PyErr_SetString(PyExc_BufferError, memory == nullptr ? "an address without its memory"
                                                         : "the page was stored or freed");
    throw nb::python_error();
  }
  const handler::PageHandle& page = memory->handle();
  nb::object capsule =
      MakeTensorCapsule({page.data, page.size_bytes}, Access::kWritable,
                        {max_version, dl_device, copy}, [memory] { memory->Released(); });
  memory->Exported();
  return capsule;
}

PyType_Slot page_buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetBuffer)},
                                   {Py_bf_releasebuffer, reinterpret_cast<void*>(&ReleaseBuffer)},
                                   {0, nullptr}};

}  // namespace

void DefinePages(nb::module_ module) {
  [[maybe_unused]] const nb::class_<PageBuffer> buffer(module, "_PageBuffer",
                                                       nb::type_slots(page_buffer_slots));
  nb::class_<AllocHandle>(module, "AllocHandle",
                          "A page to write: `buf` is its memory, until it is stored or freed.")
      .def(nb::init<nb::object, uint32_t, uint32_t, uint64_t>(), nb::arg("buf"),
           nb::arg("_region_id"), nb::arg("_page_index"), nb::arg("_size"))
      .def_prop_ro("buf", &AllocHandle::buf, nb::sig("def buf(self) -> memoryview"),
                   "Writable memory of the page; released by store, batch_store, free and close. "
                   "The page is "
                   "used for nothing else while somebody has this or an array over it, a tensor of "
                   "torch.frombuffer among them.")
      .def("tensor", &TensorOf, nb::sig("def tensor(self) -> torch.Tensor"),
           "A torch tensor of the page's memory, uint8. The memory is not used for anything else "
           "while the tensor lives.")
      .def("__dlpack__", &CapsuleOf, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none(), nb::sig(kDlpackSignature))
      .def("__dlpack_device__", &DlpackDevice<AllocHandle>, nb::sig(kDlpackDeviceSignature))
      .def_prop_ro("region_id", &AllocHandle::region_id)
      .def_prop_ro("page_index", &AllocHandle::page_index)
      .def_prop_ro("size", &AllocHandle::size, "Bytes, as asked of alloc.")
      .def_prop_ro("_region_id", &AllocHandle::region_id)
      .def_prop_ro("_page_index", &AllocHandle::page_index)
      .def_prop_ro("_size", &AllocHandle::size);
}

}  // namespace maru::python
