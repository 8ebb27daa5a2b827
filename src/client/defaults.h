// What a client does where its options say nothing, and what they must not say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "maru/client.h"
#include "maru/result.h"
#include "maru/status.h"

namespace maru::client {

// Beside root and this process's own: as ClientOptions::server_user says. NotFound when there is no
// such user.
Result<std::optional<uint32_t>> TrustedServerUser(const ClientOptions& options);
// MARU_SOCKET, else /tmp/maru-UID.sock, where `maru serve` listens by default too.
std::string DefaultSocketPath();
// "host:pid".
std::string DefaultLabel();
// InvalidArgument names the option, its value and what is possible.
Status CheckOptions(const ClientOptions& options);

}  // namespace maru::client
