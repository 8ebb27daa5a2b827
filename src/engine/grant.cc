#include "engine/grant.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/bytes.h"
#include "base/defect.h"
#include "base/log.h"
#include "base/units.h"

namespace maru::engine {

namespace {

Status Refuse(Core* core, const Client& client, Status why) {
  ++core->counters.grants_refused;
  if (LogEnabled(LogLevel::kDebug)) {
    LogDebug("client " + std::to_string(client.id.value()) +
             " is granted nothing: " + std::string(why.message()));
  }
  return why;
}

}  // namespace

Status Granting::Grant(Client* client, uint64_t page_bytes, uint32_t count,
                       std::vector<wire::PageRef>* pages) {
  pages->clear();
  MARU_RETURN_IF_ERROR(Check(&page_bytes, &count));
  MARU_ASSIGN_OR_RETURN(count, FitBudget(client, page_bytes, count));

  const Pools first = FirstChoice();
  TakeFree(first, client, page_bytes, count, pages);
  Cut(first, client, page_bytes, count, pages);
  if (pages->empty() && Cutting(first, page_bytes)) return OkStatus();
  if (pages->size() < count) TakeReturned(first, client, page_bytes, count, pages);
  if (pages->empty() && TakeUnused(first, client, page_bytes, count, pages)) return OkStatus();
  // Recall of grants that lie idle in other hands belongs here: after what is free, before keys go.
  if (pages->empty()) TakeEvicted(client, page_bytes, count, pages);
  // Regions of other page sizes whose keys could go belong here.
  if (pages->empty()) return Refuse(core_, *client, NothingMayGo(page_bytes));
  core_->counters.pages_granted += pages->size();
  return OkStatus();
}

bool Granting::TakeUnused(Pools first, Client* client, uint64_t page_bytes, uint32_t count,
                          std::vector<wire::PageRef>* granted) {
  if (FreeOtherSizes(first, page_bytes) > 0) {
    Cut(first, client, page_bytes, count, granted);
    if (granted->empty() && Cutting(first, page_bytes)) return true;
  }
  if (!granted->empty() || first == Pools::kAll || KeysGoElsewhere(page_bytes)) return false;
  TakeFree(Pools::kAll, client, page_bytes, count, granted);
  Cut(Pools::kAll, client, page_bytes, count, granted);
  return granted->empty() && Cutting(Pools::kAll, page_bytes);
}

void Granting::TakeReturned(Pools pools, Client* client, uint64_t page_bytes, uint32_t count,
                            std::vector<wire::PageRef>* granted) {
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    stock->EndQuarantines(core_->now_ns);
    retirement_->Reap(stock.get());
  }
  TakeFree(pools, client, page_bytes, count, granted);
  // Rather a longer step than a key lost, or a refusal, while pages are due.
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    uint64_t due_ns = Among(pools, *stock) ? core_->now_ns : 0;
    while (granted->empty() && due_ns != 0 && due_ns <= core_->now_ns) {
      due_ns = stock->EndQuarantines(core_->now_ns);
      TakeFree(pools, client, page_bytes, count, granted);
    }
  }
}

void Granting::TakeEvicted(Client* client, uint64_t page_bytes, uint32_t count,
                           std::vector<wire::PageRef>* granted) {
  for (int round = 0; granted->empty() && round < kEvictRoundsMax; ++round) {
    if (evictor_->Evict({.page_bytes = page_bytes}, page_bytes) == 0) break;
    TakeFree(FirstChoice(), client, page_bytes, count, granted);
    if (granted->empty()) TakeFree(Pools::kAll, client, page_bytes, count, granted);
  }
  if (granted->empty()) TakeFree(Pools::kAll, client, page_bytes, count, granted);
}

void Granting::Refill(Client* client, uint64_t page_bytes, uint32_t count,
                      std::vector<wire::PageRef>* pages) {
  pages->clear();
  if (!Check(&page_bytes, &count).ok()) return;
  count = BudgetRoom(*client, page_bytes, count);
  if (count == 0) return;
  const Pools first = FirstChoice();
  TakeFree(first, client, page_bytes, count, pages);
  Cut(first, client, page_bytes, count, pages);
  // A cache that is full has none free as a rule. Where the client's next call would find none in
  // hand, the keys that it would cost go now, and save it a message; but few beside those there.
  const Scope scope{.page_bytes = page_bytes};
  if (pages->empty() && !Cutting(first, page_bytes) && client->granted_bytes == 0 &&
      scope.LivePages(*core_) >= kLivePerRefill) {
    TakeReturned(first, client, page_bytes, count, pages);
    const bool cutting = pages->empty() && TakeUnused(first, client, page_bytes, count, pages);
    if (pages->empty() && !cutting && evictor_->Evict(scope, page_bytes) > 0) {
      TakeFree(FirstChoice(), client, page_bytes, count, pages);
    }
  }
  core_->counters.pages_granted += pages->size();
}

