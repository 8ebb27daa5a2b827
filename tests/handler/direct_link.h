// For tests of the handler: the real engine in this process, and links that call it. A link loses,
// refuses and changes what a test tells it to; everything else is as between processes.
//
// Thread-safe: one request is one step of the engine, under the host's mutex.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catalogue/endpoint_namespace.h"
#include "engine/test_engine.h"
#include "handler/handler.h"

namespace maru::handler {

// Outlives the links, and the views of their handlers.
class Host {
 public:
  explicit Host(engine::TestEngine::Options options = {}) : engine_(std::move(options)) {}

  // Calls body(engine) between two steps.
  template <typename Body>
  auto With(const Body& body) {
    const std::lock_guard lock(mutex_);
    return body(engine_);
  }
  void Kill() {
    With([](engine::TestEngine& engine) { engine.Kill(); });
  }
  void Start() {
    With([](engine::TestEngine& engine) { engine.Start(); });
  }
  void Restart() {
    Kill();
    Start();
  }
  // Another, empty pool at the same place.
  void RestartOnAnotherPool();
  engine::Engine::PoolCounts Count() {
    return With([](engine::TestEngine& engine) { return engine->Count(PoolIndex(0)); });
  }
  std::string Offenders() {
    return With([](engine::TestEngine& engine) { return engine::Offenders(engine.engine()); });
  }

 private:
  std::mutex mutex_;
  engine::TestEngine engine_;
  size_t memories_ = 1;
};

// The lock of a client, held until the last of its mappings is gone.
using LockToken = std::shared_ptr<void>;

class DirectPool final : public MappedPool {
 public:
  DirectPool(std::byte* base, catalogue::PoolView view, const wire::AttachedPool& attached,
             LockToken token);
  const catalogue::PoolView& view() const override { return view_; }
  const layout::Uuid& uuid() const override { return uuid_; }
  bool checksums() const override { return checksums_; }
  catalogue::Leases& leases() override { return *leases_; }
  Result<std::byte*> Writable(uint64_t offset_bytes, uint64_t length_bytes) override;
  std::vector<uint64_t> LeaseBlocks() const override { return block_offsets_; }
  Status AddLeaseBlocks(std::span<const uint64_t> offsets) override;

  // Makes the next Writable fail, as a process fails that may map no more.
  void RefuseNextMapping() { refuse_mapping_ = true; }
  // The same for AddLeaseBlocks.
  void RefuseNextBlocks() { refuse_blocks_ = true; }

 private:
  std::byte* const base_;
  const catalogue::PoolView view_;
  const layout::Uuid uuid_;
  const bool checksums_;
  const LockToken token_;
  bool refuse_mapping_ = false, refuse_blocks_ = false;
  std::vector<uint64_t> block_offsets_;
  std::unique_ptr<catalogue::Leases> leases_;
};

class DirectLink final : public Link {
 public:
  enum class Road : uint8_t {
    kWhole,
    kNotSent,      // the connection was closed before
    kRequestLost,  // sent, never read
    kReplyLost,    // done, and the answer is lost
  };

  explicit DirectLink(Host* host) : host_(host) {}

  // Asked for each request but attach.
  std::function<Road(const wire::Request&)> road;
  // Changes what the server has answered, attach as well; for lies, errors and short replies.
  std::function<void(const wire::Request&, Status*, wire::Reply*)> edit;

  // The namespace of the endpoint by which the server is found.
  std::string endpoint;

  Result<std::string> Find(std::string_view own) override {
    return catalogue::NamespaceBelow(endpoint, own);
  }
  // Called at the beginning of each Connect.
  std::function<void()> connecting;

  Status Connect(const wire::AttachRequest& request, wire::AttachReply* reply,
                 std::vector<std::shared_ptr<MappedPool>>* pools) override;
  Status Call(const wire::Request& request, Status* server_status, wire::Reply* reply,
              Sent* sent) override;
  void Probe() override;
  void Disconnect() override;
  void Close() override;
  // As a socket: that the other end is gone shows at the next use.
  bool connected() const override { return connection_ != 0; }
  uint64_t last_request() const override { return last_request_; }

  DirectPool& pool(size_t index = 0) { return *pools_.at(index); }

 private:
  bool OtherEndIsOpen();
  Status Broken(const char* why);

  Host* const host_;
  std::atomic<engine::ConnectionId> connection_{0};  // 0: none
  uint64_t next_request_ = 1;
  std::atomic<uint64_t> last_request_{0};
  std::vector<std::shared_ptr<DirectPool>> pools_;
};

// A handler with a link of its own.
struct Instance {
  explicit Instance(Host* host, HandlerOptions options = {})
      : link(host), handler(Small(std::move(options)), &link, &clock) {}
  static HandlerOptions Small(HandlerOptions options) {
    if (options.page_bytes == HandlerOptions().page_bytes) options.page_bytes = 4096;
    return options;
  }
  Handler* operator->() { return &handler; }
  Handler::Counters counters() const { return handler.counters(); }

  FakeClock clock{1'000'000'000};
  DirectLink link;
  Handler handler;
};

}  // namespace maru::handler
