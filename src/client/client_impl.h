// The inside of a Client: a handler over a socket link, and its place in the background thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/background.h"
#include "client/fork_guard.h"
#include "client/socket_link.h"
#include "handler/handler.h"
#include "maru/client.h"

namespace maru {

// Not shown as the class that it is in.
class [[gnu::visibility("hidden")]] Client::Impl final : private client::ForkAware,
                                                         private client::BackgroundTask {
 public:
  Impl(const ClientOptions& options, client::ServerAddress server,
       std::optional<uint32_t> server_user);
  ~Impl();

  handler::Handler& handler() { return *handler_; }
  // The handler for pages that outlive their client: empty then.
  std::weak_ptr<handler::Handler> weak_handler() { return handler_; }
  Status Connect();
  void Close();
  static View Wrap(handler::View view);
  bool inert() const { return inert_; }

 private:
  void InForkedChild() override {
    inert_ = true;
    handler_->MakeInert();
  }
  uint64_t Tick() override { return handler_->Tick(); }

  client::SocketLink link_;
  std::shared_ptr<handler::Handler> handler_;
  bool inert_ = false;  // written while the child has one thread
  const client::ForkRegistration fork_registration_{this};
};

}  // namespace maru
