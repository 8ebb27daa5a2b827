#include "client/server_address.h"

#include "os/unix_socket.h"

namespace maru::client {

Result<ServerAddress> ParseServer(std::string_view text) {
  constexpr std::string_view kTcp = "tcp://";
  constexpr std::string_view kUnix = "unix:";
  ServerAddress address;
  address.text = text;
  if (text.starts_with(kTcp)) {
    MARU_ASSIGN_OR_RETURN(address.metadata, os::HostPort::Parse(text.substr(kTcp.size())));
    return address;
  }
  if (text.starts_with(kUnix)) {
    text.remove_prefix(kUnix.size());
  } else if (text.find("://") != std::string_view::npos) {
    return InvalidArgument("\"" + address.text +
                           "\" names no server: write tcp://HOST:PORT, or its unix socket as PATH "
                           "or @NAME");
  }
  MARU_RETURN_IF_ERROR(os::UnixAddress::Parse(text).status());
  address.socket = text;
  address.text = text;
  return address;
}

}  // namespace maru::client
