// The pools of a daemon, from the words of its command line until they are closed. A start that is
// refused drops no key: pools that are to be made take their paths last, one by one, and pools that
// were opened are closed in order again. Only a path that cannot be taken after another one's was
// comes too late for that one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "maru/result.h"
#include "os/file.h"
#include "pool/new_pool.h"
#include "pool/pool.h"

namespace maru::server {

struct PoolSpec {
  std::string path;
  uint64_t create_bytes = 0;  // made when it is not there; 0: must be there
  bool checksums = false;     // for a pool that is made
  bool fresh = false;         // made anew in any case
  std::string note;           // how its size was found, for people; may be empty
};

class PoolSet {
 public:
  PoolSet() = default;
  PoolSet(const PoolSet&) = delete;
  PoolSet& operator=(const PoolSet&) = delete;
  ~PoolSet() { CloseCleanly(); }

  // Steps of a start, each once and in this order. Errors name the pool and what to do.
  //
  // Takes the server's lock of every pool, checks what is there and makes, beside their paths,
  // those that are to be made. Nothing that was there is changed.
  Status Claim(std::span<const PoolSpec> specs);
  // Recovers what is in the pools.
  Status Open(const pool::OpenOptions& options);
  // The pools that were made take their paths: the end of a start that nothing can refuse any more.
  Status Publish();

  // All of them, if they were opened; no more than once. REQUIRES: nobody writes to them.
  void CloseCleanly();

  // In the order of the specs, after Open.
  std::vector<pool::Pool*> pools() const;
  std::vector<const os::File*> files() const;

 private:
  struct Member {
    PoolSpec spec;
    std::string path;                            // absolute
    std::unique_ptr<pool::NewPool> made;         // until it is published
    std::unique_ptr<pool::FileBacking> backing;  // until the pool has it
    const os::File* file = nullptr;
    std::unique_ptr<pool::Pool> pool;
  };
  static Status ClaimThere(Member* member);
  Status ClaimNew(Member* member);
  static Status OpenOne(const pool::OpenOptions& options, Member* member);

  std::vector<Member> members_;
};

}  // namespace maru::server
