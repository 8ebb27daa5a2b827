// A road between a client and a real server on which an answer is changed: what a server says that
// is broken, or is none of ours. One connection at a time.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "layout/frame.h"
#include "os/file.h"
#include "os/process.h"
#include "os/unix_socket.h"
#include "wire/codec.h"

namespace maru {

class LyingRoad {
 public:
  // What is on its way to the client.
  struct Answer {
    std::vector<std::byte> frame;
    std::vector<os::UniqueFd> descriptors;
    layout::FrameHeader& header() { return *reinterpret_cast<layout::FrameHeader*>(frame.data()); }
  };
  using Edit = std::function<void(Answer*)>;

  explicit LyingRoad(std::string server)
      : server_(std::move(server)),
        socket_("/tmp/maru-lying-road-" + std::to_string(os::RandomNumber().value())),
        listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    socket_.copy(name.sun_path, sizeof(name.sun_path) - 1);
    const auto* address = reinterpret_cast<const sockaddr*>(&name);
    EXPECT_EQ(::bind(listener_.get(), address, sizeof(name)), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] { Run(); });
  }
  // REQUIRES: the clients are closed.
  ~LyingRoad() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    os::RemoveFile(socket_).ok();
  }

  const std::string& socket() const { return socket_; }
  // Changes the next answer.
  void LieOnce(Edit edit) {
    const std::lock_guard lock(mutex_);
    edit_ = std::move(edit);
    attaches_since_lie_ = 0;
  }
  // How many attach requests were answered since then, with the lie or without.
  int attaches_since_lie() {
    const std::lock_guard lock(mutex_);
    return attaches_since_lie_;
  }
  // An edit of what an answer to attach says.
  static Edit OfAttach(std::function<void(wire::AttachReply*)> edit) {
    return [edit](Answer* answer) {
      wire::Decoder decoder;
      layout::FrameHeader header;
      Status status;
      wire::Reply reply;
      ASSERT_TRUE(decoder.DecodeReply(answer->frame, &header, &status, &reply).ok());
      wire::AttachReply attached = std::get<wire::AttachReply>(reply);
      edit(&attached);
      Encode(header, attached, wire::MessageType::kAttach, answer);
    };
  }
  static void Encode(const layout::FrameHeader& header, const wire::Reply& reply,
                     wire::MessageType type, Answer* answer) {
    std::vector<std::byte> bytes(layout::kFrameBytesMax);
    const auto size = wire::EncodeReply(
        type, OkStatus(), reply, RequestNumber(header.request_number), Epoch(header.epoch), bytes);
    ASSERT_TRUE(size.ok()) << size.status().ToString();
    bytes.resize(*size);
    answer->frame = std::move(bytes);
  }

 private:
  void Run() {
    while (true) {
      os::SeqpacketSocket client(
          os::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      if (!client.valid()) return;
      auto server = os::SeqpacketSocket::Connect(os::UnixAddress::Parse(server_).value(), -1);
      while (server.ok() && PassOn(&client, &*server)) {
      }
    }
  }
  // A request and its answer; false when either end is gone.
  bool PassOn(os::SeqpacketSocket* client, os::SeqpacketSocket* server) {
    std::vector<std::byte> request(layout::kFrameBytesMax);
    const auto asked = client->Receive(request);
    if (!asked.ok() || !server->Send(std::span(request).first(*asked)).ok()) return false;
    Answer answer;
    answer.frame.resize(layout::kFrameBytesMax);
    const auto size = server->Receive(answer.frame, &answer.descriptors);
    if (!size.ok()) return false;
    answer.frame.resize(*size);
    constexpr auto kAttach = static_cast<uint16_t>(wire::MessageType::kAttach);
    {
      const std::lock_guard lock(mutex_);
      if (reinterpret_cast<const layout::FrameHeader*>(request.data())->type == kAttach) {
        ++attaches_since_lie_;
      }
      if (edit_) std::exchange(edit_, nullptr)(&answer);
    }
    std::vector<int> fds;
    for (const os::UniqueFd& fd : answer.descriptors) fds.push_back(fd.get());
    return client->Send(answer.frame, fds).ok();
  }

  const std::string server_, socket_;
  const os::UniqueFd listener_;
  std::mutex mutex_;
  Edit edit_;                   // guarded by mutex_
  int attaches_since_lie_ = 0;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace maru
