// An audit as a tool asks for it: step by step, to the end.
#pragma once

#include <cstdint>
#include <functional>

#include "maru/client.h"
#include "maru/result.h"
#include "wire/messages.h"

namespace maru::tools {

enum class AuditBytes : uint8_t { kLeave, kVerify };

// How far it is: looked at, of how much.
using AuditProgress = std::function<void(uint64_t done, uint64_t all)>;

// The last reply. Begins again when the server has started anew meanwhile, a few times, and waits
// while as many audits are under way as there may be.
Result<wire::AuditReply> WholeAudit(Client& client, AuditBytes bytes,
                                    const AuditProgress& progress);

}  // namespace maru::tools
