// What LeaseAreas is made of; shared by the files that implement it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "catalogue/lease_areas.h"
#include "catalogue/lease_blocks.h"
#include "catalogue/pool_memory.h"

namespace maru::catalogue {

class LeaseAreas::Impl {
 public:
  Impl(std::byte* base, uint64_t bytes, SpaceSource* space)
      : memory(base, bytes), blocks(&memory, space) {}

  struct Client {
    std::vector<uint64_t> blocks;  // offsets by ordinal; [0] is the header; empty: no client
    uint64_t drained = 0;          // touches up to here were drained
  };

  // lease_areas_open.cc
  Status Open();

  // REQUIRES: the slot is in range and a client's.
  const layout::LeaseHeader& Header(ClientSlot slot) const {
    return *memory.At<layout::LeaseHeader>(clients[slot.value()].blocks.at(0));
  }
  // Calls visit(SlotWord) for every valid one below the client's high-water mark.
  template <typename Visit>
  void VisitSlots(ClientSlot slot, const Visit& visit) const;

  PoolMemory memory;
  LeaseBlocks blocks;
  std::array<Client, layout::kClientSlots> clients;
  // Slots from here on are nobody's: most pools have a few clients, and each retirement scans them.
  uint16_t clients_end = 0;
  // To be called after a client was added to a slot or dropped from it.
  void FindClientsEnd();
  std::vector<std::string> dropped;

 private:
  struct Named {
    uint64_t offset_bytes = 0;
    layout::BlockOwner owner;
  };
  void AdoptBlocks(std::vector<Named> named);
  void DropBlock(const Named& block, const std::string& why);
};

}  // namespace maru::catalogue
