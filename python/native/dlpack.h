// DLPack 1.x: memory of a pool as a one-dimensional tensor of bytes, for whoever reads the protocol
// (numpy, torch, jax). The capsule owns what keeps the memory; its consumer lets go of it, from any
// thread.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace maru::python {

enum class Access : uint8_t { kReadOnly, kWritable };

// What a consumer asks of __dlpack__(stream, max_version, dl_device, copy).
struct TensorRequest {
  nanobind::handle max_version, dl_device, copy;
};

// A capsule over BYTES. LET_GO is called once, under the interpreter lock, when the consumer is
// done, or when nobody has taken the capsule. BufferError, and LET_GO is not called: read-only
// memory for a consumer of a version that has no flag for it, another device, a copy.
nanobind::object MakeTensorCapsule(std::span<const std::byte> bytes, Access access,
                                   const TensorRequest& request, std::function<void()> let_go);

// __dlpack_device__: the host.
template <typename Self>
nanobind::tuple DlpackDevice(const Self&) {
  return nanobind::make_tuple(1, 0);
}

// torch's tensor over what SELF exports.
nanobind::object TensorOf(nanobind::handle self);

inline constexpr const char* kDlpackSignature =
    "def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | None = None, "
    "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> "
    "typing_extensions.CapsuleType";
inline constexpr const char* kDlpackDeviceSignature =
    "def __dlpack_device__(self) -> tuple[int, int]";

}  // namespace maru::python
