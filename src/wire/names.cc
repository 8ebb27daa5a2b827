#include "wire/names.h"

namespace maru::wire {

std::string_view MessageTypeName(MessageType type) {
  switch (type) {
    case MessageType::kAttach: return "attach";
    case MessageType::kSettle: return "settle";
    case MessageType::kGrant: return "grant";
    case MessageType::kRegister: return "register";
    case MessageType::kGiveBack: return "give-back";
    case MessageType::kFree: return "free";
    case MessageType::kResolve: return "resolve";
    case MessageType::kFind: return "find";
    case MessageType::kDelete: return "delete";
    case MessageType::kGrowLeases: return "grow-leases";
    case MessageType::kPing: return "ping";
    case MessageType::kInspect: return "inspect";
    case MessageType::kList: return "list";
    case MessageType::kAudit: return "audit";
    case MessageType::kUnpin: return "unpin";
    case MessageType::kRelease: return "release";
  }
  return "unknown";
}

std::string_view SettleVerdictName(SettleVerdict verdict) {
  switch (verdict) {
    case SettleVerdict::kKept: return "kept";
    case SettleVerdict::kLive: return "live";
    case SettleVerdict::kGone: return "gone";
  }
  return "unknown";
}

std::string_view RegisterOutcomeName(RegisterOutcome outcome) {
  switch (outcome) {
    case RegisterOutcome::kRegistered: return "registered";
    case RegisterOutcome::kDuplicate: return "duplicate";
    case RegisterOutcome::kStale: return "stale";
    case RegisterOutcome::kRejected: return "rejected";
  }
  return "unknown";
}

std::string_view FreeOutcomeName(FreeOutcome outcome) {
  switch (outcome) {
    case FreeOutcome::kFreed: return "freed";
    case FreeOutcome::kPinned: return "pinned";
    case FreeOutcome::kStale: return "stale";
  }
  return "unknown";
}

std::string_view DeleteOutcomeName(DeleteOutcome outcome) {
  switch (outcome) {
    case DeleteOutcome::kDeleted: return "deleted";
    case DeleteOutcome::kMissing: return "missing";
    case DeleteOutcome::kPinned: return "pinned";
  }
  return "unknown";
}

std::string_view InspectTopicName(InspectTopic topic) {
  switch (topic) {
    case InspectTopic::kSummary: return "summary";
    case InspectTopic::kClients: return "clients";
    case InspectTopic::kRegions: return "regions";
    case InspectTopic::kCondemned: return "condemned";
  }
  return "unknown";
}

std::string_view ReleaseModeName(ReleaseMode mode) {
  switch (mode) {
    case ReleaseMode::kTell: return "tell";
    case ReleaseMode::kRelease: return "release";
    case ReleaseMode::kForce: return "force";
  }
  return "unknown";
}

std::string_view ReleaseVerdictName(ReleaseVerdict verdict) {
  switch (verdict) {
    case ReleaseVerdict::kReleased: return "released";
    case ReleaseVerdict::kLeased: return "leased";
    case ReleaseVerdict::kConnected: return "connected";
  }
  return "unknown";
}

}  // namespace maru::wire
