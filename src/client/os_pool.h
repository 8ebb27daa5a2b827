// A pool as it is mapped in this process: whole and read-only, its page regions read-write as they
// are written to, this client's own lease blocks read-write. Holds the descriptor whose lock says
// that the client lives; that and the leases end with the last owner (the handler or a view).
//
// Thread-safe. In a forked child it is inert (fork_guard.h): bytes stay readable, nothing is
// released.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "client/fork_guard.h"
#include "client/unshared_fds.h"
#include "handler/handler.h"
#include "os/file.h"
#include "os/mapping.h"

namespace maru::client {

class OsPool final : public handler::MappedPool, private ForkAware {
 public:
  // What is faulted in when the pool is mapped: a quarter of a second where pages are small.
  static constexpr uint64_t kFaultInBytesMax = uint64_t{4} << 30;

  // As they come with an attach answer, three for each pool: to map read-only, to map read-write,
  // and the one that holds the lock.
  static constexpr size_t kDescriptors = 3;
  // Takes over the three from FIRST on. DataLoss names what does not fit: a superblock that is
  // none, another uuid than the answer's, lease blocks out of bounds or named twice.
  static Result<std::shared_ptr<OsPool>> Map(const wire::AttachedPool& attached,
                                             UnsharedFds* descriptors, size_t first);

  const catalogue::PoolView& view() const override { return view_; }
  const layout::Uuid& uuid() const override { return uuid_; }
  bool checksums() const override { return checksums_; }
  catalogue::Leases& leases() override { return *leases_; }
  Result<std::byte*> Writable(uint64_t offset_bytes, uint64_t length_bytes) override;
  std::vector<uint64_t> LeaseBlocks() const override;
  Status AddLeaseBlocks(std::span<const uint64_t> offsets) override;

 private:
  OsPool(const wire::AttachedPool& attached, os::File read_write, os::Mapping whole);
  ~OsPool() override;
  // What another thread of the parent was changing when a child was forked may be half changed in
  // the child: there nothing of it is taken apart.
  static void DeleteUnlessInert(OsPool* pool);
  Result<std::byte*> MapBlock(uint64_t offset_bytes);
  // So that look-ups meet no page faults: what the catalogue has by now.
  void FaultInCatalogue() const;
  // The page region that a range lies in.
  bool RegionOf(uint64_t offset_bytes, uint64_t length_bytes, uint64_t* region_offset_bytes,
                uint64_t* region_length_bytes) const;
  void InForkedChild() override;

  const layout::Uuid uuid_;
  const bool checksums_;
  const os::File read_write_;
  UnsharedFds lock_;
  const os::Mapping whole_;
  const catalogue::PoolView view_;

  SharedMutex regions_mutex_;
  std::map<uint64_t, os::Mapping> regions_ MARU_GUARDED_BY(regions_mutex_);  // by offset
  // Mappings that a longer one replaced: pages in the application's hands may lie in them.
  std::vector<os::Mapping> retired_ MARU_GUARDED_BY(regions_mutex_);
  mutable Mutex blocks_mutex_;
  std::map<uint64_t, size_t> ordinals_ MARU_GUARDED_BY(blocks_mutex_);  // by offset
  std::vector<os::Mapping> blocks_ MARU_GUARDED_BY(blocks_mutex_);
  std::unique_ptr<catalogue::Leases> leases_;  // goes before the blocks
  bool inert_ = false;                         // written while the child has one thread
  const ForkRegistration fork_registration_{this};
};

}  // namespace maru::client
