#include "engine/audit.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "engine/json.h"

namespace maru::engine {

using layout::PageState;

namespace {

Engine::PoolCounts CountRegions(const Stock& stock,
                                std::span<const pool::Pool::PageRegion> regions) {
  std::array<uint64_t, layout::kPageStateLast + 1> states{};
  uint64_t pages = 0;
  for (const pool::Pool::PageRegion& region : regions) {
    pages += region.page_count;
    for (uint32_t i = 0; i < region.page_count; ++i) {
      const RecordNumber record(region.first_record.value() + i);
      ++states[static_cast<uint8_t>(stock.State(record).state())];
    }
  }
  const auto of = [&states](PageState state) { return states[static_cast<uint8_t>(state)]; };
  return {.pages = pages,
          .free = of(PageState::kFree),
          .quarantined = of(PageState::kQuarantined),
          .granted = of(PageState::kGranted),
          .live = of(PageState::kLive),
          .retiring = of(PageState::kRetiring),
          .condemned = of(PageState::kCondemned),
          .worn = of(PageState::kWorn)};
}

}  // namespace

Engine::PoolCounts CountPages(const Stock& stock) {
  const std::vector<pool::Pool::PageRegion> regions = stock.pool().PageRegions();
  return CountRegions(stock, regions);
}

Engine::PoolCounts CountPages(const Stock& stock, const pool::Pool::PageRegion& region) {
  return CountRegions(stock, {&region, 1});
}

AuditRun::AuditRun(const Core* core, Bytes bytes, uint64_t asker)
    : core_(core), bytes_(bytes), asker_(asker), pools_(core->stocks.size()) {}

AuditRun::~AuditRun() = default;

// --- What is found.

std::string AuditRun::Name(RecordNumber record) const {
  return PoolName() + " record " + std::to_string(record.value()) + ": ";
}

void AuditRun::Offend(std::string what) {
  if (offenders_.size() < kOffendersMax) {
    offenders_.push_back(std::move(what));
  } else {
    ++offenders_left_out_;
  }
}

void AuditRun::OffendAll(const std::vector<catalogue::Writer::Offender>& found) {
  for (const auto& offender : found) Offend(Name(offender.record) + offender.what);
}

void AuditRun::Unchecked(std::string what) {
  if (unchecked_.size() < kUncheckedMax) {
    unchecked_.push_back(std::move(what));
  } else {
    ++unchecked_left_out_;
  }
}

// --- The walk.

bool AuditRun::Take(uint64_t units) {
  if (work_ == 0) return false;
  // The last thing of a step may go beyond its work by what one thing takes.
  work_ -= std::min(work_, units);
  return true;
}

bool AuditRun::Step(uint64_t work) {
  work_ = work;
  while (!done_ && pool_ < pools_.size()) {
    if (phase_ == Phase::kLists && run().pages == nullptr) BeginPool();
    if (!StepPhase()) return false;
    cursor_ = 0;
    if (phase_ != Phase::kRelease) {
      phase_ = static_cast<Phase>(static_cast<uint8_t>(phase_) + 1);
      continue;
    }
    run().lists.reset();
    run().index.reset();
    ++pool_;
    phase_ = Phase::kLists;
  }
  if (!done_) done_ = StepClients() && StepNamespaces();
  return done_;
}

void AuditRun::BeginPool() {
  Stock* const stock = core_->stocks[pool_].get();
  run().lists = std::make_unique<ListCensus>(stock);
  run().pages = std::make_unique<PageCensus>(stock, &core_->clients, &by_client_, &by_namespace_);
  run().index = stock->writer().CountIndex();
}

bool AuditRun::StepPhase() {
  switch (phase_) {
    case Phase::kLists: return StepLists();
    case Phase::kRecords: return StepRecords();
    case Phase::kIndex: return StepIndex();
    case Phase::kListSums: return StepListSums();
    case Phase::kRegions: return StepRegions();
    case Phase::kRuns: return StepRuns();
    case Phase::kClientRegions: return StepClientRegions();
    case Phase::kSums: CheckPoolSums(); return true;
    case Phase::kRelease: return run().lists->Release(&work_);
  }
  return true;
}

bool AuditRun::StepLists() {
  return run().lists->Step(
      &work_, core_->use_tick,
      [this](RecordNumber record, const std::string& what) { Offend(Name(record) + what); });
}

bool AuditRun::StepIndex() {
  using Progress = catalogue::IndexCensus::Progress;
  uint64_t slots = work_ * kIndexSlotsPerWork;
  std::vector<catalogue::Writer::Offender> found;
  const Progress progress = run().index->Step(&slots, &found);
  work_ = slots / kIndexSlotsPerWork;
  OffendAll(found);
  if (progress == Progress::kMore) return false;
  if (progress == Progress::kGaveUp) {
    Unchecked(PoolName() + ": its index, which grew too often meanwhile");
  }
  return true;
}

// --- The answer.

namespace {

uint64_t Records(const Stock& stock) {
  // Relaxed: this process is the one that stores it.
  return stock.pool().view().root().record_high.load(std::memory_order_relaxed);
}

// Of one pool: what lies in lists, the records, the index, the bytes.
uint64_t WorkOfBytes(const Stock& stock) {
  const bool checksums = (stock.pool().superblock().flags & layout::kFlagChecksums) != 0;
  return checksums ? stock.stored_bytes() / AuditRun::kBytesPerWork : 0;
}

uint64_t Linked(const Stock& stock) {
  const Engine::PoolCounts& counts = stock.counts();
  return counts.pages - counts.worn + stock.extents_condemned();
}

}  // namespace

uint64_t AuditRun::WorkInAll() const {
  uint64_t all = 0;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    all += Linked(*stock) + Records(*stock) + stock->writer().index_slots() / kIndexSlotsPerWork;
    if (bytes_ == Bytes::kVerify) all += WorkOfBytes(*stock);
  }
  return all;
}

