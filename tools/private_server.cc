#include "tools/private_server.h"

#include <csignal>
#include <filesystem>

#include "base/log.h"
#include "os/file.h"
#include "os/line_reader.h"

namespace maru::tools {

Result<std::unique_ptr<PrivateServer>> PrivateServer::Start(const std::string& pool,
                                                            uint64_t bytes) {
  MARU_ASSIGN_OR_RETURN(const uint64_t number, os::RandomNumber());
  const std::string name =
      "maru-private-" + std::to_string(os::ProcessId()) + "-" + std::to_string(number % 1000000);
  const std::string folder = "/tmp/" + name;
  MARU_RETURN_IF_ERROR(os::MakeDirectory(folder));
  const std::string socket_path = folder + "/maru.sock";
  const std::string pool_path = pool.empty() ? "/dev/shm/" + name : "";
  const std::string spec =
      pool.empty() ? "file:" + pool_path + ",size=" + std::to_string(bytes) : pool;
  MARU_ASSIGN_OR_RETURN(const std::string program, os::ProgramPath());
  os::ChildOptions options;
  options.output = os::ChildStream::kPipe;
  options.environment = {"MARU_LOG_LEVEL=warning"};
  MARU_ASSIGN_OR_RETURN(
      os::Child child,
      os::Child::Start({program, "serve", "--pool", spec, "--socket", socket_path}, options));
  const int output = child.output_fd();
  std::unique_ptr<PrivateServer> server(
      new PrivateServer(std::move(child), folder, socket_path, pool_path));
  // It says where it listens once it does, or ends with an error of its own.
  os::LineReader lines(output);
  while (true) {
    MARU_ASSIGN_OR_RETURN(const std::optional<std::string> line, lines.Next());
    if (!line) return Unavailable("the private server did not start");
    if (line->starts_with("listening on ")) return server;
  }
}

PrivateServer::~PrivateServer() {
  if (!child_.Signal(SIGTERM).ok() || !child_.Wait().ok()) {
    LogWarning("the private server did not stop in order");
  }
  if (!pool_path_.empty()) os::RemoveFile(pool_path_).ok();
  os::RemoveFile(folder_ + "/maru.sock.lock").ok();
  std::error_code ignored;  // a folder that is not empty stays, for who wants to look
  std::filesystem::remove(folder_, ignored);
}

}  // namespace maru::tools