Status Granting::Check(uint64_t* page_bytes, uint32_t* count) {
  if (*page_bytes == 0 || *count == 0) {
    return InvalidArgument("a grant of " + std::to_string(*count) + " pages of " +
                           std::to_string(*page_bytes) + " bytes");
  }
  if (*page_bytes > layout::kPoolBytesMax) {
    return InvalidArgument("a page of " + std::to_string(*page_bytes) +
                           " bytes is larger than any pool can be");
  }
  *page_bytes = AlignUp(*page_bytes, layout::kPageAlignBytes);
  *count = std::min(*count, wire::kPagesPerMessageMax);
  return OkStatus();
}

uint32_t Granting::BudgetRoom(const Client& client, uint64_t page_bytes, uint32_t count) {
  const uint64_t budget = client.budget_bytes;
  if (budget == 0 || kDefect == Defect::kBudgetIgnored) return count;
  const uint64_t used = client.granted_bytes + client.live_bytes;
  if (used >= budget) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>((budget - used) / page_bytes, count));
}

Result<uint32_t> Granting::FitBudget(Client* client, uint64_t page_bytes, uint32_t count) {
  const uint64_t budget = client->budget_bytes;
  for (int round = 0; round < kEvictRoundsMax; ++round) {
    if (const uint32_t pages = BudgetRoom(*client, page_bytes, count)) return pages;
    // What is granted stays: without it the page must fit, or no key need go. One page is waited
    // for; more would be keys lost for pages that lie idle.
    if (client->granted_bytes + page_bytes > budget) break;
    const uint64_t over = client->granted_bytes + client->live_bytes + page_bytes - budget;
    if (evictor_->Evict({.owner = client}, over) == 0) break;
  }
  if (const uint32_t pages = BudgetRoom(*client, page_bytes, count)) return pages;
  return Refuse(
      core_, *client,
      ResourceExhausted("the budget of " + FormatSizeExact(budget) +
                        " (pool_size) has no room for a page of " + FormatSizeExact(page_bytes) +
                        ": " + FormatSizeExact(client->granted_bytes) + " are granted, " +
                        FormatSizeExact(client->live_bytes) + " hold the client's " +
                        std::to_string(client->live_pages) + " keys, " +
                        (evictor_->on() ? "of which none may go (pinned, leased or on hold)"
                                        : "and eviction is off")));
}

Granting::Pools Granting::FirstChoice() const {
  bool fit = false, refuse = false;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    (stock->KeysFit() ? fit : refuse) = true;
  }
  return fit && refuse ? Pools::kKeysFit : Pools::kAll;
}

bool Granting::KeysGoElsewhere(uint64_t page_bytes) const {
  if (!evictor_->on()) return false;
  const Stock* const oldest = PoolOfOldest(page_bytes);
  return oldest != nullptr && oldest->KeysFit();
}

Stock* Granting::PoolOfOldest(uint64_t page_bytes) const {
  Victims keys;
  std::vector<PageLists::Id> lists;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    const auto size_class = stock->FindClass(page_bytes);
    if (!size_class.has_value()) continue;
    lists.clear();
    stock->recency().Lists(*size_class, &lists);
    for (const PageLists::Id list : lists) keys.Add(stock.get(), list);
  }
  Victims::Victim oldest;
  return keys.Next(&oldest) ? oldest.stock : nullptr;
}

bool Granting::HasPageBeside(const Stock& stock, uint64_t page_bytes) {
  for (const std::unique_ptr<Stock>& other : core_->stocks) {
    if (other.get() == &stock || !other->KeysFit()) continue;
    const auto has_free = [&] {
      const auto size_class = other->FindClass(page_bytes);
      return size_class.has_value() && other->Class(*size_class).free_pages > 0;
    };
    if (has_free() || BeginCut(other.get(), page_bytes)) return true;
  }
  return false;
}

void Granting::TakeFree(Stock* stock, Client* client, uint64_t page_bytes, uint32_t count,
                        std::vector<wire::PageRef>* pages) {
  const auto size_class = stock->FindClass(page_bytes);
  if (!size_class.has_value()) return;
  wire::PageRef page;
  while (pages->size() < count && stock->Grant(*size_class, client, &page)) {
    pages->push_back(page);
  }
}

void Granting::TakeFree(Pools pools, Client* client, uint64_t page_bytes, uint32_t count,
                        std::vector<wire::PageRef>* granted) {
  const auto fit = [](const std::unique_ptr<Stock>& stock) { return stock->KeysFit(); };
  if (pools == Pools::kAll && core_->stocks.size() > 1 && evictor_->on() &&
      !std::ranges::all_of(core_->stocks, fit)) {
    // The key of a page there costs another; the first pool would lose its newest ones to them.
    if (Stock* const oldest = PoolOfOldest(page_bytes)) {
      TakeFree(oldest, client, page_bytes, count, granted);
    }
  }
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    if (Among(pools, *stock)) TakeFree(stock.get(), client, page_bytes, count, granted);
  }
}

