// A name for each number of the wire, for messages and tools.
#pragma once

#include <string_view>

#include "wire/messages.h"

namespace maru::wire {

// "attach", "register" and so on; "unknown" for a number that is none.
std::string_view MessageTypeName(MessageType type);
std::string_view SettleVerdictName(SettleVerdict verdict);
std::string_view RegisterOutcomeName(RegisterOutcome outcome);
std::string_view FreeOutcomeName(FreeOutcome outcome);
std::string_view DeleteOutcomeName(DeleteOutcome outcome);
std::string_view InspectTopicName(InspectTopic topic);
std::string_view ReleaseModeName(ReleaseMode mode);
std::string_view ReleaseVerdictName(ReleaseVerdict verdict);

}  // namespace maru::wire
