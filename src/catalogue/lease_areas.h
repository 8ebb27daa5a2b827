// The server's side of the lease areas of one pool: which blocks are whose, and what their clients
// wrote there. Nothing found in a client's block is trusted: each value is bounds-checked.
//
// Single-threaded, the server's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "catalogue/space.h"
#include "catalogue/view.h"
#include "layout/client.h"
#include "layout/state_word.h"
#include "maru/result.h"

namespace maru::catalogue {

class LeaseAreas {
 public:
  // Reads the directories of all lease regions and the client table. DataLoss when a directory
  // names a client that the table does not, or a block twice: such blocks are dropped and told.
  static Result<std::unique_ptr<LeaseAreas>> Open(std::byte* base, uint64_t bytes,
                                                  SpaceSource* space);
  ~LeaseAreas();

  // A client in the client table and its first blocks (header and one block of slots), zeroed.
  struct Identity {
    ClientId id{0};
    uint32_t pid = 0;
    uint32_t uid = 0;
    std::string_view label;
    uint64_t budget_bytes = 0;
    uint64_t attached_unix_ns = 0;
  };
  Status AddClient(ClientSlot slot, const Identity& identity);
  // ResourceExhausted beyond kLeaseBlocksPerClientMax or when the pool is full.
  Result<uint64_t> AddBlock(ClientSlot slot);
  // The client is dead: its leases and pins end, its blocks are free, its slot is free.
  void DropClient(ClientSlot slot);

  // Offsets of the client's blocks, by ordinal.
  std::vector<uint64_t> Blocks(ClientSlot slot) const;
  std::vector<ClientSlot> Clients() const;
  const layout::ClientRecord& Record(ClientSlot slot) const;

  // Every filled slot up to each client's high-water mark, read seq_cst.
  void Scan(const std::function<void(ClientSlot, layout::SlotWord)>& visit) const;
  // Touches since the last drain, oldest first; what the ring has overwritten is lost.
  void DrainTouches(ClientSlot slot, const std::function<void(RecordNumber)>& visit);

  struct Counts {
    uint64_t free_pages = 0, pending_pages = 0, held_pages = 0, last_request = 0;
    uint64_t leases = 0, pins = 0;
  };
  Counts ReadCounts(ClientSlot slot) const;

 private:
  class Impl;
  explicit LeaseAreas(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace maru::catalogue
