// The commands, each defined in a file of its own.
#pragma once

#include "tools/command.h"

namespace maru::tools {

extern const Command kServe, kResourceManager, kServer;
extern const Command kPut, kGet, kExists, kRemove, kUnpin, kList;
extern const Command kRelease;
extern const Command kStat, kTop, kAudit;
extern const Command kReplay, kDemo, kBench;
extern const Command kPoolInit, kPoolInspect, kPoolCheck, kPoolDump, kPoolRenumber;
extern const Command kFrame;

// Not for people, and not in the help.
extern const Command kReplayInstance, kBenchWorker, kReference;

}  // namespace maru::tools