uint64_t Granting::RegionBytes(const Stock& stock, uint64_t page_bytes) const {
  const EngineOptions& options = core_->options;
  const pool::Pool::Usage usage = stock.pool().usage();
  const auto size_class = stock.FindClass(page_bytes);
  const uint64_t pages_there = size_class.has_value() ? stock.Class(*size_class).pages : 0;

  // As much again as the size has, so that large pools are cut in few regions; in a small pool a
  // sixteenth at a time, so that the first page size does not take it whole.
  uint64_t wanted = std::clamp(pages_there * page_bytes, options.region_bytes_min,
                               std::max(options.region_bytes_min, options.region_bytes_max));
  wanted = std::max(wanted, options.region_pages_min * page_bytes);
  wanted = std::min(wanted, std::max(usage.pool_bytes / 16, page_bytes));
  // The pool gives less where its catalogue needs the room (pool/room_plan.h).
  return wanted;
}

void Granting::Cut(Pools pools, Client* client, uint64_t page_bytes, uint32_t count,
                   std::vector<wire::PageRef>* granted) {
  for (int units = 0; granted->size() < count && units < kCutUnitsPerGrant; ++units) {
    if (!CutUnit(pools, page_bytes)) return;
    TakeFree(pools, client, page_bytes, count, granted);
  }
}

bool Granting::CutUnit(Pools pools, uint64_t page_bytes) {
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    if (!Among(pools, *stock) || !stock->cutting(page_bytes)) continue;
    if (stock->CutUnit(page_bytes, 0).ok()) return true;
  }
  return std::ranges::any_of(core_->stocks, [&](const std::unique_ptr<Stock>& stock) {
    // A failure means that this pool has no such room; the next one may.
    return Among(pools, *stock) && BeginCut(stock.get(), page_bytes);
  });
}

bool Granting::BeginCut(Stock* stock, uint64_t page_bytes) {
  const auto cut = stock->CutUnit(page_bytes, RegionBytes(*stock, page_bytes));
  if (!cut.ok()) {
    WarnOfMemory(*stock);
    return false;
  }
  if (*cut == Stock::Cut::kBegun) {
    ++core_->counters.regions_cut;
    if (LogEnabled(LogLevel::kDebug)) {
      LogDebug("a region of " + stock->pool().name() + " is begun, of pages of " +
               FormatSizeExact(page_bytes));
    }
  }
  return true;
}

uint32_t Granting::FreeOtherSizes(Pools pools, uint64_t page_bytes) {
  uint32_t freed = 0;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    if (Among(pools, *stock)) freed += core_->FreeIdleRegions(stock.get(), page_bytes);
  }
  return freed;
}

void Granting::WarnOfMemory(const Stock& stock) {
  if (stock.cut_failure().ok() || core_->now_ns < next_memory_log_ns_) return;
  next_memory_log_ns_ = core_->now_ns + kMemoryLogNs;
  LogWarning("no region of pages is cut: " + std::string(stock.cut_failure().message()));
}

bool Granting::Cutting(Pools pools, uint64_t page_bytes) const {
  return std::ranges::any_of(core_->stocks, [=](const std::unique_ptr<Stock>& stock) {
    return Among(pools, *stock) && stock->cutting(page_bytes);
  });
}

Status Granting::NothingMayGo(uint64_t page_bytes) const {
  uint64_t pages = 0, live = 0, free_bytes = 0;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    free_bytes += stock->pool().usage().free_bytes;
    const auto size_class = stock->FindClass(page_bytes);
    if (!size_class.has_value()) continue;
    pages += stock->Class(*size_class).pages;
    live += stock->Class(*size_class).live_pages;
  }
  std::string why =
      "the pool is full: no page of " + FormatSizeExact(page_bytes) + " is free, none can be cut" +
      (free_bytes == 0 ? "" : " (" + FormatSizeExact(free_bytes) + " are not cut yet)") + ", and ";
  if (!evictor_->on()) {
    why += "eviction is off";
  } else if (live == 0) {
    why += "there is no key of that page size to evict";
  } else {
    why += "of " + std::to_string(live) +
           " keys of that page size none may go (pinned, leased or on hold)";
  }
  why +=
      "; pages of that size: " + std::to_string(pages) + "; pages that are there: " + PagesThere();
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    // Then it is not the pool that is full.
    if (!stock->cut_failure().ok()) why += "; " + std::string(stock->cut_failure().message());
  }
  return ResourceExhausted(why);
}

std::string Granting::PagesThere() const {
  constexpr size_t kSizesMax = 4;
  std::map<uint64_t, uint64_t> pages;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    for (const Stock::SizeClass& size : stock->classes()) pages[size.page_bytes] += size.pages;
  }
  std::erase_if(pages, [](const auto& size) { return size.second == 0; });
  std::string text;
  size_t named = 0;
  for (const auto& [page_bytes, count] : pages) {
    if (++named > kSizesMax) break;
    text += (named == 1 ? "" : ", ") + std::to_string(count) + " of " + FormatSizeExact(page_bytes);
  }
  if (pages.empty()) return "none";
  if (pages.size() <= kSizesMax) return text;
  return text + ", and those of " + std::to_string(pages.size() - kSizesMax) + " other sizes";
}

}  // namespace maru::engine
