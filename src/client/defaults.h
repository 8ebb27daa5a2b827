// What a client does where its options say nothing, and what they must not say.
#pragma once

#include <string>

#include "maru/client.h"
#include "maru/status.h"

namespace maru::client {

// MARU_SOCKET, else /tmp/maru-UID.sock, where `maru serve` listens by default too.
std::string DefaultSocketPath();
// "host:pid".
std::string DefaultLabel();
// InvalidArgument names the option, its value and what is possible.
Status CheckOptions(const ClientOptions& options);

}  // namespace maru::client
