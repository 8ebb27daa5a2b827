#pragma once

// For tests only: what this host has, asked without the code under test, and what a process may
// have of it.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "os/unique_fd.h"

namespace maru::os {

// Whether anybody can listen at ::1.
inline bool HasIpv6Loopback() {
  const UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return socket.valid() &&
         ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// While it lives, new descriptors have numbers below its own: RLIMIT_NOFILE, which it gives back.
class DescriptorLimit {
 public:
  // REQUIRES: at most HardMax().
  explicit DescriptorLimit(rlim_t below) : before_(Read()) { Set({below, before_.rlim_max}); }
  ~DescriptorLimit() { Set(before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

  static rlim_t HardMax() { return Read().rlim_max; }

 private:
  static rlimit Read() {
    rlimit files{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
    return files;
  }
  static void Set(const rlimit& files) { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0); }

  const rlimit before_;
};

}  // namespace maru::os
