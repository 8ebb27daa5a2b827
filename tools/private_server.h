// A server of its own for a demo, a replay or a benchmark: a child process on a pool and a socket
// in a fresh folder, both gone afterwards.
#pragma once

#include <memory>
#include <string>

#include "maru/result.h"
#include "os/process.h"

namespace maru::tools {

class PrivateServer {
 public:
  // `pool` as for `maru serve --pool`; empty: a file of `bytes` in /dev/shm that is removed at the
  // end.
  static Result<std::unique_ptr<PrivateServer>> Start(const std::string& pool, uint64_t bytes = 0);
  ~PrivateServer();

  const std::string& socket_path() const { return socket_path_; }
  int32_t pid() const { return child_.pid(); }

 private:
  PrivateServer(os::Child child, std::string folder, std::string socket_path, std::string pool_path)
      : child_(std::move(child)),
        folder_(std::move(folder)),
        socket_path_(std::move(socket_path)),
        pool_path_(std::move(pool_path)) {}

  os::Child child_;
  const std::string folder_, socket_path_, pool_path_;  // pool_path_ empty: not ours to remove
};

}  // namespace maru::tools
