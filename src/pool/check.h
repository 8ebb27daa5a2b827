// Full verification of a pool at rest, read-only: what the superblock, the region table, the
// records, the key text, the index and the lease areas say must agree.
//
// Two kinds of findings. An offence is what no server leaves behind, also when it is killed: the
// pool is damaged. What a start would mend is what a killed server leaves: it is told, and no
// fault.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "maru/result.h"
#include "pool/inspect.h"

namespace maru::pool {

enum class VerifyBytes : uint8_t {
  kNo,
  kYes,  // reads every stored byte of a pool with checksums
};

// Findings of one kind: the first are listed, all are counted.
struct FindingList {
  static constexpr size_t kListedMax = 200;
  std::vector<std::string> listed;
  uint64_t count = 0;

  void Add(std::string finding);
};

struct CheckReport {
  std::string path;
  bool clean = false;  // closed in order by its last server, or never served
  bool never_served = false;
  bool rebooted = false;  // not clean, and the machine has started anew since
  FindingList offences;
  FindingList mends;  // what the next start mends

  uint64_t regions = 0;
  uint64_t pages = 0;
  StateCounts states{};  // of the pages of page regions; their sum is `pages`
  uint64_t keys = 0;     // LIVE and RETIRING
  uint64_t extents = 0;  // those of them in client-cut regions
  uint64_t extent_bytes = 0;
  uint64_t text_bytes = 0;  // of their names
  uint64_t index_entries = 0;
  uint64_t clients = 0;
  uint64_t verified_pages = 0;  // whose checksum agrees
  uint64_t verified_bytes = 0;

  bool ok() const { return offences.count == 0; }
};

// How far a check is: records looked at, of how many. Told between two of them.
using CheckProgress = std::function<void(uint64_t done, uint64_t all)>;

// FailedPrecondition while a server has the pool: it moves, and `maru audit` asks that server. An
// error status where nothing could be checked: no file, no pool, torn, another version.
Result<CheckReport> CheckPool(const std::string& path, VerifyBytes verify,
                              const CheckProgress& progress = {});

// The same for a pool that is mapped and rests. Of `report`, clean and rebooted are looked at, the
// rest is added to.
void CheckMapped(const catalogue::PoolView& view, VerifyBytes verify, CheckReport* report,
                 const CheckProgress& progress = {});

// In lines, as `maru pool check` prints it.
std::vector<std::string> DescribeCheck(const CheckReport& report);

}  // namespace maru::pool
