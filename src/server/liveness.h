// The locks on the liveness bytes, as the server takes and tests them. Each lock is taken through
// an open file description that was just made and is passed on to the client; the server keeps
// none, so the lock is held exactly while the client's descriptors live.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "os/file.h"
#include "os/unique_fd.h"

namespace maru::server {

class OsLiveness final : public engine::Liveness {
 public:
  // REQUIRES: the files outlive this; their order is that of the pools.
  explicit OsLiveness(std::vector<const os::File*> pools) : pools_(std::move(pools)) {}

  Status Take(ClientSlot slot) override;
  bool Held(ClientSlot slot, PoolIndex pool) const override;

  // The descriptors of the last Take of that slot, one for each pool; they are the caller's now.
  std::vector<os::UniqueFd> TakenDescriptors(ClientSlot slot);
  // Closes what was taken and not asked for.
  void DropTaken() { taken_.clear(); }

 private:
  const std::vector<const os::File*> pools_;
  std::map<ClientSlot, std::vector<os::UniqueFd>> taken_;
};

}  // namespace maru::server
