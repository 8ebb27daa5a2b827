// From a metadata endpoint to the unix socket of the same server: what HANDSHAKE tells, judged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/server_address.h"
#include "maru/result.h"
#include "wire/compat/metadata.h"

namespace maru::client {

struct Road {
  std::vector<std::string> sockets;  // each a path or "@name"; the first that leads there is taken
  std::string pool;                  // uuid that the answer to attach has to name; empty: any
  std::string name_space;            // the endpoint's
};

// FailedPrecondition: not a server of ours, or on another host than HERE (os::HostIdentity); names
// the server and the remedy.
Result<Road> JudgeHandshake(const ServerAddress& server, const wire::compat::HandshakeReply& reply,
                            const std::string& here);

// The socket that SERVER is, or those that its endpoint tells; beside the errors of JudgeHandshake
// those of AskHandshake.
Result<Road> FindRoad(const ServerAddress& server, uint32_t timeout_ms);

}  // namespace maru::client