uint64_t AuditRun::WorkDone() const {
  uint64_t done = bytes_verified_ / kBytesPerWork;
  for (size_t i = 0; i < pools_.size(); ++i) {
    const Stock& stock = *core_->stocks[i];
    const uint64_t slots = stock.writer().index_slots();
    const PoolRun& run = pools_[i];
    if (run.pages == nullptr) continue;
    done += std::min(run.pages->frontier(), Records(stock));
    done += run.lists != nullptr ? std::min(run.lists->met(), Linked(stock)) : Linked(stock);
    done += (run.index != nullptr ? std::min(run.index->slots_done(), slots) : slots) /
            kIndexSlotsPerWork;
  }
  return done;
}

void AuditRun::Reply(wire::AuditReply* reply) const {
  reply->work_in_all = WorkInAll();
  // Not more than all, though pages come and go while they are counted.
  reply->work_done = done_ ? reply->work_in_all : std::min(WorkDone(), reply->work_in_all);
  if (!done_) return;
  reply->clean = offenders_.empty();
  JsonWriter json;
  json.BeginObject().Key("clean").Bool(reply->clean);
  json.Field("keys", keys_).Field("keys_verified", keys_verified_).Field("extents", extents_);
  // Beside the one that asks.
  const bool asker_is_there = core_->clients.FromSerial(asker_) != nullptr;
  json.Field("clients", core_->clients.all().size() - (asker_is_there ? 1 : 0));
  json.Key("pools").BeginArray();
  for (size_t i = 0; i < pools_.size(); ++i) {
    const Engine::PoolCounts& counts = pools_[i].pages->pages();
    json.BeginObject()
        .Field("name", core_->stocks[i]->pool().name())
        .Field("pages", counts.pages)
        .Field("free", counts.free)
        .Field("quarantined", counts.quarantined)
        .Field("granted", counts.granted)
        .Field("live", counts.live)
        .Field("retiring", counts.retiring)
        .Field("condemned", counts.condemned)
        .Field("worn", counts.worn)
        .EndObject();
  }
  json.EndArray().Key("offenders").BeginArray();
  for (const std::string& offender : offenders_) json.Text(offender);
  json.EndArray().Field("offenders_left_out", offenders_left_out_);
  json.Key("unchecked").BeginArray();
  for (const std::string& unchecked : unchecked_) json.Text(unchecked);
  json.EndArray().Field("unchecked_left_out", unchecked_left_out_).EndObject();
  reply->json = json.Take();
}

}  // namespace maru::engine
