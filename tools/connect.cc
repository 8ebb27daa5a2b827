#include "tools/connect.h"

#include "client/client_impl.h"
#include "client/defaults.h"

namespace maru::tools {

std::string ServerOf(const Arguments& arguments) {
  std::string url = arguments.Get("server");
  return url.empty() ? client::DefaultSocketPath() : url;
}

Result<std::unique_ptr<Client>> ConnectTo(const Arguments& arguments, ClientOptions options) {
  options.server_url = ServerOf(arguments);
  options.server_user = arguments.Get("server-user");
  if (options.label.empty()) options.label = "maru tool";
  return Client::Connect(options);
}

Status AskAny(Client& client, const wire::Request& request, wire::Reply* reply) {
  return client.impl().handler().Ask(request, reply);
}

ClientId SelfOf(Client& client) { return client.impl().handler().client(); }

}  // namespace maru::tools
