#include "engine/extents.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/handles.h"
#include "engine/overwrites.h"

namespace maru::engine {

namespace {

constexpr uint64_t kRefusalLogPauseNs = 1'000'000'000;
constexpr uint64_t kNoRoomPauseNs = 1'000'000'000;

const layout::PageRecord& RecordOf(const Core::Hit& hit) {
  return *hit.stock->pool().view().Record(hit.record);
}

// Relaxed: this process wrote it, or judged it when it opened the pool.
uint64_t PinsOf(const Core::Hit& hit) {
  return RecordOf(hit).global_pins.load(std::memory_order_relaxed);
}

}  // namespace

bool Extents::Find(const catalogue::Namespace& name_space, std::string_view key,
                   Core::Hit* hit) const {
  return catalogue::CheckKey(key).ok() && core_->Find(catalogue::MakeKeyRef(name_space, key), hit);
}

bool Extents::Exists(const catalogue::Namespace& name_space, std::string_view key) const {
  Core::Hit hit;
  return Find(name_space, key, &hit);
}

void Extents::Prefetch(const catalogue::Namespace& name_space, std::string_view key) const {
  if (!catalogue::CheckKey(key).ok()) return;
  const catalogue::KeyRef ref = catalogue::MakeKeyRef(name_space, key);
  for (const std::unique_ptr<Stock>& stock : core_->stocks) stock->writer().Prefetch(ref);
}

void Extents::Use(const Core::Hit& hit) {
  hit.stock->writer().SetLastUse(hit.record, ++core_->use_tick);
  hit.stock->Used(hit.record);
}

void Extents::Refuse(const wire::compat::RegisterEntry& entry, std::string_view why) {
  ++core_->counters.extents_refused;
  // A client that goes wrong does so with every page: one line tells.
  if (core_->now_ns < core_->next_refusal_log_ns) return;
  core_->next_refusal_log_ns = core_->now_ns + kRefusalLogPauseNs;
  LogWarning("a key of " + std::to_string(entry.key.size()) + " bytes is not registered at " +
             std::to_string(entry.offset_bytes) + " of region " + std::to_string(entry.region_id) +
             " for " + std::to_string(entry.length_bytes) + " bytes: " + std::string(why) + " (" +
             std::to_string(core_->counters.extents_refused) + " refused so far)");
}

Extents::Looked Extents::Look(const catalogue::Namespace& name_space,
                              const wire::compat::RegisterEntry& entry) const {
  Looked looked{.entry = &entry};
  const Status valid = catalogue::CheckKey(entry.key);
  if (!valid.ok()) {
    looked.wrong = valid.message();
    return looked;
  }
  looked.key = catalogue::MakeKeyRef(name_space, entry.key);
  looked.lent = PlaceOf(name_space, entry, &looked.wrong);
  Core::Hit hit;
  if (core_->Find(*looked.key, &hit)) looked.there = hit;
  return looked;
}

bool Extents::Register(const catalogue::Namespace& name_space,
                       std::span<const wire::compat::RegisterEntry> entries, StepRoom room,
                       std::vector<bool>* is_new) {
  while (is_new->size() < entries.size()) {
    const Looked looked = Look(name_space, entries[is_new->size()]);
    if (Overwrites::None(looked.lent, *looked.entry, looked.hit())) {
      is_new->push_back(RegisterOne(looked));
      continue;
    }
    if (room.retires == 0 || room.overwrites == 0) return false;
    const std::span<const wire::compat::RegisterEntry> rest = entries.subspan(is_new->size());
    const size_t done = Overwrite(name_space, rest, &room);
    for (size_t i = 0; i < done; ++i) is_new->push_back(RegisterOne(Look(name_space, rest[i])));
  }
  return true;
}

size_t Extents::Overwrite(const catalogue::Namespace& name_space,
                          std::span<const wire::compat::RegisterEntry> entries, StepRoom* room) {
  Overwrites overwrites(room->overwrites);
  size_t whole = 0;
  while (whole < entries.size()) {
    const Looked looked = Look(name_space, entries[whole]);
    const auto taken = overwrites.Add(looked.lent, *looked.entry, looked.hit());
    if (taken != Overwrites::Taken::kAll) break;
    ++whole;
  }
  std::vector<Target>& targets = overwrites.targets();
  retirement_->Retire(targets, Cause::kOverwrite);
  --room->retires;
  room->overwrites -= targets.size();
  core_->counters.extents_overwritten += targets.size();
  for (const Target& target : targets) {
    core_->counters.overwritten_while_held += target.held ? 1 : 0;
  }
  return whole;
}

bool Extents::RegisterOne(const Looked& looked) {
  if (looked.there.has_value()) {
    Use(*looked.there);
    return false;
  }
  const wire::compat::RegisterEntry& entry = *looked.entry;
  if (looked.lent.region == nullptr || !looked.key.has_value()) {
    Refuse(entry, looked.wrong);
    return false;
  }
  const catalogue::Writer::ExtentBirth birth{looked.lent.region->cut.slot, entry.offset_bytes,
                                             entry.length_bytes, ++core_->use_tick};
  const Result<RecordNumber> record = RegisterWithRoom(looked.lent, *looked.key, birth);
  if (!record.ok()) {
    Refuse(entry, record.status().message());
    return false;
  }
  ++core_->counters.extents_registered;
  return true;
}

Lending::Lent Extents::PlaceOf(const catalogue::Namespace& name_space,
                               const wire::compat::RegisterEntry& entry, std::string* why) const {
  const Lending::Lent lent = lending_->Find(entry.region_id);
  if (lent.region == nullptr || !lent.region->Serves(name_space.seed())) {
    *why = "there is no client-cut region of that id";
    return {};
  }
  const uint64_t bytes = lent.region->cut.length_bytes;
  if (!lent.region->owned()) {
    *why = "the region has no owner any more";
  } else if (entry.length_bytes == 0) {
    *why = "it is empty";
  } else if (entry.offset_bytes >= bytes || entry.length_bytes > bytes - entry.offset_bytes) {
    *why = "the region has " + std::to_string(bytes) + " bytes";
  }
  return why->empty() ? lent : Lending::Lent{};
}

Result<RecordNumber> Extents::RegisterWithRoom(const Lending::Lent& lent,
                                               const catalogue::KeyRef& key,
                                               const catalogue::Writer::ExtentBirth& birth) {
  const auto once_more = [&] { return lent.stock->RegisterExtent(*lent.region, key, birth); };
  Result<RecordNumber> record = once_more();
  if (record.ok() || core_->now_ns < no_room_before_ns_) return record;
  if (core_->FreeIdleRegions(lent.stock, 0) > 0) record = once_more();
  // Keys that go give text and index entries back, but no number of a record: those of their
  // region stay with it.
  if (!record.ok() && lent.stock->writer().ExtentRecordFree() &&
      evictor_->Evict({.pool = lent.stock}, 0) > 0) {
    record = once_more();
    const uint64_t text_bytes = key.name_space.size() + key.key.size();
    const bool lacks_text = !record.ok() && !lent.stock->writer().TextFits(text_bytes);
    if (lacks_text && text_room_->Make(lent.stock)) record = once_more();
  }
  // A client goes on with register upon register: not each of them may look for room for nothing.
  if (!record.ok()) no_room_before_ns_ = core_->now_ns + kNoRoomPauseNs;
  return record;
}

std::optional<wire::compat::Location> Extents::Lookup(const catalogue::Namespace& name_space,
                                                      std::string_view key) {
  Core::Hit hit;
  if (!Find(name_space, key, &hit)) return std::nullopt;
  catalogue::PoolView::PageExtent place;
  if (!hit.stock->pool().view().Page(hit.record, &place)) return std::nullopt;
  const uint64_t until = core_->NowUnix() + core_->options.wire_hold_ns;
  // An extent's room is its owner's, who reuses it as it likes: the region answers for its readers.
  if (hit.stock->IsExtent(hit.record)) {
    ClientRegions& regions = hit.stock->client_regions();
    regions.Told(&regions.Of(hit.record), until);
  } else if (RecordOf(hit).hold_until_unix_ns.load(std::memory_order_relaxed) < until) {
    // Relaxed: this process wrote it.
    hit.stock->writer().SetHoldUntil(hit.record, until);
  }
  Use(hit);
  return wire::compat::Location{MakeHandle(*core_, RegionId(place.region_id),
                                           place.region_offset_bytes, place.region_length_bytes),
                                place.in_region_bytes(),
                                RecordOf(hit).length_bytes.load(std::memory_order_relaxed)};
}

bool Extents::Pin(const catalogue::Namespace& name_space, std::string_view key) {
  Core::Hit hit;
  if (!Find(name_space, key, &hit)) return false;
  hit.stock->writer().SetGlobalPins(hit.record, PinsOf(hit) + 1);
  Use(hit);
  return true;
}

bool Extents::Unpin(const catalogue::Namespace& name_space, std::string_view key) {
  Core::Hit hit;
  if (!Find(name_space, key, &hit) || PinsOf(hit) == 0) return false;
  hit.stock->writer().SetGlobalPins(hit.record, PinsOf(hit) - 1);
  return true;
}

bool Extents::UnpinAll(const catalogue::Namespace& name_space, std::string_view key) {
  Core::Hit hit;
  if (!Find(name_space, key, &hit) || PinsOf(hit) == 0) return false;
  hit.stock->writer().SetGlobalPins(hit.record, 0);
  return true;
}

}  // namespace maru::engine
