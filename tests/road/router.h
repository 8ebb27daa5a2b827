// A metadata endpoint as the server has it, libzmq's ROUTER included, that answers HANDSHAKE as a
// test says.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/testing.h"
#include "net/compat/metadata_endpoint.h"
#include "net/compat/test_loop.h"
#include "wire/compat/metadata.h"

namespace maru {

class Router final : private net::compat::MetadataService {
 public:
  explicit Router(const std::string& address = "tcp://127.0.0.1:0") {
    auto endpoint = net::compat::MetadataEndpoint::Create(loop_.get(), this, address, &limit_);
    EXPECT_OK(endpoint);
    endpoint_ = std::move(*endpoint);
    loop_.Start();
  }
  ~Router() override { loop_.Stop(); }

  const std::string& address() const { return endpoint_->address(); }
  std::string port() const { return address().substr(address().rfind(':') + 1); }
  void Tell(wire::compat::HandshakeReply reply) {
    const MutexLock lock(mutex_);
    reply_ = std::move(reply);
  }
  void TellRoad(wire::compat::LocalRoad road) { Tell({.local_road = std::move(road)}); }
  uint64_t requests() {
    const MutexLock lock(mutex_);
    return requests_;
  }

 private:
  wire::compat::MetadataReply Answer(wire::compat::MetadataType,
                                     const wire::compat::MetadataRequest&) override {
    const MutexLock lock(mutex_);
    ++requests_;
    return reply_;
  }

  Mutex mutex_;
  wire::compat::HandshakeReply reply_ MARU_GUARDED_BY(mutex_);
  uint64_t requests_ MARU_GUARDED_BY(mutex_) = 0;
  net::compat::PeerLimit limit_;
  net::compat::TestLoop loop_;
  std::unique_ptr<net::compat::MetadataEndpoint> endpoint_;
};

}  // namespace maru
