// A pool file opened to be looked at: mapped read-only, nothing of it is changed, also while a
// server has it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "catalogue/view.h"
#include "layout/superblock.h"
#include "maru/result.h"
#include "os/file.h"
#include "os/mapping.h"

namespace maru::pool {

enum class PoolUse : uint8_t {
  kAtRest,
  kServed,  // a server's lock is held
};

class PoolImage {
 public:
  // As OpenPoolFile, and the whole file must be mappable.
  static Result<PoolImage> Open(const std::string& path);

  const std::string& path() const { return file_.name(); }
  const layout::Superblock& superblock() const { return superblock_; }
  const catalogue::PoolView& view() const { return view_; }
  // As it is at the call.
  Result<PoolUse> Use() const;
  // Whether a process holds the lock of that client.
  Result<bool> ClientLives(ClientSlot slot) const;

 private:
  PoolImage(os::File file, os::Mapping mapping, const layout::Superblock& superblock);

  os::File file_;
  os::Mapping mapping_;
  layout::Superblock superblock_;
  catalogue::PoolView view_;
};

// This boot of this machine, as OpenOptions and the root have it.
Result<std::array<uint64_t, 2>> MachineBootId();

}  // namespace maru::pool
