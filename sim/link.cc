// The simulated connection: what it loses, repeats and delays, and when the server dies.

#include "base/check.h"
#include "sim/process.h"
#include "wire/codec.h"

namespace maru::sim {

SimPool::SimPool(World* world, size_t index, const wire::AttachedPool& attached, LockToken token)
    : world_(world),
      index_(index),
      view_(world->view(index)),
      uuid_(attached.uuid),
      checksums_((attached.flags & layout::kFlagChecksums) != 0),
      token_(std::move(token)),
      block_offsets_(attached.lease_blocks) {
  MARU_CHECK(attached.lease_blocks.size() >= 2);
  std::vector<layout::LeaseSlots*> blocks;
  for (size_t i = 1; i < attached.lease_blocks.size(); ++i) {
    blocks.push_back(Slots(attached.lease_blocks[i]));
  }
  auto* header =
      reinterpret_cast<layout::LeaseHeader*>(world_->base(index_) + attached.lease_blocks.front());
  leases_ = std::make_unique<catalogue::Leases>(view_, header, blocks);
}

layout::LeaseSlots* SimPool::Slots(uint64_t offset_bytes) {
  return reinterpret_cast<layout::LeaseSlots*>(world_->base(index_) + offset_bytes);
}

Result<std::byte*> SimPool::Writable(uint64_t offset_bytes, uint64_t) {
  return world_->base(index_) + offset_bytes;
}

Status SimPool::AddLeaseBlocks(std::span<const uint64_t> offsets) {
  for (uint64_t offset : offsets) {
    block_offsets_.push_back(offset);
    leases_->AddBlock(Slots(offset));
  }
  return OkStatus();
}

Status SimLink::Broken(const char* why) {
  Disconnect();
  return Unavailable(why);
}

Status SimLink::TimedOut(const char* why) {
  Disconnect();
  return DeadlineExceeded(why);
}

void SimLink::Disconnect() {
  if (connection_ != 0) world_->QueueClose(connection_);
  connection_ = 0;
}

void SimLink::Close() {
  pools_.clear();
  Disconnect();
}

void SimLink::Die() {
  dead_ = true;
  Disconnect();
  for (auto& pool : pools_) pool->leases().MakeInert();
  pools_.clear();
}

bool SimLink::connected() const {
  return !dead_ && connection_ != 0 && world_->ConnectionAlive(connection_);
}

std::vector<std::byte> SimLink::Encode(const wire::Request& request) {
  std::vector<std::byte> frame(layout::kFrameBytesMax);
  const auto bytes = wire::EncodeRequest(request, RequestNumber(next_request_++), Epoch(0), frame);
  if (!bytes.ok()) throw Violation("request: " + bytes.status().ToString());
  frame.resize(*bytes);
  return frame;
}

void SimLink::Decode(Status* server_status, wire::Reply* reply) {
  layout::FrameHeader header;
  const Status decoded = decoder_.DecodeReply(answer_, &header, server_status, reply);
  if (!decoded.ok()) throw Violation("reply: " + decoded.ToString());
}

Status SimLink::Connect(const wire::AttachRequest& request, wire::AttachReply* reply,
                        std::vector<std::shared_ptr<handler::MappedPool>>* pools) {
  if (dead_) return Unavailable("the process is gone");
  Disconnect();
  if (!world_->server_up()) return Unavailable("no server");
  connection_ = world_->Connect();
  const std::vector<std::byte> frame = Encode(request);
  if (faults_ && world_->Happens(30)) {
    world_->tally().Count("fault: attach lost");
    return TimedOut("attach lost");
  }
  if (faults_ && world_->Happens(30)) world_->ArmDeath(1 + world_->chance().Below(6));
  auto answer = world_->Deliver(connection_, pid_, frame);
  world_->DisarmDeath();
  if (!answer) return Broken("the server died over an attach");
  answer_ = std::move(*answer);
  Status refused;
  wire::Reply answered;
  Decode(&refused, &answered);
  if (!refused.ok()) {
    Disconnect();
    return refused;
  }
  auto* attached = std::get_if<wire::AttachReply>(&answered);
  MARU_CHECK(attached != nullptr);
  *reply = *attached;
  // The descriptors lie in the answer: when it is lost, they are closed with it.
  LockToken token = world_->TakeToken(attached->slot);
  if (faults_ && world_->Happens(30)) {
    world_->tally().Count("fault: attach answer lost");
    return TimedOut("attach answer lost");
  }
  if (!attached->same_client || pools_.empty()) {
    if (attached->same_client) {
      Disconnect();
      return Unavailable("the mapping is gone");
    }
    if (token == nullptr) throw Violation("a new client without a lock");
    pools_.clear();
    for (size_t i = 0; i < attached->pools.size(); ++i) {
      pools_.push_back(std::make_shared<SimPool>(world_, i, attached->pools[i], token));
    }
  } else {
    world_->tally().Count("same client goes on");
  }
  last_request_ = next_request_ - 1;
  *pools = pools_;
  return OkStatus();
}

SimLink::Fault SimLink::DrawFault(const wire::Request& request) {
  const auto* const registering = std::get_if<wire::RegisterRequest>(&request);
  const bool repeats = registering != nullptr && world_->options().repeats && world_->Happens(300);
  if (!faults_ || (!repeats && !world_->Happens(80))) return Fault::kNone;
  const auto fault = repeats ? Fault::kRepeat : static_cast<Fault>(1 + world_->chance().Below(9));
  const bool names_pages = std::holds_alternative<wire::GiveBackRequest>(request) ||
                           std::holds_alternative<wire::FreeRequest>(request) ||
                           std::holds_alternative<wire::ResolveRequest>(request) ||
                           registering != nullptr;
  if (fault == Fault::kRepeat && !names_pages) return Fault::kNone;
  // Of a register alone an error or a short answer leaves open what was done.
  if ((fault == Fault::kShortReply || fault == Fault::kErrorReply) && registering == nullptr) {
    return Fault::kNone;
  }
  static constexpr const char* kNames[] = {"none",
                                           "request lost",
                                           "reply lost",
                                           "request late",
                                           "request repeated",
                                           "error reply",
                                           "short reply",
                                           "server dies before",
                                           "server dies during",
                                           "server dies after"};
  world_->tally().Count(std::string("fault: ") + kNames[static_cast<size_t>(fault)]);
  return fault;
}

void SimLink::Repeat(const wire::Request& request) {
  wire::Request again = request;
  // Repeated is what names the pages that it is about: who asks for new ones asks once more.
  if (auto* registering = std::get_if<wire::RegisterRequest>(&again)) registering->refill_count = 0;
  const std::vector<std::byte> frame = Encode(again);
  // Now, and once more after what comes next.
  if (world_->Happens(300)) world_->Deliver(connection_, pid_, frame);
  world_->QueueFrame(connection_, pid_, frame);
}

Status SimLink::Call(const wire::Request& request, Status* server_status, wire::Reply* reply,
                     Sent* sent) {
  *sent = Sent::kNo;
  if (!connected()) return Broken("not connected");
  std::vector<std::byte> frame = Encode(request);
  const uint64_t number = next_request_ - 1;
  busy_ = true;
  world_->interleave();
  busy_ = false;
  if (!connected()) return Broken("the connection broke");

  const Fault fault = DrawFault(request);
  *sent = Sent::kMaybe;
  if (fault == Fault::kLostRequest) return TimedOut("request lost");
  if (fault == Fault::kLate) {
    world_->QueueFrame(connection_, pid_, std::move(frame));
    return TimedOut("request late");
  }
  if (fault == Fault::kDeathBefore) {
    world_->KillServer();
    return Broken("the server died");
  }
  if (fault == Fault::kDeathDuring) world_->ArmDeath(1 + world_->chance().Below(12));
  auto answer = world_->Deliver(connection_, pid_, frame);
  world_->DisarmDeath();
  if (!answer) return Broken("the server died over a request");
  if (fault == Fault::kRepeat) Repeat(request);
  if (fault == Fault::kDeathAfter) {
    world_->KillServer();
    return Broken("the server died");
  }
  busy_ = true;
  world_->interleave();
  busy_ = false;
  if (fault == Fault::kLostReply) return TimedOut("reply lost");

  answer_ = std::move(*answer);
  Decode(server_status, reply);
  last_request_ = number;
  if (fault == Fault::kErrorReply) {
    *server_status = Internal("made up");
    *reply = wire::Reply();
  }
  if (fault == Fault::kShortReply) {
    if (auto* registered = std::get_if<wire::RegisterReply>(reply)) {
      registered->items.resize(world_->chance().Below(registered->items.size() + 1));
    }
  }
  return OkStatus();
}

}  // namespace maru::sim
