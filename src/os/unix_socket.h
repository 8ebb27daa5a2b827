#pragma once

// Unix sockets of type SEQPACKET: one message is one datagram, whole or not at all, with up to
// kDescriptorsMax descriptors beside it. No message kills the process by SIGPIPE.
//
// Thread safety: one thread may send while another receives; otherwise as of a plain object.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maru/result.h"
#include "os/file.h"
#include "os/unique_fd.h"

namespace maru::os {

inline constexpr std::size_t kDescriptorsMax = 48;  // the kernel's own limit is 253
inline constexpr std::size_t kSocketPathBytesMax = 107;
inline constexpr std::size_t kPeerGroupsMax = 65536;  // the kernel's own limit

// A path, or a name in the abstract namespace (written "@name"), which lives as long as its
// listener and is seen by all that share the network namespace.
class UnixAddress {
 public:
  static Result<UnixAddress> Path(std::string_view path);
  static Result<UnixAddress> Abstract(std::string_view name);
  // As ToString writes it, and as people do: "@NAME", else a path.
  static Result<UnixAddress> Parse(std::string_view text);

  bool is_abstract() const { return is_abstract_; }
  const std::string& text() const { return text_; }  // the path, or the name without "@"
  std::string ToString() const { return is_abstract_ ? "@" + text_ : text_; }

 private:
  UnixAddress(std::string text, bool is_abstract)
      : text_(std::move(text)), is_abstract_(is_abstract) {}

  std::string text_;
  bool is_abstract_;
};

struct PeerCredentials {
  std::int32_t pid = 0;  // 0 when it is outside this pid namespace
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

enum class IoOutcome { kDone, kWouldBlock, kClosed };

struct Received {
  IoOutcome outcome = IoOutcome::kDone;
  std::size_t size_bytes = 0;
};

class SeqpacketSocket {
 public:
  SeqpacketSocket() = default;  // not connected
  explicit SeqpacketSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  // Unavailable when nobody listens there, DeadlineExceeded when its queue stays full.
  static Result<SeqpacketSocket> Connect(const UnixAddress& address, std::int32_t timeout_ms);
  // The same in two steps: the first does not wait, and makes the descriptor.
  static Result<SeqpacketSocket> Make();
  // The time-out stays set, as by SetTimeout.
  Status ConnectTo(const UnixAddress& address, std::int32_t timeout_ms);
  // Two ends connected to each other.
  static Result<std::pair<SeqpacketSocket, SeqpacketSocket>> Pair();

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  void Close() { fd_.Reset(); }
  UniqueFd Release() { return std::move(fd_); }

  // How long Send and Receive wait; negative: for ever. Part of the socket, so that a call costs no
  // second system call. For ever until it is set.
  Status SetTimeout(std::int32_t timeout_ms);
  // Asks for room for about BYTES in each direction; the kernel caps it by its own limits.
  Status SetBufferBytes(std::size_t bytes);

  // Waits. REQUIRES: not empty, at most kDescriptorsMax descriptors, which stay the caller's.
  // Unavailable: the peer is gone. DeadlineExceeded: not sent. InvalidArgument: larger than the
  // socket's buffers.
  Status Send(std::span<const std::byte> message, std::span<const int> descriptors = {});
  // Waits. The message's size. DataLoss: a message larger than BUFFER, or with descriptors where
  // DESCRIPTORS is null; it is dropped.
  Result<std::size_t> Receive(std::span<std::byte> buffer,
                              std::vector<UniqueFd>* descriptors = nullptr);

  // Until Receive need not wait any more, or as long as it would wait (DeadlineExceeded).
  Status AwaitMessage() const;

  // The same without waiting; kClosed where the above say Unavailable.
  Result<IoOutcome> TrySend(std::span<const std::byte> message,
                            std::span<const int> descriptors = {});
  Result<Received> TryReceive(std::span<std::byte> buffer,
                              std::vector<UniqueFd>* descriptors = nullptr);

  // Of the process that connected (or listened), at that time.
  Result<PeerCredentials> Credentials() const;
  // Its supplementary groups.
  Result<std::vector<std::uint32_t>> PeerGroups() const;

 private:
  UniqueFd fd_;
  std::int32_t timeout_ms_ = -1;
};

class UnixListener {
 public:
  // Binds and listens. A path gets MODE; next to it lies PATH.lock, there and locked while this
  // lives, so that two servers never replace each other's socket. A socket left by a dead server is
  // replaced; AlreadyExists when somebody listens there or when the path is no socket.
  static Result<UnixListener> Listen(const UnixAddress& address, std::uint32_t mode = kModeOwner);
  // The same in two steps: between them the address is taken, and nobody can connect yet.
  static Result<UnixListener> Bind(const UnixAddress& address, std::uint32_t mode);
  Status Listen() const;

  UnixListener(UnixListener&&) noexcept = default;
  UnixListener& operator=(UnixListener&&) = delete;
  ~UnixListener();  // removes socket and lock, in the process that made it

  int fd() const { return fd_.get(); }
  const UnixAddress& address() const { return address_; }
  Status SetGroup(std::uint32_t gid) const;

  // Without waiting: an invalid socket when nobody has come.
  Result<SeqpacketSocket> TryAccept() const;

 private:
  UnixListener(UnixAddress address, UniqueFd fd, File lock);

  UnixAddress address_;
  UniqueFd fd_;
  File lock_;
  int owner_pid_;
};

}  // namespace maru::os
