#pragma once

// Numbers that name things. Each is a type of its own; none converts into another or into a plain
// number without saying so (value()).

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace maru {

template <typename Tag, typename Rep>
class StrongId {
 public:
  using rep_type = Rep;

  constexpr StrongId() = default;  // zero
  constexpr explicit StrongId(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }

  friend constexpr bool operator==(StrongId, StrongId) = default;
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  Rep value_ = 0;
};

// A pool among those that one server serves.
using PoolIndex = StrongId<struct PoolIndexTag, std::uint8_t>;
// A page record within a pool.
using RecordNumber = StrongId<struct RecordNumberTag, std::uint32_t>;
// Which of a page's lives is meant; starts at 1 and never goes back.
using Generation = StrongId<struct GenerationTag, std::uint32_t>;
// A region, distinct over all pools of a server and never used twice.
using RegionId = StrongId<struct RegionIdTag, std::uint32_t>;
// A region's place in its pool's region table.
using RegionSlot = StrongId<struct RegionSlotTag, std::uint32_t>;
// An attached client, never used twice under one epoch.
using ClientId = StrongId<struct ClientIdTag, std::uint32_t>;
// A client's place in the client table; used again after its death.
using ClientSlot = StrongId<struct ClientSlotTag, std::uint16_t>;
// A client's request, counted by the client.
using RequestNumber = StrongId<struct RequestNumberTag, std::uint64_t>;
// Drawn at each start of a server.
using Epoch = StrongId<struct EpochTag, std::uint64_t>;

}  // namespace maru

template <typename Tag, typename Rep>
struct std::hash<maru::StrongId<Tag, Rep>> {
  std::size_t operator()(maru::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>()(id.value());
  }
};
