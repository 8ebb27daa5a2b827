#include "tools/commands.h"

namespace maru::tools {

std::span<const Command* const> Commands() {
  static constexpr const Command* kAll[] = {
      &kServe,       &kDemo,      &kPut,          &kGet,           &kExists, &kRemove,
      &kUnpin,       &kList,      &kStat,         &kAudit,         &kReplay, &kPoolInit,
      &kPoolInspect, &kPoolCheck, &kPoolRenumber, &kReplayInstance};
  return kAll;
}

}  // namespace maru::tools
