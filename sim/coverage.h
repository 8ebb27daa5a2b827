// What a whole run has to have taken, by name, and the check that it has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/tally.h"

namespace maru::sim {

inline constexpr uint64_t kTakenMin = 10;

// Publication points of a serving process. Those of `maru pool init` and `renumber` are not among
// them, nor the two that a seed cannot come to: a further region table (2,048 regions) and a new id
// for a region of a renumbered pool. Crashes there are tests of src/pool. Regions that clients of
// upstream's protocols cut, and extents in them, are not simulated.
std::vector<std::string> ServingPoints();

// Points that a seed comes to a few times at most: some seeds die there more often than by chance.
const std::vector<std::string_view>& RarePoints();

// One line for each thing that was taken less than kTakenMin times, or that the lists do not know.
std::vector<std::string> MissingCoverage(const Tally& tally);

}  // namespace maru::sim
