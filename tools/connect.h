// How a command reaches its server.
#pragma once

#include <memory>
#include <string>

#include "base/ids.h"
#include "maru/client.h"
#include "tools/command.h"
#include "wire/messages.h"

namespace maru::tools {

// The server that --server, MARU_SERVER or MARU_SOCKET name, else the socket that is the default of
// `maru serve`; for ClientOptions::server_url.
std::string ServerOf(const Arguments& arguments);

// Attaches as a tool. `options` gives what the command needs beyond the road.
Result<std::unique_ptr<Client>> ConnectTo(const Arguments& arguments, ClientOptions options);

// One request of a tool and its reply, of the type that belongs to it.
template <typename ReplyType>
Result<ReplyType> Ask(Client& client, const wire::Request& request);

// Which of the server's clients the tool itself is.
ClientId SelfOf(Client& client);

Status AskAny(Client& client, const wire::Request& request, wire::Reply* reply);

template <typename ReplyType>
Result<ReplyType> Ask(Client& client, const wire::Request& request) {
  wire::Reply reply;
  MARU_RETURN_IF_ERROR(AskAny(client, request, &reply));
  auto* typed = std::get_if<ReplyType>(&reply);
  if (typed == nullptr) return DataLoss("the server's answer is of another kind");
  return std::move(*typed);
}

}  // namespace maru::tools
