// The token of a handle on upstream's wire: a keyed MAC of 64 bits over what the handle names, so
// that nobody makes one up. SipHash-2-4 (Aumasson and Bernstein, 2012) over three little-endian
// u64. The key never lies in memory that a client maps.
//
// Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "maru/result.h"
#include "wire/compat/metadata.h"

namespace maru::wire::auth {

class HandleMac {
 public:
  static constexpr size_t kKeyBytes = 16;

  // InvalidArgument for a key of another size.
  static Result<HandleMac> Create(std::span<const std::byte> key);

  // The handle with its token set.
  compat::Handle Sign(compat::Handle handle) const;
  // In a time that does not depend on the token.
  bool Verify(const compat::Handle& handle) const;

 private:
  explicit HandleMac(std::array<unsigned char, kKeyBytes> key) : key_(key) {}

  std::array<unsigned char, kKeyBytes> key_;
};

}  // namespace maru::wire::auth
