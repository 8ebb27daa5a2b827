// How a client is told where its server is.
#pragma once

#include <string>
#include <string_view>

#include "maru/result.h"
#include "os/resolve.h"

namespace maru::client {

struct ServerAddress {
  std::string text;       // as messages name it
  std::string socket;     // a path or "@name"; empty: `metadata` tells it
  os::HostPort metadata;  // of the endpoint of upstream's metadata protocol
};

// "tcp://HOST:PORT" of a metadata endpoint; a unix socket as PATH, "@NAME", "unix:PATH" or
// "unix:@NAME". InvalidArgument names the text and what is possible.
Result<ServerAddress> ParseServer(std::string_view text);

}  // namespace maru::client
