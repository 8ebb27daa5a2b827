#include "tools/private_server.h"

#include <csignal>

#include "base/log.h"
#include "os/file.h"
#include "os/line_reader.h"
#include "pool/new_pool.h"
#include "tools/error_line.h"
#include "tools/output.h"

namespace maru::tools {

namespace {

enum class Heard : uint8_t { kListens, kEnd };

// Reads what the server says until it listens.
Result<Heard> AwaitListening(int output_fd) {
  os::LineReader lines(output_fd);
  while (true) {
    MARU_ASSIGN_OR_RETURN(const std::optional<std::string> line, lines.Next());
    if (!line) return Heard::kEnd;
    if (line->starts_with("{\"listening\"")) return Heard::kListens;
  }
}

// Until the server has ended. The error that it ends with, if there is one.
std::optional<Status> Relay(int error_fd, ServerLog log) {
  std::optional<Status> failure;
  os::LineReader lines(error_fd);
  while (true) {
    std::optional<std::string> line;
    if (auto next = lines.Next(); next.ok()) line = *std::move(next);
    if (!line) return failure;
    const std::optional<Status> error = ParseErrorLine(*line);
    if (error) {
      failure = error;
    } else if (log == ServerLog::kShown) {
      Note(*line);
    }
  }
}

}  // namespace

Result<std::unique_ptr<PrivateServer>> PrivateServer::Start(const std::string& pool, uint64_t bytes,
                                                            ServerLog log) {
  MARU_ASSIGN_OR_RETURN(const uint64_t number, os::RandomNumber());
  const std::string name =
      "maru-private-" + std::to_string(os::ProcessId()) + "-" + std::to_string(number);
  os::File unnamed;  // the server reaches it by this descriptor, and the clients by the server's
  std::string spec = pool;
  if (pool.empty()) {
    MARU_ASSIGN_OR_RETURN(unnamed,
                          pool::InitUnnamedPool("/dev/shm", bytes, {.size_option = "--pool-size"}));
    spec = "file:/proc/" + std::to_string(os::ProcessId()) + "/fd/" + std::to_string(unnamed.fd());
  }
  MARU_ASSIGN_OR_RETURN(const std::string program, os::ProgramPath());
  os::ChildOptions options;
  options.life = os::ChildLife::kWithParent;
  options.output = os::ChildStream::kPipe;
  options.error = os::ChildStream::kPipe;
  MARU_ASSIGN_OR_RETURN(
      os::Child child,
      os::Child::Start({program, "serve", "--json", "--pool", spec, "--socket", "@" + name,
                        "--listen", "none", "--rm-listen", "none", "--log-level", "warning"},
                       options));
  const int output = child.output_fd();
  std::unique_ptr<PrivateServer> server(new PrivateServer(std::move(child), "@" + name));
  PrivateServer* const self = server.get();
  self->relay_ = std::thread([self, log] { self->failure_ = Relay(self->child_.error_fd(), log); });
  const Result<Heard> heard = AwaitListening(output);
  MARU_RETURN_IF_ERROR(heard.status());
  if (*heard == Heard::kEnd) return server->Failure();
  return server;
}

Status PrivateServer::Failure() {
  MARU_RETURN_IF_ERROR(child_.Wait().status());
  relay_.join();
  return failure_.value_or(Internal("the private server ended before it listened"));
}

PrivateServer::~PrivateServer() {
  const auto ended = child_.TryWait();
  if (ended.ok() && !*ended && (!child_.Signal(SIGTERM).ok() || !child_.Wait().ok())) {
    LogWarning("the private server did not stop in order");
  }
  if (relay_.joinable()) relay_.join();
}

}  // namespace maru::tools
