// How a server takes over the pools that an earlier one has left.
#pragma once

#include <vector>

#include "engine/attach.h"
#include "engine/core.h"
#include "engine/retire.h"

namespace maru::engine {

class Recovery {
 public:
  Recovery(Core* core, Retirement* retirement) : core_(core), retirement_(retirement) {}

  // REQUIRES: the core has its stocks, all of them empty.
  void Run();

 private:
  // Honours the clients of the pool's table whose lock is held, as detached; drops the others.
  void TakeOverClients(Stock* stock);
  void TakeOverPages(Stock* stock);
  // No hold reaches further than one that begins now: who was told of it has ended with the
  // machine, or was told it for no longer. A wall clock that was ahead says more.
  uint64_t HoldMax(const Stock& stock) const;
  void BoundHold(Stock* stock, RecordNumber record);
  void TakeOverExtents(Stock* stock);
  // Keys that are LIVE in an earlier pool as well.
  void RetireSecondKeys(Stock* stock);
  void AddSecond(Stock* stock, RecordNumber record, std::vector<Target>* second) const;

  Core* core_;
  Retirement* retirement_;
};

}  // namespace maru::engine
