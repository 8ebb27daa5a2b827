#include "engine/client_room.h"

#include <algorithm>

namespace maru::engine {

using layout::PageState;

bool ClientRoom::FreeIdle(Stock* stock) {
  stock->EndQuarantines(core_->now_ns);
  retirement_->Reap(stock);
  const uint32_t freed = stock->FreeIdleRegions(0);
  core_->counters.regions_freed += freed;
  return freed > 0;
}

bool ClientRoom::Empty(Stock* stock, uint64_t bytes) {
  if (!evictor_->on()) return false;
  touches_->Drain();
  const std::vector<Part> emptied = Plan(stock->pool(), Parts(stock), bytes);
  for (const Part& part : emptied) RetireAll(stock, part);
  return !emptied.empty() && FreeIdle(stock);
}

std::vector<ClientRoom::Part> ClientRoom::Plan(const pool::Pool& pool, std::vector<Part> parts,
                                               uint64_t bytes) {
  std::vector<Part> emptied;
  uint64_t free_bytes = 0, piece_bytes = 0, pages = 0, keys = 0;
  for (const Part& part : parts) {
    if (part.pages > 0) continue;
    free_bytes += part.length_bytes;
    piece_bytes = std::max(piece_bytes, part.length_bytes);
  }
  for (int i = 0; i < kWindowsMax; ++i) {
    const pool::Pool::ClientNeed need = pool.NeedOfClientCut(bytes, pages);
    const bool has_piece = piece_bytes >= need.piece_bytes;
    if (has_piece && free_bytes >= need.free_bytes) return emptied;
    // The catalogue takes what it needs from anywhere.
    const std::optional<Window> window =
        Choose(parts, has_piece ? layout::kUnitBytes : need.piece_bytes);
    if (!window.has_value()) return {};
    keys += window->keys;
    if (keys > kKeysMax) return {};
    for (size_t at = window->from; at < window->to; ++at) {
      Part& part = parts[at];
      if (part.pages == 0) continue;
      emptied.push_back(part);
      free_bytes += part.length_bytes;
      pages += part.pages;
      part.pages = 0;
      part.keys = 0;
    }
    piece_bytes = std::max(piece_bytes, need.piece_bytes);
  }
  return {};
}

std::vector<ClientRoom::Part> ClientRoom::Parts(Stock* stock) const {
  const LeasedPages leased(core_, {.pool = stock});
  std::vector<Part> parts;
  uint64_t looks = 0;
  for (const pool::Pool::PageRegion& region : stock->pool().PageRegions()) {
    looks += region.page_count;
    if (looks > kLooksMax) break;
    Part part{.offset_bytes = region.offset_bytes,
              .length_bytes = region.length_bytes,
              .first_record = region.first_record,
              .pages = region.page_count};
    if (Look(*stock, leased, &part)) parts.push_back(part);
  }
  for (const pool::Pool::FreeRun& run : stock->pool().FreeRuns()) {
    parts.push_back({.offset_bytes = run.offset_bytes, .length_bytes = run.length_bytes});
  }
  std::ranges::sort(parts, {}, &Part::offset_bytes);
  return parts;
}

bool ClientRoom::Look(const Stock& stock, const LeasedPages& leased, Part* part) const {
  for (uint32_t i = 0; i < part->pages; ++i) {
    const RecordNumber number(part->first_record.value() + i);
    const PageState state = stock.State(number).state();
    if (state == PageState::kFree || stock.WornOut(number)) continue;
    if (state != PageState::kLive || leased.Contains(stock, number)) return false;
    if (Core::GloballyPinned(stock, number) || core_->OnHold(stock, number)) return false;
    ++part->keys;
    part->last_use = std::max(part->last_use, stock.recency().LastUse(number));
  }
  return true;
}

std::optional<ClientRoom::Window> ClientRoom::Choose(const std::vector<Part>& parts,
                                                     uint64_t bytes) {
  std::optional<Window> best;
  for (size_t from = 0; from < parts.size(); ++from) {
    Window window{.from = from, .to = from};
    uint64_t length = 0;
    while (length < bytes && window.to < parts.size()) {
      const Part& part = parts[window.to];
      if (part.offset_bytes != parts[from].offset_bytes + length) break;
      length += part.length_bytes;
      window.keys += part.keys;
      window.last_use = std::max(window.last_use, part.last_use);
      ++window.to;
    }
    if (length < bytes || window.keys == 0 || window.keys > kKeysMax) continue;
    if (!best.has_value() || window.last_use < best->last_use) best = window;
  }
  return best;
}

void ClientRoom::RetireAll(Stock* stock, const Part& part) {
  std::vector<Target> batch;
  for (uint32_t i = 0; i < part.pages; ++i) {
    const RecordNumber record(part.first_record.value() + i);
    if (stock->State(record).state() == PageState::kLive) batch.push_back({stock, record});
    if (batch.size() < kKeysPerBatch && i + 1 < part.pages) continue;
    retirement_->Retire(batch, Cause::kEvict);
    for (const Target& target : batch) {
      ++(target.fate == Target::Fate::kSpared ? core_->counters.eviction_spared
                                              : core_->counters.evicted);
    }
    batch.clear();
  }
}

}  // namespace maru::engine
