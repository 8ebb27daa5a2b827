#include "client/road.h"

#include <algorithm>
#include <string_view>

#include "catalogue/endpoint_namespace.h"
#include "client/handshake.h"
#include "os/machine.h"

namespace maru::client {

namespace {

using wire::compat::HandshakeReply;
using wire::compat::LocalRoad;

// They stand in messages and log lines.
bool IsPrintable(std::string_view text) {
  return std::ranges::none_of(
      text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
}

bool IsWhole(const LocalRoad& road) {
  const bool has_socket = !road.socket_path.empty() || !road.abstract_name.empty();
  const bool path_fits = road.socket_path.empty() || road.socket_path.starts_with('/');
  const bool name_fits = road.abstract_name.empty() || road.abstract_name.starts_with('@');
  return has_socket && path_fits && name_fits && !road.pool.empty() &&
         catalogue::NamespaceBelow(road.name_space, "").ok() &&
         std::ranges::all_of(
             std::initializer_list<std::string_view>{road.socket_path, road.abstract_name,
                                                     road.host, road.pool, road.name_space},
             IsPrintable);
}

Status OnAnotherHost(const ServerAddress& server, const std::string& there,
                     const std::string& here) {
  std::string_view there_name = os::HostNameIn(there);
  std::string_view here_name = os::HostNameIn(here);
  if (there_name == here_name) {
    there_name = there;
    here_name = here;
  }
  return FailedPrecondition("the server at " + server.text + " runs on the host " +
                            std::string(there_name) + ", this process on " +
                            std::string(here_name) +
                            ": pages are shared in the memory of one host; start `maru serve` on "
                            "this one and name its address");
}

}  // namespace

Result<Road> JudgeHandshake(const ServerAddress& server, const HandshakeReply& reply,
                            const std::string& here) {
  if (!reply.error.empty()) {
    return FailedPrecondition("the server at " + server.text + " refuses the handshake: " +
                              (IsPrintable(reply.error) ? reply.error : "for an odd reason"));
  }
  if (!reply.local_road.has_value()) {
    const bool told = !reply.server_version.empty() && IsPrintable(reply.server_version);
    return FailedPrecondition(
        "the server at " + server.text + (told ? " (version " + reply.server_version + ")" : "") +
        " is not a Maru server of ours: it tells no socket for handlers of this host; start `maru "
        "serve` in its place, or name another address");
  }
  const LocalRoad& told = *reply.local_road;
  if (!IsWhole(told)) {
    return FailedPrecondition("the server at " + server.text +
                              " tells a road that this version cannot read: upgrade the older of "
                              "the two");
  }
  if (!os::SameHost(told.host, here)) return OnAnotherHost(server, told.host, here);
  Road road;
  for (const std::string& socket : {told.socket_path, told.abstract_name}) {
    if (!socket.empty()) road.sockets.push_back(socket);
  }
  road.pool = told.pool;
  road.name_space = told.name_space;
  return road;
}

Result<Road> FindRoad(const ServerAddress& server, uint32_t timeout_ms) {
  if (!server.socket.empty()) {
    Road road;
    road.sockets.push_back(server.socket);
    return road;
  }
  MARU_ASSIGN_OR_RETURN(const HandshakeReply reply, AskHandshake(server, timeout_ms));
  MARU_ASSIGN_OR_RETURN(const std::string here, os::HostIdentity());
  return JudgeHandshake(server, reply, here);
}

}  // namespace maru::client
