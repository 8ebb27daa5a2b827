#pragma once

// A secret key in a file of its own, made at random when it is first asked for.

#include <cstddef>
#include <string>
#include <vector>

#include "maru/result.h"

namespace maru::os {

inline constexpr std::size_t kSecretBytesMax = 256;

// The KEY_BYTES of the file at PATH; made with mode 0600 when there is none, whole or not at all,
// also when two processes make it at once. PermissionDenied when others may read or write it or it
// is another user's, DataLoss when it has another size; it is left alone then.
// REQUIRES: 0 < key_bytes <= kSecretBytesMax
Result<std::vector<std::byte>> LoadOrMakeSecret(const std::string& path, std::size_t key_bytes);

}  // namespace maru::os
