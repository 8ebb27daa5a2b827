#pragma once

// From the name of a host to its addresses, within a time-out. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "maru/result.h"
#include "os/deadline.h"
#include "os/tcp_socket.h"

namespace maru::os {

inline constexpr std::size_t kHostNameBytesMax = 253;  // of DNS
inline constexpr std::size_t kHostAddressesMax = 8;    // of one host; more are not tried
// Of one process at a time. The C library cannot be interrupted while it looks a name up: what
// takes longer than its caller waits goes on in a thread of its own until the C library gives up.
inline constexpr int kLookUpsMax = 8;

// A port of a host: a name or a numeric address, without brackets.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  // "localhost:5555", "node-7:5555", "127.0.0.1:5555", "[::1]:5555". InvalidArgument for anything
  // else, port 0 as well.
  static Result<HostPort> Parse(std::string_view text);
  std::string ToString() const;  // as Parse reads it
};

// In the order to try. A numeric address and "localhost" (127.0.0.1, then ::1) are looked up
// nowhere; any other name in a thread that ends with it. Unavailable: it has no address;
// DeadlineExceeded: nobody said within the time.
Result<std::vector<TcpAddress>> Resolve(const HostPort& where, const Deadline& deadline);

namespace internal {
// The numeric addresses of a host.
using LookUp = std::function<Result<std::vector<std::string>>(const std::string& host)>;
// Resolve, with what takes the place of the C library.
Result<std::vector<TcpAddress>> ResolveWith(const LookUp& look_up, const HostPort& where,
                                            const Deadline& deadline);
}  // namespace internal

}  // namespace maru::os
