// Pins: found and held as leases are. A batch is taken as a whole or not at all.

#include <utility>

#include "handler/impl.h"

namespace maru::handler {

using catalogue::FindVerdict;
using catalogue::KeyRef;

Result<bool> Handler::Impl::Pin(std::string_view key) {
  MARU_ASSIGN_OR_RETURN(const std::vector<bool> pinned, BatchPin({&key, 1}));
  return pinned.front();
}

Result<Handler::Impl::Place> Handler::Impl::FindPinned(const Session& session, const KeyRef& key) {
  // A pinned key is LIVE or RETIRING in the life that was pinned, so its place needs no answer.
  const Place place = FindIn(session, key);
  if (place.verdict == FindVerdict::kAskServer) return AskFind(session, key);
  return place;
}

bool Handler::Impl::UnpinAt(const Session& session, const Place& place) {
  if (place.verdict == FindVerdict::kMiss) return false;
  return session.pools[place.pool].mapped->leases().Unpin(place.found.record,
                                                          place.found.generation);
}

Result<bool> Handler::Impl::Unpin(std::string_view key) {
  MARU_ASSIGN_OR_RETURN(const std::vector<bool> unpinned, BatchUnpin({&key, 1}));
  return unpinned.front();
}

Result<std::vector<bool>> Handler::Impl::BatchPin(std::span<const std::string_view> texts) {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  std::vector<KeyRef> keys;
  MARU_RETURN_IF_ERROR(MakeKeys(*current, texts, &keys));
  std::vector<Place> places;
  places.reserve(keys.size());
  for (const KeyRef& key : keys) {
    Result<Place> place = Hold(*current, key, Want::kPin);
    if (!place.ok()) {
      for (const Place& pinned : places) UnpinAt(*current, pinned);
      return std::move(place).status();
    }
    places.push_back(*place);
  }
  std::vector<bool> pinned(keys.size());
  // Last to first: earlier keys count as more recent.
  for (size_t i = places.size(); i-- > 0;) {
    pinned[i] = places[i].verdict != FindVerdict::kMiss;
    if (pinned[i]) Touch(*current, places[i]);
  }
  return pinned;
}

Result<std::vector<bool>> Handler::Impl::BatchUnpin(std::span<const std::string_view> texts) {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  std::vector<KeyRef> keys;
  MARU_RETURN_IF_ERROR(MakeKeys(*current, texts, &keys));
  std::vector<Place> places;
  places.reserve(keys.size());
  for (const KeyRef& key : keys) {
    MARU_ASSIGN_OR_RETURN(const Place place, FindPinned(*current, key));
    places.push_back(place);
  }
  std::vector<bool> unpinned(keys.size());
  for (size_t i = 0; i < places.size(); ++i) unpinned[i] = UnpinAt(*current, places[i]);
  return unpinned;
}

}  // namespace maru::handler
