// For tests: a client of upstream's metadata protocol and one of its resource manager, without the
// wire.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/metadata_context.h"
#include "engine/test_engine.h"

namespace maru::engine {

namespace compat = wire::compat;
using compat::MetadataType;

class UpstreamClient {
 public:
  UpstreamClient(TestEngine* host, std::string instance_id, std::string lease_id = "",
                 std::string_view name_space = "")
      : host_(host), instance_id_(std::move(instance_id)), lease_id_(std::move(lease_id)) {
    context_.name_space = catalogue::Namespace(name_space);
    context_.rm_address = "127.0.0.1:9850";
  }

  template <typename Reply>
  Reply Ask(MetadataType type, const compat::MetadataRequest& request) {
    return std::get<Reply>(AskAny(type, request));
  }
  compat::MetadataReply AskAny(MetadataType type, const compat::MetadataRequest& request) {
    return (*host_)->HandleMetadata(context_, type, request, host_->now_ns());
  }
  template <typename Reply>
  Reply Plain(MetadataType type) {
    return Ask<Reply>(type, compat::PlainRequest{});
  }

  // Of its endpoint; 0: clients have none.
  void SetLease(uint64_t lease_ns) { context_.lease_ns = lease_ns; }
  // Its endpoint was closed, or opened again.
  void MoveEndpoint() { (*host_)->StartLeasesAnew(context_, host_->now_ns()); }
  void TakeRegionsFrom(std::vector<std::string> pools) { context_.pool_paths = std::move(pools); }
  compat::AllocReply TryAlloc(uint64_t bytes) {
    return Ask<compat::AllocReply>(MetadataType::kRequestAlloc,
                                   compat::AllocRequest{instance_id_, bytes, lease_id_});
  }
  // In steps. 0: the reply is there.
  uint64_t Begin(MetadataType type, const compat::MetadataRequest& request,
                 compat::MetadataReply* reply) {
    return (*host_)->BeginMetadata(context_, type, request, host_->now_ns(), reply);
  }
  uint64_t BeginAlloc(uint64_t bytes, compat::MetadataReply* reply) {
    return Begin(MetadataType::kRequestAlloc, compat::AllocRequest{instance_id_, bytes, lease_id_},
                 reply);
  }
  // Its region's id.
  uint64_t Alloc(uint64_t bytes = 4 * kMiB) {
    const compat::AllocReply reply = TryAlloc(bytes);
    MARU_CHECK(reply.handle.has_value()) << reply.error;
    return reply.handle->region_id;
  }
  bool Return(uint64_t region) {
    return Ask<compat::SuccessReply>(MetadataType::kReturnAlloc,
                                     compat::ReturnAllocRequest{instance_id_, region})
        .success;
  }
  std::vector<compat::Handle> List() {
    return Ask<compat::AllocationsReply>(MetadataType::kListAllocations,
                                         compat::ListAllocationsRequest{instance_id_})
        .allocations;
  }
  bool Register(std::string_view key, uint64_t region, uint64_t offset, uint64_t length = 4096) {
    return Ask<compat::RegisterReply>(MetadataType::kRegister,
                                      compat::RegisterRequest{{{key, region, offset, length}}})
        .is_new;
  }
  std::optional<compat::Location> Lookup(std::string_view key) {
    return Ask<compat::LookupReply>(MetadataType::kLookup, compat::KeysRequest{{key}}).location;
  }
  bool Exists(std::string_view key) {
    return Ask<compat::ExistsReply>(MetadataType::kExists, compat::KeysRequest{{key}}).exists;
  }
  bool Delete(std::string_view key) {
    return Ask<compat::SuccessReply>(MetadataType::kDelete, compat::KeysRequest{{key}}).success;
  }
  bool Pin(std::string_view key) {
    return Ask<compat::ExistsReply>(MetadataType::kPin, compat::KeysRequest{{key}}).exists;
  }
  bool Unpin(std::string_view key) {
    return Ask<compat::SuccessReply>(MetadataType::kUnpin, compat::KeysRequest{{key}}).success;
  }
  std::vector<bool> Batch(MetadataType type, std::vector<std::string_view> keys) {
    return Ask<compat::ResultsReply>(type, compat::KeysRequest{std::move(keys)}).results;
  }
  compat::HeartbeatReply Beat(bool release = false) {
    return Ask<compat::HeartbeatReply>(MetadataType::kHeartbeat,
                                       compat::HeartbeatRequest{instance_id_, lease_id_, release});
  }
  compat::StatsReply Stats() { return Plain<compat::StatsReply>(MetadataType::kGetStats); }
  compat::UsageReply Usage() { return Plain<compat::UsageReply>(MetadataType::kGetUsage); }

 private:
  TestEngine* host_;
  std::string instance_id_, lease_id_;
  MetadataContext context_;
};

class RmTestClient {
 public:
  RmTestClient(TestEngine* host, std::string client_id, ConnectionId connection)
      : host_(host), client_id_(std::move(client_id)), connection_(connection) {}

  template <typename Reply>
  Reply Ask(const compat::RmRequest& request) {
    return std::get<Reply>((*host_)->HandleRm(connection_, request, host_->now_ns()));
  }
  compat::RmStatus Error(const compat::RmRequest& request) {
    return Ask<compat::RmErrorReply>(request).status;
  }
  compat::RmAllocReply Alloc(uint64_t bytes, uint64_t request_id, std::string_view path = "") {
    return Ask<compat::RmAllocReply>(compat::RmAllocRequest{bytes, path, client_id_, request_id});
  }
  uint64_t BeginAlloc(uint64_t bytes, uint64_t request_id, compat::RmReply* reply) {
    return (*host_)->BeginRm(connection_, compat::RmAllocRequest{bytes, "", client_id_, request_id},
                             host_->now_ns(), reply);
  }
  compat::RmStatus Free(const compat::Handle& handle, uint64_t request_id) {
    return Ask<compat::RmFreeReply>(compat::RmFreeRequest{handle, client_id_, request_id}).status;
  }
  compat::RmAccessReply Access(const compat::Handle& handle) {
    return Ask<compat::RmAccessReply>(compat::RmAccessRequest{handle, client_id_});
  }
  const std::string& client_id() const { return client_id_; }
  void Disconnect() { (*host_)->RmDisconnected(connection_, host_->now_ns()); }

 private:
  TestEngine* host_;
  std::string client_id_;
  ConnectionId connection_;
};

}  // namespace maru::engine
