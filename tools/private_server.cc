#include "tools/private_server.h"

#include <csignal>

#include "base/log.h"
#include "os/file.h"
#include "os/line_reader.h"

namespace maru::tools {

namespace {

// Reads what the server says until it listens; it ends with an error of its own otherwise.
Status AwaitListening(int output_fd) {
  os::LineReader lines(output_fd);
  while (true) {
    MARU_ASSIGN_OR_RETURN(const std::optional<std::string> line, lines.Next());
    if (!line) return Unavailable("the private server did not start");
    if (line->starts_with("listening on ")) return OkStatus();
  }
}

}  // namespace

Result<std::unique_ptr<PrivateServer>> PrivateServer::Start(const std::string& pool,
                                                            uint64_t bytes) {
  MARU_ASSIGN_OR_RETURN(const uint64_t number, os::RandomNumber());
  const std::string name =
      "maru-private-" + std::to_string(os::ProcessId()) + "-" + std::to_string(number);
  const std::string pool_path = "/dev/shm/" + name;
  const std::string spec =
      pool.empty() ? "file:" + pool_path + ",size=" + std::to_string(bytes) : pool;
  MARU_ASSIGN_OR_RETURN(const std::string program, os::ProgramPath());
  os::ChildOptions options;
  options.life = os::ChildLife::kWithParent;
  options.output = os::ChildStream::kPipe;
  MARU_ASSIGN_OR_RETURN(
      os::Child child,
      os::Child::Start({program, "serve", "--pool", spec, "--socket", "@" + name, "--listen",
                        "none", "--rm-listen", "none", "--log-level", "warning"},
                       options));
  const int output = child.output_fd();
  std::unique_ptr<PrivateServer> server(new PrivateServer(std::move(child), "@" + name));
  const Status listening = AwaitListening(output);
  // The server reaches it by its descriptors, and so do the clients.
  if (pool.empty()) os::RemoveFile(pool_path).ok();
  MARU_RETURN_IF_ERROR(listening);
  return server;
}

PrivateServer::~PrivateServer() {
  if (!child_.Signal(SIGTERM).ok() || !child_.Wait().ok()) {
    LogWarning("the private server did not stop in order");
  }
}

}  // namespace maru::tools
