// Pages from alloc to the end of their lives.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "client/client_impl.h"
#include "native/errors.h"
#include "native/handler.h"
#include "native/waits.h"

namespace maru::python {

namespace nb = nanobind;
using handler::Handler;
using handler::PageHandle;

namespace {

// Memory of a bytes-like object, as long as this lives.
class Bytes {
 public:
  explicit Bytes(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_C_CONTIGUOUS) != 0) {
      throw nb::python_error();
    }
  }
  ~Bytes() { PyBuffer_Release(&buffer_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  const void* data() const { return buffer_.buf; }
  size_t size() const { return static_cast<size_t>(buffer_.len); }

 private:
  Py_buffer buffer_;
};

constexpr size_t kCopyWithLockMax = 64 << 10;

void Copy(void* to, const Bytes& from) {
  if (from.size() <= kCopyWithLockMax) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  const WithoutLock released;
  std::memcpy(to, from.data(), from.size());
}

// Somebody who writes to a page while this lives: neither closing nor storing it hands its memory
// to others.
class Writer {
 public:
  explicit Writer(std::shared_ptr<PageMemory> memory) : memory_(std::move(memory)) {
    memory_->Exported();
  }
  ~Writer() { memory_->Released(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

 private:
  const std::shared_ptr<PageMemory> memory_;
};

// None is no handle, though it casts to a pointer.
bool HandleOf(nb::handle object, const AllocHandle** handle) {
  return !object.is_none() && nb::try_cast(object, *handle);
}

}  // namespace

PageHandle NativeHandler::Open(const AllocHandle& handle,
                               std::shared_ptr<PageMemory>* memory) const {
  *memory = handle.memory();
  if (*memory == nullptr) *memory = pages_->Find({handle.region_id(), handle.page_index()});
  if (*memory != nullptr && !(*memory)->OfHandler(client()->impl().weak_handler())) {
    Raise(InvalidArgument("page " + std::to_string(handle.page_index()) + " of region " +
                          std::to_string(handle.region_id()) + " is another handler's"));
  }
  if (*memory != nullptr) {
    PageHandle page = (*memory)->handle();
    // An adapter knows the page, not what was asked of alloc.
    if (handle.memory() == nullptr) page.size_bytes = options_.page_bytes;
    return page;
  }
  return ValueOrRaise(handler().FromAddress(handle.region_id(), handle.page_index()));
}

bool NativeHandler::FreeIfHeld(const AllocHandle& handle) {
  const auto& memory = handle.memory();
  if (memory == nullptr || !memory->open() || client_ == nullptr) return false;
  if (!memory->OfHandler(client_->impl().weak_handler())) return false;
  Free(handle);
  return true;
}

AllocHandle NativeHandler::Alloc(uint64_t size) {
  const auto client = this->client();
  Result<PageHandle> page = [&] {
    const LetGoInWaits waits;
    return client->impl().handler().Alloc(size);
  }();
  const auto memory = std::make_shared<PageMemory>(client->impl().weak_handler(),
                                                   ValueOrRaise(std::move(page)), pages_);
  pages_->Add(memory);
  return AllocHandle(memory);
}

void NativeHandler::Free(const AllocHandle& handle) {
  const auto client = this->client();
  std::shared_ptr<PageMemory> memory;
  const PageHandle page = Open(handle, &memory);
  PageInCall in_call(memory);
  const Status freed = [&] {
    const LetGoInWaits waits;
    return client->impl().handler().Free(page);
  }();
  OkOrRaise(freed);
  in_call.Consumed();
}

AllocHandle NativeHandler::Filled(nb::handle data) {
  const Bytes bytes(data);
  AllocHandle handle = Alloc(bytes.size());
  const Writer writer(handle.memory());
  Copy(handle.memory()->handle().data, bytes);
  return handle;
}

bool NativeHandler::Store(nb::handle key, const AllocHandle* handle, nb::handle data) {
  if ((handle == nullptr) == data.is_none()) {
    PyErr_SetString(PyExc_TypeError, "store takes a handle or data, one of the two");
    throw nb::python_error();
  }
  const auto client = this->client();
  const Key named(key);
  const std::string_view text = named.view();
  const AllocHandle own = handle == nullptr ? Filled(data) : *handle;
  std::shared_ptr<PageMemory> memory;
  const PageHandle page = Open(own, &memory);
  PageInCall in_call(memory);
  const Result<bool> stored = [&] {
    const WithoutLock released;
    return client->impl().handler().Store(text, page, own.size());
  }();
  const bool there = ValueOrRaise(stored);
  in_call.Consumed();
  return there;
}

nb::list NativeHandler::BatchStore(nb::handle keys, nb::handle handles) {
  const auto client = this->client();
  const Keys texts(keys);
  const auto given =
      nb::borrow<nb::tuple>(Calling([&] { return PySequence_Tuple(handles.ptr()); }));
  if (given.size() != texts.size()) {
    Raise(InvalidArgument("batch_store of " + std::to_string(texts.size()) + " keys and " +
                          std::to_string(given.size()) + " handles"));
  }
  std::vector<AllocHandle> filled;  // of data
  std::vector<std::shared_ptr<PageMemory>> memories(texts.size());
  std::vector<Handler::StoreItem> items(texts.size());
  filled.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const AllocHandle* handle = nullptr;
    if (!HandleOf(given[i], &handle)) {
      filled.push_back(Filled(given[i]));
      handle = &filled.back();
    }
    items[i] = {texts.views()[i], Open(*handle, &memories[i]), handle->size()};
  }
  std::vector<PageInCall> in_call;
  in_call.reserve(texts.size());
  for (const auto& memory : memories) in_call.emplace_back(memory);
  const Result<std::vector<bool>> stored = [&] {
    const WithoutLock released;
    return client->impl().handler().BatchStore(items);
  }();
  const std::vector<bool> answers = ValueOrRaise(stored);
  for (PageInCall& page : in_call) page.Consumed();
  return ListOf(answers);
}

}  // namespace maru::python
