// A server of its own for a demo, a replay or a benchmark: a child process that ends with the
// thread that started it. Whatever ends either of them, nothing stays: its socket has a name in the
// abstract namespace, and a pool that it makes has no path at any moment.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "maru/result.h"
#include "os/process.h"

namespace maru::tools {

// What it writes to standard error.
enum class ServerLog : uint8_t {
  kShown,   // is passed on
  kHidden,  // is not, for who prints JSON
};

class PrivateServer {
 public:
  // `pool` as for `maru serve --pool`; empty: `bytes` of shared memory. An error of its start is
  // the server's own.
  static Result<std::unique_ptr<PrivateServer>> Start(const std::string& pool, uint64_t bytes,
                                                      ServerLog log);
  ~PrivateServer();

  // "@name"
  const std::string& socket_path() const { return socket_path_; }
  int32_t pid() const { return child_.pid(); }

 private:
  PrivateServer(os::Child child, std::string socket_path)
      : child_(std::move(child)), socket_path_(std::move(socket_path)) {}
  // Why it ended before it listened.
  Status Failure();

  os::Child child_;
  const std::string socket_path_;
  std::thread relay_;              // reads what it writes to standard error, until it ends
  std::optional<Status> failure_;  // the relay's, until that has ended
};

}  // namespace maru::tools
