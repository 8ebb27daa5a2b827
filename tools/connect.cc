#include "tools/connect.h"

#include <cstdlib>

#include "client/client_impl.h"
#include "client/defaults.h"

namespace maru::tools {

Result<std::string> SocketOf(const Arguments& arguments) {
  std::string url = arguments.Get("server");
  if (url.empty()) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment of a tool.
    const char* const named = std::getenv("MARU_SERVER");
    if (named != nullptr) url = named;
  }
  if (url.empty()) return client::DefaultSocketPath();
  if (url.starts_with("unix:")) return url.substr(5);
  if (url.find("://") != std::string::npos) {
    return InvalidArgument("--server " + url +
                           ": this version reaches servers through their unix socket only: give "
                           "its path, or unix:PATH");
  }
  return url;
}

Result<std::unique_ptr<Client>> ConnectTo(const Arguments& arguments, ClientOptions options) {
  MARU_ASSIGN_OR_RETURN(options.socket_path, SocketOf(arguments));
  if (options.label.empty()) options.label = "maru tool";
  return Client::Connect(options);
}

Status AskAny(Client& client, const wire::Request& request, wire::Reply* reply) {
  return client.impl().handler().Ask(request, reply);
}

}  // namespace maru::tools
