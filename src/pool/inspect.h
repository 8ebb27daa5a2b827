// What lies in a pool, for people and for programs: read-only, at rest or being served. Judges
// little: check.h does.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "layout/state_word.h"
#include "layout/superblock.h"
#include "layout/values.h"
#include "maru/result.h"
#include "pool/pool_image.h"
#include "pool/region_scan.h"

namespace maru::pool {

// Pages by state; the states of layout::PageState are the places.
using StateCounts = std::array<uint64_t, layout::kPageStateLast + 1>;
uint64_t SumOf(const StateCounts& counts);
// "3 free, 1 live", only what there is; "none" without pages.
std::string StatesText(const StateCounts& counts);

struct PoolReport {
  struct Kind {
    layout::RegionKind kind = layout::RegionKind::kNone;
    uint64_t regions = 0;
    uint64_t bytes = 0;
  };
  struct PageSize {
    uint64_t regions = 0;
    StateCounts states{};
  };
  struct Client {
    ClientSlot slot{0};
    layout::ClientValues values{};
    bool lives = false;  // a process holds its lock
  };

  std::string path;
  PoolUse use = PoolUse::kAtRest;
  layout::Superblock superblock{};
  layout::RootValues root{};
  uint64_t free_bytes = 0;
  std::vector<Kind> kinds;                  // those that there are
  std::vector<Region> regions;              // by offset
  std::map<uint64_t, PageSize> page_sizes;  // by page size
  std::vector<Client> clients;
  std::vector<std::string> offences;  // of the region table (RegionScan), at most its maximum
};

// Of a pool that is being served, numbers of different moments.
Result<PoolReport> InspectPool(const std::string& path);

// The report in lines, as `maru pool inspect` prints it.
std::vector<std::string> DescribePool(const PoolReport& report);

}  // namespace maru::pool
