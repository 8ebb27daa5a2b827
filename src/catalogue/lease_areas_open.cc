// Opening the lease areas that a former server left.
#include <algorithm>
#include <string>
#include <tuple>

#include "base/log.h"
#include "catalogue/lease_areas_impl.h"
#include "catalogue/publication_points.h"
#include "catalogue/region_scan.h"
#include "layout/validate.h"
#include "layout/values.h"

namespace maru::catalogue {

using layout::BlockOwner;

Result<std::unique_ptr<LeaseAreas>> LeaseAreas::Open(std::byte* base, uint64_t bytes,
                                                     SpaceSource* space) {
  auto impl = std::make_unique<Impl>(base, bytes, space);
  MARU_RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<LeaseAreas>(new LeaseAreas(std::move(impl)));
}

Status LeaseAreas::Impl::Open() {
  MARU_ASSIGN_OR_RETURN(const std::vector<RegionExtent> regions, ReadRegions(memory));
  for (uint16_t number = 0; number < layout::kClientSlots; ++number) {
    const Status valid =
        layout::ValidateClientRecord(layout::ReadClient(*memory.Client(ClientSlot(number))));
    if (!valid.ok()) {
      return DataLoss("client slot " + std::to_string(number) + ": " +
                      std::string(valid.message()));
    }
  }
  std::vector<Named> named;
  for (const RegionExtent& region : regions) {
    if (region.kind != layout::RegionKind::kLeases) continue;
    for (uint64_t at = 0; at < region.length_bytes; at += layout::kUnitBytes) {
      blocks.AddUnit(region.offset_bytes + at, [&named](uint64_t offset, BlockOwner owner) {
        named.push_back({offset, owner});
      });
    }
  }
  AdoptBlocks(std::move(named));
  for (uint16_t number = 0; number < layout::kClientSlots; ++number) {
    if (clients[number].blocks.empty()) continue;
    // What the ring holds has been drained by the former server but for its last moments. Told
    // again, touches of long ago would count as the latest uses. Relaxed: recency is a hint.
    clients[number].drained = Header(ClientSlot(number)).touch_head.load(std::memory_order_relaxed);
  }
  return OkStatus();
}

void LeaseAreas::Impl::DropBlock(const Named& block, const std::string& why) {
  const std::string line = "lease block at " + std::to_string(block.offset_bytes) +
                           " is dropped: owner " + std::to_string(block.owner.bits()) + " " + why;
  LogWarning(line);
  if (dropped.size() < kDroppedLinesMax) dropped.push_back(line);
  blocks.Unname(block.offset_bytes);
}

void LeaseAreas::Impl::AdoptBlocks(std::vector<Named> named) {
  std::ranges::sort(named, {}, [](const Named& block) {
    return std::tuple(block.owner.client_slot(), block.owner.ordinal(), block.offset_bytes);
  });
  for (const Named& block : named) {
    const BlockOwner owner = block.owner;
    const uint64_t unit_offset = block.offset_bytes % layout::kUnitBytes;
    const Status valid = layout::ValidateBlockOwner(
        owner, static_cast<uint32_t>(unit_offset / layout::kLeaseBlockBytes));
    if (!valid.ok()) {
      DropBlock(block, "is impossible");
      continue;
    }
    const layout::ClientRecord& record = *memory.Client(ClientSlot(owner.client_slot()));
    if (record.client_id.load(std::memory_order_relaxed) != owner.client_id()) {
      // The server died before it named the client.
      blocks.Unname(block.offset_bytes);
      continue;
    }
    std::vector<uint64_t>& area = clients[owner.client_slot()].blocks;
    if (owner.ordinal() == area.size()) {
      area.push_back(block.offset_bytes);
    } else {
      DropBlock(block, owner.ordinal() < area.size() ? "has that block already"
                                                     : "has no block before it");
    }
  }
  for (uint16_t number = 0; number < layout::kClientSlots; ++number) {
    layout::ClientRecord& record = *memory.Client(ClientSlot(number));
    if (record.client_id.load(std::memory_order_relaxed) == 0) continue;
    if (!clients[number].blocks.empty()) continue;
    // The server died while it dropped the client.
    record.client_id.store(0, std::memory_order_release);
    MARU_PUBLICATION_POINT(points::kClientFreed);
  }
  FindClientsEnd();
}

}  // namespace maru::catalogue
