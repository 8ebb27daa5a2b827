// One question to a metadata endpoint (docs/formats/upstream_metadata.md) over a connection of its
// own, HANDSHAKE for one. Speaks ZeroMQ's protocol by itself (docs/decisions/0007-own-zmtp.md);
// waits in the calling thread, starts none but what os::Resolve needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/server_address.h"
#include "maru/result.h"
#include "wire/compat/metadata.h"

namespace maru::client {

// All of it within TIMEOUT_MS. Unavailable: nobody listens there, or the connection was closed;
// DeadlineExceeded; FailedPrecondition: what listens there speaks something else. Each names the
// address and, where there is one, the remedy. REQUIRES: SERVER has no socket.
Result<wire::compat::HandshakeReply> AskHandshake(const ServerAddress& server, uint32_t timeout_ms);

// The same with any whole request; the whole reply, of at most kZmtpReplyBytesMax, as it came.
Result<std::vector<std::byte>> AskEndpoint(const ServerAddress& server,
                                           std::span<const std::byte> request, uint32_t timeout_ms);

}  // namespace maru::client
