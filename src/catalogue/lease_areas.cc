#include "catalogue/lease_areas.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "catalogue/lease_areas_impl.h"
#include "catalogue/publication_points.h"

namespace maru::catalogue {

using layout::BlockOwner;
using layout::kLeaseSlotsPerBlock;
using layout::kTouchRingEntries;
using layout::SlotWord;

LeaseAreas::LeaseAreas(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LeaseAreas::~LeaseAreas() = default;

const std::vector<std::string>& LeaseAreas::dropped() const { return impl_->dropped; }
uint64_t LeaseAreas::bytes() const { return impl_->blocks.bytes(); }

Status LeaseAreas::AddClient(ClientSlot slot, const Identity& identity) {
  MARU_CHECK_LT(slot.value(), layout::kClientSlots);
  MARU_CHECK_NE(identity.id.value(), 0u);
  Impl::Client& client = impl_->clients[slot.value()];
  layout::ClientRecord& record = *impl_->memory.Client(slot);
  MARU_CHECK(client.blocks.empty()) << "client slot " << slot << " is taken";
  MARU_CHECK_EQ(record.client_id.load(std::memory_order_relaxed), 0u);

  MARU_ASSIGN_OR_RETURN(const uint64_t header, impl_->blocks.Take());
  Result<uint64_t> slots = impl_->blocks.Take();
  if (!slots.ok()) {
    impl_->blocks.PutBack(header);
    return slots.status();
  }
  // Fields, blocks, id. Relaxed for the fields: the release of the id carries them.
  record.process.store(uint64_t{identity.uid} << 32 | identity.pid, std::memory_order_relaxed);
  record.attached_unix_ns.store(identity.attached_unix_ns, std::memory_order_relaxed);
  record.budget_bytes.store(identity.budget_bytes, std::memory_order_relaxed);
  const std::string_view label = identity.label.substr(
      0, std::min(identity.label.find('\0'), static_cast<size_t>(layout::kLabelBytes - 1)));
  std::fill(std::begin(record.label), std::end(record.label), uint8_t{0});
  std::copy(label.begin(), label.end(), std::begin(record.label));
  MARU_PUBLICATION_POINT(points::kClientFields);
  impl_->blocks.Name(header, BlockOwner::Make(identity.id.value(), slot.value(), 0));
  impl_->blocks.Name(*slots, BlockOwner::Make(identity.id.value(), slot.value(), 1));
  client.blocks = {header, *slots};
  client.drained = 0;
  impl_->FindClientsEnd();
  // Release, with the acquire of whoever reads the client table in a mapped pool.
  record.client_id.store(identity.id.value(), std::memory_order_release);
  MARU_PUBLICATION_POINT(points::kClientNamed);
  return OkStatus();
}

Result<uint64_t> LeaseAreas::AddBlock(ClientSlot slot) {
  MARU_CHECK_LT(slot.value(), layout::kClientSlots);
  Impl::Client& client = impl_->clients[slot.value()];
  MARU_CHECK(!client.blocks.empty()) << "client slot " << slot << " is free";
  if (client.blocks.size() >= layout::kLeaseBlocksPerClientMax) {
    return ResourceExhausted(
        "a client holds at most " +
        std::to_string((layout::kLeaseBlocksPerClientMax - 1) * kLeaseSlotsPerBlock) +
        " leases in one pool");
  }
  MARU_ASSIGN_OR_RETURN(const uint64_t offset, impl_->blocks.Take());
  const uint64_t id = Record(slot).client_id.load(std::memory_order_relaxed);
  impl_->blocks.Name(offset, BlockOwner::Make(static_cast<uint32_t>(id), slot.value(),
                                              static_cast<uint16_t>(client.blocks.size())));
  client.blocks.push_back(offset);
  return offset;
}

void LeaseAreas::DropClient(ClientSlot slot) {
  MARU_CHECK_LT(slot.value(), layout::kClientSlots);
  Impl::Client& client = impl_->clients[slot.value()];
  if (client.blocks.empty()) return;
  // The header last: what a crash leaves is a client with a shorter area, or one without any, which
  // Open frees.
  while (!client.blocks.empty()) {
    const uint64_t offset = client.blocks.back();
    client.blocks.pop_back();
    impl_->blocks.Unname(offset);
  }
  client = {};
  impl_->FindClientsEnd();
  impl_->memory.Client(slot)->client_id.store(0, std::memory_order_release);
  MARU_PUBLICATION_POINT(points::kClientFreed);
}

std::vector<uint64_t> LeaseAreas::Blocks(ClientSlot slot) const {
  return impl_->clients.at(slot.value()).blocks;
}

std::vector<ClientSlot> LeaseAreas::Clients() const {
  std::vector<ClientSlot> slots;
  for (uint16_t number = 0; number < impl_->clients_end; ++number) {
    if (!impl_->clients[number].blocks.empty()) slots.push_back(ClientSlot(number));
  }
  return slots;
}

const layout::ClientRecord& LeaseAreas::Record(ClientSlot slot) const {
  MARU_CHECK_LT(slot.value(), layout::kClientSlots);
  return *impl_->memory.Client(slot);
}

void LeaseAreas::Impl::FindClientsEnd() {
  clients_end = layout::kClientSlots;
  while (clients_end > 0 && clients[clients_end - 1].blocks.empty()) --clients_end;
}

template <typename Visit>
void LeaseAreas::Impl::VisitSlots(ClientSlot slot, const Visit& visit) const {
  const Client& client = clients[slot.value()];
  if (client.blocks.empty()) return;
  // Seq_cst, the mark before the slots, with the client's seq_cst stores of the mark and then the
  // slot, and with Writer::Retire: a slot that is not met here was filled after RETIRING was
  // published, so the client's second look at the state word meets it.
  const uint64_t high = Header(slot).slots_high.load(std::memory_order_seq_cst);
  const uint64_t granted = (client.blocks.size() - 1) * kLeaseSlotsPerBlock;
  const uint64_t end = std::min(high, granted);
  for (uint64_t at = 0; at < end; ++at) {
    const auto* block = memory.At<layout::LeaseSlots>(client.blocks[1 + at / kLeaseSlotsPerBlock]);
    const SlotWord word(block->slots[at % kLeaseSlotsPerBlock].load(std::memory_order_seq_cst));
    if (word.empty() || word.generation().value() == 0) continue;
    if (memory.Record(word.record()) == nullptr) continue;
    visit(word);
  }
}

void LeaseAreas::Scan(const std::function<void(ClientSlot, SlotWord)>& visit) const {
  for (uint16_t number = 0; number < impl_->clients_end; ++number) {
    const ClientSlot slot(number);
    impl_->VisitSlots(slot, [&](SlotWord word) { visit(slot, word); });
  }
}

void LeaseAreas::DrainTouches(ClientSlot slot, const std::function<void(RecordNumber)>& visit) {
  MARU_CHECK_LT(slot.value(), layout::kClientSlots);
  Impl::Client& client = impl_->clients[slot.value()];
  if (client.blocks.empty()) return;
  const layout::LeaseHeader& header = impl_->Header(slot);
  // Relaxed, with Leases::Touch, which raises the head before it stores the entry: what is met
  // there may be an older touch, or one that is told twice. Recency is a hint.
  const uint64_t head = header.touch_head.load(std::memory_order_relaxed);
  uint64_t at = std::exchange(client.drained, head);
  if (head < at) return;  // not a counter any more
  if (head - at > kTouchRingEntries) at = head - kTouchRingEntries;
  for (; at < head; ++at) {
    const RecordNumber record(
        header.touches[at % kTouchRingEntries].load(std::memory_order_relaxed));
    if (impl_->memory.Record(record) != nullptr) visit(record);
  }
}

LeaseAreas::Counts LeaseAreas::ReadPublished(ClientSlot slot) const {
  MARU_CHECK_LT(slot.value(), layout::kClientSlots);
  Counts counts;
  if (impl_->clients[slot.value()].blocks.empty()) return counts;
  const layout::LeaseHeader& header = impl_->Header(slot);
  // The request first. Acquire, with the release of Leases::Publish: the counts below are those
  // after it or later ones, never earlier ones, so that audit compares them for what they are.
  counts.last_request = header.last_request.load(std::memory_order_acquire);
  counts.free_pages = header.free_pages.load(std::memory_order_relaxed);
  counts.pending_pages = header.pending_pages.load(std::memory_order_relaxed);
  counts.held_pages = header.held_pages.load(std::memory_order_relaxed);
  return counts;
}

LeaseAreas::Counts LeaseAreas::ReadCounts(ClientSlot slot) const {
  Counts counts = ReadPublished(slot);
  impl_->VisitSlots(slot,
                    [&counts](SlotWord word) { ++(word.pinned() ? counts.pins : counts.leases); });
  return counts;
}

void LeaseAreas::SetRecall(ClientSlot slot, uint64_t pages) {
  MARU_CHECK_LT(slot.value(), layout::kClientSlots);
  MARU_CHECK(!impl_->clients[slot.value()].blocks.empty()) << "client slot " << slot;
  // Relaxed, with Leases::recall: a wish, by itself.
  const_cast<layout::LeaseHeader&>(impl_->Header(slot))
      .recall.store(pages, std::memory_order_relaxed);
}

}  // namespace maru::catalogue
