// Seeds shared out over processes: one seed is one thread's work, and the hooks at publication
// points are a process's.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/tally.h"

namespace maru::sim {

inline constexpr uint64_t kWorkersMax = 64;

// Runs work(0) .. work(workers - 1), each in a process of its own, and adds their tallies to
// `tally`. True when every one of them returned true. One worker runs in this process.
bool RunWorkers(uint64_t workers, const std::function<bool(uint64_t worker, Tally*)>& work,
                Tally* tally);

}  // namespace maru::sim
