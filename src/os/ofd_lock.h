#pragma once

// Exclusive locks on single bytes of a file that belong to an open file description: every
// descriptor that shares the description shares the lock, which ends when the last of them is
// closed, also by the death of its process. A stopped process keeps it. Mappings made through a
// description keep it alive as well. The byte need not lie within the file. Thread-safe.

#include <cstdint>

#include "maru/result.h"

namespace maru::os {

enum class LockState { kFree, kHeld };
enum class LockAttempt { kTaken, kHeldByAnother };

// REQUIRES: FD is open for writing. Taking a lock again that this description holds succeeds.
Result<LockAttempt> TryLockByte(int fd, std::uint64_t offset_bytes);

// Whether another description holds the byte; FD's own lock does not count.
Result<LockState> TestByte(int fd, std::uint64_t offset_bytes);

}  // namespace maru::os
