#include "direct_link.h"

#include "base/check.h"
#include "base/units.h"
#include "layout/superblock.h"

namespace maru::handler {

void Host::RestartOnAnotherPool() {
  With([this](engine::TestEngine& engine) {
    engine.Kill();
    engine.AddMemory(engine.options().pools.front());
    engine.SetServed({memories_++});
    engine.Start();
  });
}

DirectPool::DirectPool(std::byte* base, catalogue::PoolView view,
                       const wire::AttachedPool& attached, LockToken token)
    : base_(base),
      view_(view),
      uuid_(attached.uuid),
      checksums_((attached.flags & layout::kFlagChecksums) != 0),
      token_(std::move(token)) {
  MARU_CHECK_GE(attached.lease_blocks.size(), 2u);
  block_offsets_.push_back(attached.lease_blocks.front());
  auto* header = reinterpret_cast<layout::LeaseHeader*>(base_ + attached.lease_blocks.front());
  leases_ =
      std::make_unique<catalogue::Leases>(view_, header, std::span<layout::LeaseSlots* const>());
  MARU_CHECK_OK(AddLeaseBlocks(std::span(attached.lease_blocks).subspan(1)));
}

Result<std::byte*> DirectPool::Writable(uint64_t offset_bytes, uint64_t length_bytes) {
  MARU_CHECK(view_.InBounds(offset_bytes, length_bytes));
  if (std::exchange(refuse_mapping_, false)) return ResourceExhausted("no mapping, says the test");
  return base_ + offset_bytes;
}

Status DirectPool::AddLeaseBlocks(std::span<const uint64_t> offsets) {
  if (std::exchange(refuse_blocks_, false)) return ResourceExhausted("no mapping, says the test");
  for (const uint64_t offset : offsets) {
    block_offsets_.push_back(offset);
    leases_->AddBlock(reinterpret_cast<layout::LeaseSlots*>(base_ + offset));
  }
  return OkStatus();
}

bool DirectLink::OtherEndIsOpen() {
  return connection_ != 0 &&
         host_->With([this](engine::TestEngine& engine) { return engine.Open(connection_); });
}

Status DirectLink::Broken(const char* why) {
  Disconnect();
  return Unavailable(why);
}

void DirectLink::Probe() {
  if (!OtherEndIsOpen()) Disconnect();
}

void DirectLink::Disconnect() {
  const engine::ConnectionId closed = connection_.exchange(0);
  if (closed == 0) return;
  host_->With([closed](engine::TestEngine& engine) { engine.Close(closed); });
}

void DirectLink::Close() {
  pools_.clear();
  Disconnect();
}

Status DirectLink::Connect(const wire::AttachRequest& request, wire::AttachReply* reply,
                           std::vector<std::shared_ptr<MappedPool>>* pools) {
  if (connecting) connecting();
  Disconnect();
  // Let go outside the host's mutex, which the last of their tokens takes.
  std::vector<std::shared_ptr<DirectPool>> former;
  wire::Reply answer;
  Status status;
  host_->With([&](engine::TestEngine& engine) {
    if (!engine.running()) {
      status = Unavailable("no server");
      return;
    }
    connection_ = engine.NewConnection();
    status = engine.Ask(connection_, request, &answer, next_request_++);
    if (!status.ok()) return;
    const auto& attached = std::get<wire::AttachReply>(answer);
    if (attached.same_client) return;
    former = std::exchange(pools_, {});
    Host* const host = host_;
    const ClientSlot slot = attached.slot;
    const LockToken token(this, [host, slot](void*) {
      host->With([slot](engine::TestEngine& let_go) { let_go.locks().LetGo(slot); });
    });
    for (size_t i = 0; i < attached.pools.size(); ++i) {
      pools_.push_back(
          std::make_shared<DirectPool>(engine.base(i), engine.view(i), attached.pools[i], token));
    }
  });
  if (status.ok() && edit) edit(request, &status, &answer);
  if (!status.ok()) {
    Disconnect();
    return status;
  }
  *reply = std::get<wire::AttachReply>(answer);
  pools->assign(pools_.begin(), pools_.end());
  pools->resize(reply->pools.size());
  return OkStatus();
}

Status DirectLink::Call(const wire::Request& request, Status* server_status, wire::Reply* reply,
                        Sent* sent) {
  *sent = Sent::kNo;
  const Road taken = road ? road(request) : Road::kWhole;
  if (taken == Road::kNotSent || !OtherEndIsOpen()) return Broken("the connection is closed");
  *sent = Sent::kMaybe;
  if (taken == Road::kRequestLost) return Broken("the request is lost");
  const uint64_t number = next_request_++;
  const bool answered = host_->With([&](engine::TestEngine& engine) {
    if (!engine.Open(connection_)) return false;
    *server_status = engine.Ask(connection_, request, reply, number);
    return true;
  });
  if (!answered) return Broken("the server died");
  if (taken == Road::kReplyLost) return Broken("the reply is lost");
  last_request_ = number;  // came in; what becomes of it is the handler's
  if (edit) edit(request, server_status, reply);
  return OkStatus();
}

}  // namespace maru::handler
