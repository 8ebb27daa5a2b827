#include "handler/ledger.h"

#include "base/check.h"

namespace maru::handler {

Ledger::Entry& Ledger::At(PoolIndex pool, RecordNumber record) {
  MARU_CHECK(pool.value() < layout::kPoolsMax);
  auto& chunks = pools_[pool.value()].chunks;
  const size_t index = record.value() >> kChunkLog2;
  if (index >= chunks.size()) chunks.resize(index + 1);
  if (chunks[index] == nullptr) chunks[index] = std::make_unique<Chunk>();
  return chunks[index]->entries[record.value() & (kChunkEntries - 1)];
}

const Ledger::Entry* Ledger::Find(PoolIndex pool, RecordNumber record) const {
  if (pool.value() >= layout::kPoolsMax) return nullptr;
  const auto& chunks = pools_[pool.value()].chunks;
  const size_t index = record.value() >> kChunkLog2;
  if (index >= chunks.size() || chunks[index] == nullptr) return nullptr;
  return &chunks[index]->entries[record.value() & (kChunkEntries - 1)];
}

Ledger::Entry* Ledger::Find(PoolIndex pool, RecordNumber record) {
  return const_cast<Entry*>(static_cast<const Ledger*>(this)->Find(pool, record));
}

void Ledger::Move(PoolIndex pool, Entry& entry, Holding holding) {
  auto& counts = pools_[pool.value()].counts;
  uint64_t& former = counts[static_cast<size_t>(entry.holding)];
  if (entry.holding != Holding::kNone) {
    MARU_CHECK(former > 0) << "pool " << pool;
    --former;
  }
  entry.holding = holding;
  if (holding != Holding::kNone) ++counts[static_cast<size_t>(holding)];
}

uint64_t Ledger::Count(Holding holding) const {
  uint64_t sum = 0;
  for (const PoolChunks& pool : pools_) sum += pool.counts[static_cast<size_t>(holding)];
  return sum;
}

void Ledger::VisitHeld(const std::function<void(PoolIndex, RecordNumber, Entry&)>& visit) {
  for (size_t p = 0; p < layout::kPoolsMax; ++p) {
    auto& chunks = pools_[p].chunks;
    for (size_t c = 0; c < chunks.size(); ++c) {
      if (chunks[c] == nullptr) continue;
      for (uint32_t i = 0; i < kChunkEntries; ++i) {
        Entry& entry = chunks[c]->entries[i];
        if (entry.holding == Holding::kNone || entry.holding == Holding::kStored) continue;
        const auto record = static_cast<uint32_t>((c << kChunkLog2) | i);
        visit(PoolIndex(static_cast<uint8_t>(p)), RecordNumber(record), entry);
      }
    }
  }
}

}  // namespace maru::handler
