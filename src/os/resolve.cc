#include "os/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "os/process.h"

namespace maru::os {
namespace {

constexpr std::string_view kLocalHost = "localhost";

// Relaxed: a count that orders nothing.
std::atomic<int> look_ups{0};

// In a forked child none is under way: their threads are the parent's.
void ForgetLookUps() { look_ups.store(0, std::memory_order_relaxed); }
// When the program is loaded: a fork while another thread did it would leave it half done.
const Status kForgetAtFork = OnEachFork(nullptr, nullptr, &ForgetLookUps);

bool IsV6(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}
bool IsNumeric(const std::string& host) {
  in_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 || IsV6(host);
}

bool IsHostName(std::string_view text) {
  if (text.empty() || text.size() > kHostNameBytesMax || text.front() == '-') return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  });
}

Result<std::vector<std::string>> AskTheSystem(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return Unavailable("the host name \"" + host + "\" has no address: " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* at = found; at != nullptr && addresses.size() < kHostAddressesMax;
       at = at->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

// What the thread and its caller share; the last of them ends it.
struct Pending {
  Mutex mutex;
  CondVar changed;
  std::optional<Result<std::vector<std::string>>> answer MARU_GUARDED_BY(mutex);
};

void LookUpInThread(const internal::LookUp& look_up, const std::string& host,
                    const std::shared_ptr<Pending>& pending) {
  Result<std::vector<std::string>> answer = look_up(host);
  const MutexLock lock(pending->mutex);
  pending->answer.emplace(std::move(answer));
  look_ups.fetch_sub(1, std::memory_order_relaxed);
  pending->changed.NotifyAll();
}

Result<std::vector<std::string>> LookUpWithin(const internal::LookUp& look_up,
                                              const std::string& host, const Deadline& deadline) {
  MARU_RETURN_IF_ERROR(kForgetAtFork);
  if (look_ups.fetch_add(1, std::memory_order_relaxed) >= kLookUpsMax) {
    look_ups.fetch_sub(1, std::memory_order_relaxed);
    return Unavailable("the host name \"" + host + "\" is not looked up while " +
                       std::to_string(kLookUpsMax) + " others wait for an answer: see resolv.conf");
  }
  const auto pending = std::make_shared<Pending>();
  Result<std::thread> thread = StartThread(
      "maru-resolve", [look_up, host, pending] { LookUpInThread(look_up, host, pending); });
  if (!thread.ok()) {
    look_ups.fetch_sub(1, std::memory_order_relaxed);
    return thread.status();
  }
  thread->detach();
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline.left_ms());
  const MutexLock lock(pending->mutex);
  while (!pending->answer.has_value() && pending->changed.WaitUntil(pending->mutex, until)) {
  }
  return pending->answer.value_or(DeadlineExceeded(
      "the host name \"" + host + "\" was not resolved within the time: see resolv.conf"));
}

}  // namespace

Result<HostPort> HostPort::Parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != std::string_view::npos) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, parsed.port);
    parsed.host = text.substr(0, colon);
    const bool in_brackets =
        parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']';
    if (in_brackets) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
    const bool is_host = in_brackets ? IsV6(parsed.host) : IsHostName(parsed.host);
    if (error == std::errc() && stop == end && parsed.port != 0 && is_host) return parsed;
  }
  return InvalidArgument("\"" + std::string(text.substr(0, 64)) +
                         "\" is no address of a server; write localhost:5555, HOST:PORT or "
                         "[::1]:5555");
}

std::string HostPort::ToString() const {
  return (IsV6(host) ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<std::vector<TcpAddress>> internal::ResolveWith(const LookUp& look_up, const HostPort& where,
                                                      const Deadline& deadline) {
  std::vector<std::string> hosts = {where.host};
  if (where.host == kLocalHost) {
    hosts = {"127.0.0.1", "::1"};
  } else if (!IsNumeric(where.host)) {
    MARU_ASSIGN_OR_RETURN(hosts, LookUpWithin(look_up, where.host, deadline));
  }
  std::vector<TcpAddress> addresses;
  for (const std::string& host : hosts) {
    // One that is bound to an interface ("fe80::1%eth0") is none of TcpAddress's.
    const Result<TcpAddress> address = TcpAddress::Parse(HostPort{host, where.port}.ToString());
    if (address.ok()) addresses.push_back(*address);
  }
  if (!addresses.empty()) return addresses;
  return Unavailable("the host name \"" + where.host + "\" has no address that can be reached");
}

Result<std::vector<TcpAddress>> Resolve(const HostPort& where, const Deadline& deadline) {
  return internal::ResolveWith(&AskTheSystem, where, deadline);
}

}  // namespace maru::os
