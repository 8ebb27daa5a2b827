// A client's leases and pins on the pages of one pool: the slots that it fills in its own lease
// area, one for each (page, generation), counted inside the process. Protocol:
// docs/memory_model.md.
//
// Thread-safe. Locks are this process's own: no other process waits for them. The destructor leaves
// the area as it is: what is held is held until the server sees that the client is gone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/ids.h"
#include "catalogue/view.h"
#include "layout/lease_area.h"

namespace maru::catalogue {

enum class LeaseOutcome : uint8_t {
  kHeld = 0,      // the bytes of that life of the page do not change until Release
  kGone = 1,      // another life, or a state that no reader may hold: nothing is held, find again
  kRetiring = 2,  // RETIRING in that life: the slot is kept meanwhile; ask the server, then Confirm
  kNoSlot = 3,    // the area is full: ask the server for blocks, AddBlock, try again
};

class Leases {
 public:
  // REQUIRES: header and blocks are the client's own blocks, mapped read-write, zeroed, not used by
  // another Leases, outlive this; the view is of the same pool.
  Leases(PoolView view, layout::LeaseHeader* header, std::span<layout::LeaseSlots* const> blocks);
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // The block of the next ordinal; beyond kLeaseBlocksPerClientMax it is left unused.
  void AddBlock(layout::LeaseSlots* block);

  // Takes a slot for (record, generation) or joins this process's own, once its check has
  // succeeded. While another thread has a kRetiring of the same page to Confirm, waits for it.
  LeaseOutcome Acquire(RecordNumber record, Generation generation);
  // A slot for a page that is granted to this client in that life, before it may become a key's:
  // nobody else can end that life, so there is nothing to check. Never kRetiring.
  LeaseOutcome AcquireGranted(RecordNumber record, Generation generation);
  // Sets the pin mark by one exchange in the same slot and checks again. A refused upgrade leaves
  // the lease that was there. A pin is counted apart from leases and holds the page as one: n pins
  // need n unpins.
  LeaseOutcome Pin(RecordNumber record, Generation generation);
  // After kRetiring, by the caller who got it and in any case, since others wait for it: what the
  // server said when it was asked since. Live: the lease (pin) is held, unless the record says by
  // now that this life is over (kGone). Else it is dropped: kGone.
  enum class Server : uint8_t { kSaysLive, kSaysGone };
  enum class What : uint8_t { kLease, kPin };
  LeaseOutcome Confirm(RecordNumber record, Generation generation, What what, Server verdict);

  // REQUIRES: held. Drops one count; the slot is emptied (release) with the last.
  void Release(RecordNumber record, Generation generation);
  // False: not pinned by this client in that life.
  bool Unpin(RecordNumber record, Generation generation);
  bool Pinned(RecordNumber record, Generation generation) const;

  // Recency: one entry in the touch ring; the server drains it.
  void Touch(RecordNumber record);
  // Published for the server's audit.
  struct Counts {
    uint64_t free_pages = 0, pending_pages = 0, held_pages = 0, last_request = 0;
  };
  void Publish(const Counts& counts);
  // How many free pages the server would like to have back; 0: none.
  uint64_t recall() const;

  // Blocks of slots added so far.
  uint32_t blocks() const;
  uint64_t slots_in_use() const;
  // Slots with the pin mark that is counted.
  uint64_t pins() const;

  // In a forked child: nothing here touches the (unmapped) area any more. Acquire and Pin answer
  // kGone, the rest does nothing.
  void MakeInert();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maru::catalogue
