// The commands, each defined in a file of its own.
#pragma once

#include "tools/command.h"

namespace maru::tools {

extern const Command kServe;
extern const Command kPut, kGet, kExists, kRemove, kUnpin, kList;
extern const Command kStat, kAudit;
extern const Command kReplay, kDemo;
extern const Command kPoolInit, kPoolInspect, kPoolCheck, kPoolRenumber;
extern const Command kReplayInstance;  // not for people: not in the help

}  // namespace maru::tools
