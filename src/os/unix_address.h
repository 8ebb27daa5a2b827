#pragma once

// A UnixAddress as the kernel takes it. Internal to os/.

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "os/unix_socket.h"

namespace maru::os {

class SocketName {
 public:
  explicit SocketName(const UnixAddress& address) {
    const std::string& text = address.text();
    MARU_CHECK_LE(text.size(), kSocketPathBytesMax);
    name_.sun_family = AF_UNIX;
    // An abstract name begins with a zero byte; a path ends with one.
    std::memcpy(name_.sun_path + (address.is_abstract() ? 1 : 0), text.data(), text.size());
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + 1);
  }

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name_); }
  socklen_t size() const { return size_; }

 private:
  sockaddr_un name_{};
  socklen_t size_ = 0;
};

}  // namespace maru::os
