// The server's side of the lease areas of one pool: which blocks are whose, and what their clients
// wrote there. Nothing found in a client's block is trusted: each value is bounds-checked.
//
// What a crash leaves: one that came is in the client table with all of its blocks or not at all,
// one that went is there with fewer blocks or none (its record comes last, and goes last).
//
// Single-threaded, the server's; clients write their blocks beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
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
  // REQUIRES: base is the pool mapped read-write, of a valid superblock; the server's lock is held;
  // `space` outlives this.
  // Reads the directories of all lease regions and the client table. Blocks of a client that the
  // table does not name are what a crash left, and become free. Blocks that no server names like
  // that (an impossible owner, one block of a client twice, one behind a gap) become free too and
  // are told by dropped(). DataLoss: the region table or a client's record is impossible.
  static Result<std::unique_ptr<LeaseAreas>> Open(std::byte* base, uint64_t bytes,
                                                  SpaceSource* space);
  ~LeaseAreas();
  LeaseAreas(const LeaseAreas&) = delete;
  LeaseAreas& operator=(const LeaseAreas&) = delete;

  // What Open dropped because of damage, a line each; at most kDroppedLinesMax of them.
  static constexpr size_t kDroppedLinesMax = 64;
  const std::vector<std::string>& dropped() const;

  // A client in the client table and its first blocks (header and one block of slots), zeroed.
  struct Identity {
    ClientId id{0};
    uint32_t pid = 0;
    uint32_t uid = 0;
    std::string_view label = {};  // kept up to 63 bytes, and up to the first zero byte
    uint64_t budget_bytes = 0;
    uint64_t attached_unix_ns = 0;
  };
  // ResourceExhausted when the pool has no room: nothing has changed. REQUIRES: the slot is free,
  // the id is not 0.
  Status AddClient(ClientSlot slot, const Identity& identity);
  // One more block of slots. ResourceExhausted beyond kLeaseBlocksPerClientMax or when the pool is
  // full. REQUIRES: the slot is a client's.
  Result<uint64_t> AddBlock(ClientSlot slot);
  // The client is dead: its leases and pins end, its blocks are free, its slot is free. Nothing for
  // a slot without a client.
  void DropClient(ClientSlot slot);

  // Offsets of the client's blocks, by ordinal.
  std::vector<uint64_t> Blocks(ClientSlot slot) const;
  std::vector<ClientSlot> Clients() const;
  const layout::ClientRecord& Record(ClientSlot slot) const;

  // Every filled slot up to each client's high-water mark, read seq_cst: after Writer::Retire, a
  // reader whose slot is not met here meets RETIRING. Words that name no record or generation are
  // passed over.
  void Scan(const std::function<void(ClientSlot, layout::SlotWord)>& visit) const;
  // Touches since the last drain, oldest first; what the ring has overwritten is lost. At most
  // kTouchRingEntries; numbers of no record are passed over.
  void DrainTouches(ClientSlot slot, const std::function<void(RecordNumber)>& visit);

  // The first four are what the client says, unchecked.
  struct Counts {
    uint64_t free_pages = 0, pending_pages = 0, held_pages = 0, last_request = 0;
    uint64_t leases = 0, pins = 0;
  };
  Counts ReadCounts(ClientSlot slot) const;
  // Without leases and pins, which takes a look at each of its slots.
  Counts ReadPublished(ClientSlot slot) const;
  // How many pages the server wants back from the client; 0: none. REQUIRES: the slot is a
  // client's.
  void SetRecall(ClientSlot slot, uint64_t pages);

  // Bytes of the pool that lease regions take.
  uint64_t bytes() const;

 private:
  class Impl;
  explicit LeaseAreas(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace maru::catalogue
