#include "wire/auth/handle_mac.h"

#include <sodium.h>

#include <cstring>
#include <string>

#include "base/bytes.h"

namespace maru::wire::auth {

static_assert(HandleMac::kKeyBytes == crypto_shorthash_KEYBYTES);
static_assert(sizeof(compat::Handle::auth_token) == crypto_shorthash_BYTES);

Result<HandleMac> HandleMac::Create(std::span<const std::byte> key) {
  if (key.size() != kKeyBytes) {
    return InvalidArgument("a key of " + std::to_string(key.size()) + " bytes, expected " +
                           std::to_string(kKeyBytes));
  }
  std::array<unsigned char, kKeyBytes> copy;
  std::memcpy(copy.data(), key.data(), key.size());
  return HandleMac(copy);
}

compat::Handle HandleMac::Sign(compat::Handle handle) const {
  std::array<std::byte, 24> named;
  StoreLittle(&named[0], handle.region_id);
  StoreLittle(&named[8], handle.offset_bytes);
  StoreLittle(&named[16], handle.length_bytes);
  std::array<std::byte, crypto_shorthash_BYTES> token;
  crypto_shorthash(reinterpret_cast<unsigned char*>(token.data()),
                   reinterpret_cast<const unsigned char*>(named.data()), named.size(), key_.data());
  handle.auth_token = LoadLittle<uint64_t>(token.data());
  return handle;
}

bool HandleMac::Verify(const compat::Handle& handle) const {
  const uint64_t expected = Sign(handle).auth_token;
  return sodium_memcmp(&expected, &handle.auth_token, sizeof(expected)) == 0;
}

}  // namespace maru::wire::auth
