#include "native/dlpack.h"

#include <array>
#include <memory>
#include <utility>

#include "native/waits.h"

namespace maru::python {

namespace nb = nanobind;

namespace {

// The protocol's own structs and numbers, of its C interface.
constexpr int32_t kDeviceCpu = 1;
constexpr uint8_t kTypeUnsigned = 1;
constexpr uint64_t kFlagReadOnly = 1;
constexpr uint32_t kMajor = 1, kMinor = 0;

struct Version {
  uint32_t major, minor;
};
struct Device {
  int32_t type, id;
};
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  int32_t dimensions;
  DataType type;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};
struct ManagedTensorVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned*);
  uint64_t flags;
  Tensor tensor;
};
static_assert(sizeof(Tensor) == 48 && sizeof(ManagedTensor) == 64);
static_assert(sizeof(ManagedTensorVersioned) == 80);

// One of the two, its shape, and what the consumer's deleter lets go of.
template <typename Managed>
struct Exported {
  Managed managed;
  std::array<int64_t, 1> shape, strides;
  std::function<void()> let_go;
};

template <typename Managed>
void Delete(Managed* managed) {
  // The process is ending: the pool's memory goes with it.
  if (!Py_IsInitialized()) return;
  const WithLock lock;
  const std::unique_ptr<Exported<Managed>> exported(
      static_cast<Exported<Managed>*>(managed->context));
  exported->let_go();
}

template <typename Managed>
constexpr const char* kName = nullptr;
template <>
constexpr const char* kName<ManagedTensor> = "dltensor";
template <>
constexpr const char* kName<ManagedTensorVersioned> = "dltensor_versioned";

// A capsule that somebody has taken has another name by then.
template <typename Managed>
void DropCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kName<Managed>) == 0) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kName<Managed>));
  managed->deleter(managed);
}

template <typename Managed>
nb::object CapsuleOf(std::span<const std::byte> bytes, Access access,
                     std::function<void()> let_go) {
  auto exported = std::make_unique<Exported<Managed>>();
  exported->shape = {static_cast<int64_t>(bytes.size())};
  exported->strides = {1};
  exported->managed = {};
  exported->managed.context = exported.get();
  exported->managed.deleter = &Delete<Managed>;
  // The cast is the protocol's; the flag says that nobody may write.
  exported->managed.tensor = {.data = const_cast<std::byte*>(bytes.data()),
                              .device = {kDeviceCpu, 0},
                              .dimensions = 1,
                              .type = {kTypeUnsigned, 8, 1},
                              .shape = exported->shape.data(),
                              .strides = exported->strides.data(),
                              .byte_offset = 0};
  if constexpr (requires { exported->managed.flags; }) {
    exported->managed.version = {kMajor, kMinor};
    exported->managed.flags = access == Access::kReadOnly ? kFlagReadOnly : 0;
  }
  nb::object capsule =
      nb::steal(PyCapsule_New(&exported->managed, kName<Managed>, &DropCapsule<Managed>));
  if (!capsule.is_valid()) throw nb::python_error();
  exported->let_go = std::move(let_go);
  exported.release();  // the capsule's from here on
  return capsule;
}

[[noreturn]] void Refuse(const char* why) {
  PyErr_SetString(PyExc_BufferError, why);
  throw nb::python_error();
}

}  // namespace

nb::object MakeTensorCapsule(std::span<const std::byte> bytes, Access access,
                             const TensorRequest& request, std::function<void()> let_go) {
  if (!request.copy.is_none() && nb::cast<bool>(request.copy)) {
    Refuse("memory of a pool is never copied: copy what was made of it");
  }
  if (!request.dl_device.is_none() &&
      !nb::make_tuple(kDeviceCpu, 0).equal(nb::handle(request.dl_device))) {
    Refuse("memory of a pool is on the host, device (1, 0)");
  }
  const bool versioned =
      !request.max_version.is_none() && nb::cast<uint32_t>(request.max_version[0]) >= kMajor;
  if (versioned) return CapsuleOf<ManagedTensorVersioned>(bytes, access, std::move(let_go));
  if (access == Access::kReadOnly) {
    Refuse("read-only memory, which DLPack before 1.0 cannot say");
  }
  return CapsuleOf<ManagedTensor>(bytes, access, std::move(let_go));
}

nb::object TensorOf(nb::handle self) {
  const nb::object torch = Calling([] { return PyImport_ImportModule("torch"); });
  return Calling([&] { return PyObject_CallMethod(torch.ptr(), "from_dlpack", "O", self.ptr()); });
}

}  // namespace maru::python
