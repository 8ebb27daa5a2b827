#include "tools/connect.h"

#include <string_view>

#include "client/client_impl.h"
#include "client/defaults.h"

namespace maru::tools {

Result<std::string> SocketOf(const Arguments& arguments) {
  std::string url = arguments.Get("server");
  if (url.empty()) return client::DefaultSocketPath();
  constexpr std::string_view kUnix = "unix:";
  if (url.starts_with(kUnix)) return url.substr(kUnix.size());
  if (url.find("://") != std::string::npos) {
    return InvalidArgument("--server " + url +
                           ": this version reaches servers through their unix socket only: give "
                           "its path, or @NAME");
  }
  return url;
}

Result<std::unique_ptr<Client>> ConnectTo(const Arguments& arguments, ClientOptions options) {
  MARU_ASSIGN_OR_RETURN(options.socket_path, SocketOf(arguments));
  options.server_user = arguments.Get("server-user");
  if (options.label.empty()) options.label = "maru tool";
  return Client::Connect(options);
}

Status AskAny(Client& client, const wire::Request& request, wire::Reply* reply) {
  return client.impl().handler().Ask(request, reply);
}

}  // namespace maru::tools
