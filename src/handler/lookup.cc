// Lookups and leases: read from the catalogue, and from the server only where the catalogue says
// RETIRING or kept changing.

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/defect.h"
#include "base/hash.h"
#include "handler/impl.h"
#include "layout/text.h"
#include "wire/codec.h"

namespace maru::handler {

using catalogue::FindVerdict;
using catalogue::KeyRef;
using catalogue::LeaseOutcome;

namespace {

// What is wrong with one key of a batch, with its place: texts of keys may be long, secret or none.
Status OfKey(size_t index, size_t keys, const Status& status) {
  return {status.code(), "key " + std::to_string(index + 1) + " of " + std::to_string(keys) +
                             " (from 1): " + std::string(status.message())};
}

// By its key, which can be deleted.
Status WithKey(std::string_view key, const Status& status) {
  if (status.code() != StatusCode::kDataLoss) return status;
  return DataLoss(layout::Concat(status.message(), ", key ", layout::Quoted{key}));
}

}  // namespace

Status Handler::Impl::MakeKeys(const Session& session, std::span<const std::string_view> texts,
                               std::vector<KeyRef>* keys) {
  keys->clear();
  keys->reserve(texts.size());
  for (std::string_view text : texts) {
    MARU_RETURN_IF_ERROR(catalogue::CheckKey(text));
    keys->push_back(catalogue::MakeKeyRef(session.name_space, text));
  }
  return OkStatus();
}

Handler::Impl::Place Handler::Impl::FindIn(const Session& session, const KeyRef& key) const {
  Place place;
  for (size_t p = 0; p < session.pools.size(); ++p) {
    place.pool = p;
    place.verdict = session.pools[p].reader.Find(key, &place.found);
    if (place.verdict != FindVerdict::kMiss) return place;
  }
  return place;
}

void Handler::Impl::FindGroup(const Session& session, std::span<const KeyRef> keys,
                              std::span<Place> places) const {
  std::vector<FindVerdict> verdicts(keys.size());
  std::vector<catalogue::Found> found(keys.size());
  session.pools.front().reader.FindBatch(keys, verdicts, found);
  for (size_t i = 0; i < keys.size(); ++i) {
    places[i] = {0, found[i], verdicts[i]};
    if constexpr (kDefect == Defect::kBatchMisses) continue;
    for (size_t p = 1; p < session.pools.size() && places[i].verdict == FindVerdict::kMiss; ++p) {
      places[i].pool = p;
      places[i].verdict = session.pools[p].reader.Find(keys[i], &places[i].found);
    }
  }
}

Result<bool> Handler::Impl::AskLive(const Session& session, const Place& place) {
  Add(counts_.server_asks);
  wire::ResolveRequest request;
  request.pages.push_back(
      {PoolIndex(static_cast<uint8_t>(place.pool)), place.found.record, place.found.generation});
  wire::Reply reply;
  MARU_RETURN_IF_ERROR(CallReady(request, &reply, session.serial));
  const auto* resolved = std::get_if<wire::ResolveReply>(&reply);
  if (resolved == nullptr || resolved->live.size() != 1) {
    return DataLoss("the answer to resolve has not one entry for each page");
  }
  return resolved->live.front() != 0;
}

Result<Handler::Impl::Place> Handler::Impl::AskFind(const Session& session, const KeyRef& key) {
  Add(counts_.server_asks);
  wire::FindRequest request;
  request.keys.push_back(key.key);
  wire::Reply reply;
  MARU_RETURN_IF_ERROR(CallReady(request, &reply, session.serial));
  const auto* answer = std::get_if<wire::FindReply>(&reply);
  if (answer == nullptr || answer->items.size() != 1) {
    return DataLoss("the answer to find has not one entry for each key");
  }
  Place place;
  const auto& item = answer->items.front();
  if (!item.found) return place;
  place.pool = item.page.pool.value();
  if (place.pool >= session.pools.size()) {
    return DataLoss("the server names pool " + std::to_string(place.pool) + " of " +
                    std::to_string(session.pools.size()));
  }
  place.verdict = FindVerdict::kLive;
  place.found.record = item.page.record;
  place.found.generation = item.page.generation;
  // Length and checksum are in the record; what was read is true if that life is held afterwards.
  const layout::PageRecord* record =
      session.pools[place.pool].mapped->view().Record(item.page.record);
  if (record == nullptr) return DataLoss("the server names a record that is not there");
  place.found.length_bytes = record->length_bytes.load(std::memory_order_acquire);
  place.found.checksum = record->checksum.load(std::memory_order_acquire);
  return place;
}

Result<Handler::Impl::Place> Handler::Impl::FindSettled(const Session& session, const KeyRef& key) {
  for (int attempt = 0; attempt < kFindAttemptsMax; ++attempt) {
    Place place = FindIn(session, key);
    if (place.verdict == FindVerdict::kAskServer) break;
    if (place.verdict != FindVerdict::kRetiring) return place;
    MARU_ASSIGN_OR_RETURN(const bool live, AskLive(session, place));
    if (live) {
      place.verdict = FindVerdict::kLive;
      return place;
    }
  }
  return AskFind(session, key);
}

Status Handler::Impl::GrowLeases(const Session& session, size_t pool) {
  // Relaxed: it only spares a message; the slots themselves tell whether there is room.
  const uint32_t growths = lease_growths_[pool].load(std::memory_order_relaxed);
  const Arrival arrival = Arrive();
  const Waiting waiting;
  MutexLock call(call_mutex_);
  MARU_RETURN_IF_ERROR(CheckTurn(arrival));
  // Another thread may have grown the area while this one waited.
  if (lease_growths_[pool].load(std::memory_order_relaxed) != growths) return OkStatus();
  return GrowLeasesLocked(arrival, session, pool);
}

Status Handler::Impl::GrowLeasesLocked(const Arrival& arrival, const Session& session,
                                       size_t pool) {
  MappedPool& mapped = *session.pools[pool].mapped;
  const uint64_t slots = mapped.leases().slots_in_use();
  wire::GrowLeasesRequest request;
  request.pool = PoolIndex(static_cast<uint8_t>(pool));
  request.blocks = static_cast<uint32_t>(
      std::clamp<uint64_t>(slots / layout::kLeaseSlotsPerBlock, 1, kLeaseBlocksGrowMax));
  wire::Reply reply;
  MARU_RETURN_IF_ERROR(CallReadyLocked(arrival, request, &reply, session.serial).status());
  const auto* grown = std::get_if<wire::GrowLeasesReply>(&reply);
  if (grown == nullptr || grown->offsets.empty()) {
    return DataLoss("the answer to a request for lease blocks names none");
  }
  lease_growths_[pool].fetch_add(1, std::memory_order_relaxed);
  Status added = mapped.AddLeaseBlocks(grown->offsets);
  // The server counts them already: attaching again tells them once more, before others are asked
  // for.
  if (!added.ok()) link_->Disconnect();
  return added;
}

Result<LeaseOutcome> Handler::Impl::HoldPlace(const Session& session, const Place& place,
                                              Want want) {
  catalogue::Leases& leases = session.pools[place.pool].mapped->leases();
  const RecordNumber record = place.found.record;
  const Generation generation = place.found.generation;
  const bool pin = want == Want::kPin;
  for (int attempt = 0; attempt < kFindAttemptsMax; ++attempt) {
    const LeaseOutcome outcome =
        pin ? leases.Pin(record, generation) : leases.Acquire(record, generation);
    if (outcome == LeaseOutcome::kNoSlot) {
      MARU_RETURN_IF_ERROR(GrowLeases(session, place.pool));
      continue;
    }
    if (outcome != LeaseOutcome::kRetiring) return outcome;
    const auto what = pin ? catalogue::Leases::What::kPin : catalogue::Leases::What::kLease;
    const Result<bool> live = AskLive(session, place);
    const bool lives = live.ok() && *live;
    const LeaseOutcome confirmed = leases.Confirm(
        record, generation, what,
        lives ? catalogue::Leases::Server::kSaysLive : catalogue::Leases::Server::kSaysGone);
    if (!live.ok()) return live.status();
    return confirmed;
  }
  return ResourceExhausted("no lease slot: other threads took each that was granted");
}

Result<Handler::Impl::Place> Handler::Impl::Hold(const Session& session, const KeyRef& key,
                                                 Want want) {
  for (int attempt = 0; attempt < kFindAttemptsMax; ++attempt) {
    MARU_ASSIGN_OR_RETURN(Place place, FindSettled(session, key));
    if (place.verdict == FindVerdict::kMiss) return place;
    MARU_ASSIGN_OR_RETURN(const LeaseOutcome outcome, HoldPlace(session, place, want));
    if (outcome == LeaseOutcome::kHeld) return place;
  }
  return Unavailable("the key was deleted and stored anew " + std::to_string(kFindAttemptsMax) +
                     " times while it was read: try again");
}

void Handler::Impl::Touch(const Session& session, const Place& place) {
  session.pools[place.pool].mapped->leases().Touch(place.found.record);
}

Result<View> Handler::Impl::MakeView(const Session& session, const Place& place, Verify verify) {
  const std::shared_ptr<MappedPool>& mapped = session.pools[place.pool].mapped;
  View view;
  view.pool_ = mapped;  // from here on the view owns the lease
  view.page_ = {PoolIndex(static_cast<uint8_t>(place.pool)), place.found.record,
                place.found.generation};
  catalogue::PoolView::PageExtent extent;
  if (!mapped->view().Page(place.found.record, &extent) ||
      place.found.length_bytes > extent.page_bytes) {
    return DataLoss("record " + std::to_string(place.found.record.value()) +
                    " names no page that holds " + std::to_string(place.found.length_bytes) +
                    " bytes");
  }
  view.bytes_ = {mapped->view().base() + extent.offset_bytes, place.found.length_bytes};
  view.region_id_ = extent.region_id;
  view.page_index_ = extent.page_index;
  if (verify == Verify::kNo) return view;
  if (!mapped->checksums()) {
    return FailedPrecondition("the pool keeps no checksums: make it with --checksum");
  }
  if (extent.is_extent) {
    return FailedPrecondition("the key was stored by a client that computes no checksums");
  }
  if (HashBytes64(view.bytes_) != place.found.checksum) {
    return DataLoss("the bytes of page " + std::to_string(extent.page_index) + " of region " +
                    std::to_string(extent.region_id) + " do not match their checksum");
  }
  return view;
}

Result<View> Handler::Impl::Retrieve(std::string_view key, Verify verify) {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  MARU_RETURN_IF_ERROR(catalogue::CheckKey(key));
  MARU_ASSIGN_OR_RETURN(
      const Place place,
      Hold(*current, catalogue::MakeKeyRef(current->name_space, key), Want::kLease));
  if (place.verdict == FindVerdict::kMiss) {
    Add(counts_.misses);
    return View();
  }
  Add(counts_.hits);
  Touch(*current, place);
  Result<View> view = MakeView(*current, place, verify);
  if (!view.ok()) return WithKey(key, view.status());
  return view;
}

Result<std::vector<View>> Handler::Impl::BatchRetrieve(std::span<const std::string_view> texts,
                                                       Verify verify) {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  std::vector<KeyRef> keys;
  MARU_RETURN_IF_ERROR(MakeKeys(*current, texts, &keys));
  std::vector<View> views(keys.size());
  std::vector<Place> places(std::min<size_t>(keys.size(), kLookupGroup));
  for (size_t first = 0; first < keys.size(); first += kLookupGroup) {
    const size_t count = std::min<size_t>(keys.size() - first, kLookupGroup);
    const std::span<const KeyRef> group(keys.data() + first, count);
    FindGroup(*current, group, {places.data(), count});
    for (size_t i = 0; i < count; ++i) {
      if (places[i].verdict == FindVerdict::kMiss) {
        Add(counts_.misses);
        continue;
      }
      bool held = false;
      if (places[i].verdict == FindVerdict::kLive) {
        MARU_ASSIGN_OR_RETURN(const LeaseOutcome outcome,
                              HoldPlace(*current, places[i], Want::kLease));
        held = outcome == LeaseOutcome::kHeld;
      }
      if (!held) {
        MARU_ASSIGN_OR_RETURN(places[i], Hold(*current, group[i], Want::kLease));
        if (places[i].verdict == FindVerdict::kMiss) {
          Add(counts_.misses);
          continue;
        }
      }
      Add(counts_.hits);
      Result<View> view = MakeView(*current, places[i], verify);
      if (!view.ok()) {
        return OfKey(first + i, keys.size(), WithKey(texts[first + i], view.status()));
      }
      views[first + i] = std::move(*view);
    }
  }
  // Last to first: earlier keys count as more recent, so that the tail of a prefix is evicted
  // first.
  for (size_t i = views.size(); i-- > 0;) {
    if (views[i]) views[i].pool_->leases().Touch(views[i].page_.record);
  }
  return views;
}

Result<bool> Handler::Impl::Exists(std::string_view key) {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  MARU_RETURN_IF_ERROR(catalogue::CheckKey(key));
  MARU_ASSIGN_OR_RETURN(const Place place,
                        FindSettled(*current, catalogue::MakeKeyRef(current->name_space, key)));
  return place.verdict == FindVerdict::kLive;
}

Result<std::vector<bool>> Handler::Impl::BatchExists(std::span<const std::string_view> texts) {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  std::vector<KeyRef> keys;
  MARU_RETURN_IF_ERROR(MakeKeys(*current, texts, &keys));
  std::vector<bool> exist(keys.size());
  std::vector<Place> places(std::min<size_t>(keys.size(), kLookupGroup));
  for (size_t first = 0; first < keys.size(); first += kLookupGroup) {
    const size_t count = std::min<size_t>(keys.size() - first, kLookupGroup);
    FindGroup(*current, {keys.data() + first, count}, {places.data(), count});
    for (size_t i = 0; i < count; ++i) {
      if (places[i].verdict > FindVerdict::kLive) {
        MARU_ASSIGN_OR_RETURN(places[i], FindSettled(*current, keys[first + i]));
      }
      exist[first + i] = places[i].verdict == FindVerdict::kLive;
    }
  }
  return exist;
}

Result<uint64_t> Handler::Impl::MatchPrefix(std::span<const std::string_view> texts) {
  for (size_t first = 0; first < texts.size(); first += kLookupGroup) {
    const size_t count = std::min<size_t>(texts.size() - first, kLookupGroup);
    MARU_ASSIGN_OR_RETURN(const std::vector<bool> exist, BatchExists(texts.subspan(first, count)));
    const auto missing = std::find(exist.begin(), exist.end(), false);
    if (missing != exist.end()) return first + static_cast<uint64_t>(missing - exist.begin());
  }
  MARU_RETURN_IF_ERROR(CheckUsable());
  return texts.size();
}

Result<std::vector<wire::DeleteOutcome>> Handler::Impl::BatchDelete(
    std::span<const std::string_view> keys) {
  MARU_RETURN_IF_ERROR(CheckUsable());
  for (std::string_view key : keys) MARU_RETURN_IF_ERROR(catalogue::CheckKey(key));
  std::vector<wire::DeleteOutcome> outcomes;
  outcomes.reserve(keys.size());
  while (outcomes.size() < keys.size()) {
    const auto left = keys.subspan(outcomes.size());
    const auto some = left.first(wire::KeysThatFit(left));
    wire::DeleteRequest request;
    request.keys.assign(some.begin(), some.end());
    wire::Reply reply;
    MARU_RETURN_IF_ERROR(CallReady(request, &reply));
    const auto* deleted = std::get_if<wire::DeleteReply>(&reply);
    if (deleted == nullptr || deleted->outcomes.size() != request.keys.size()) {
      return DataLoss("the answer to delete has not one entry for each key");
    }
    outcomes.insert(outcomes.end(), deleted->outcomes.begin(), deleted->outcomes.end());
  }
  return outcomes;
}

}  // namespace maru::handler
