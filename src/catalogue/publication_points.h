// The server's publication points by name, in two lists, so that the crash tests can tell whether
// they came to every one of them.
#pragma once

#include <string_view>

#include "base/sequence_point.h"

namespace maru::catalogue::points {

inline constexpr std::string_view kChunksCarved = "writer:chunks-carved";
inline constexpr std::string_view kChunkNamed = "writer:chunk-named";
inline constexpr std::string_view kRecordHigh = "writer:record-high";
inline constexpr std::string_view kPageSlot = "writer:page-slot";
inline constexpr std::string_view kBound = "writer:bound";
inline constexpr std::string_view kReleased = "writer:released";
inline constexpr std::string_view kGranted = "writer:granted";
inline constexpr std::string_view kRenewed = "writer:renewed";
inline constexpr std::string_view kWorn = "writer:worn";
inline constexpr std::string_view kGivenBack = "writer:given-back";
inline constexpr std::string_view kQuarantined = "writer:quarantined";
inline constexpr std::string_view kQuarantineEnded = "writer:quarantine-ended";
inline constexpr std::string_view kTextCarved = "writer:text-carved";
inline constexpr std::string_view kText = "writer:text";
inline constexpr std::string_view kFields = "writer:fields";
inline constexpr std::string_view kIndexed = "writer:indexed";
inline constexpr std::string_view kLive = "writer:live";
inline constexpr std::string_view kRetiring = "writer:retiring";
inline constexpr std::string_view kReverted = "writer:reverted";
inline constexpr std::string_view kCondemned = "writer:condemned";
inline constexpr std::string_view kUnindexed = "writer:unindexed";
inline constexpr std::string_view kTextFreed = "writer:text-freed";
inline constexpr std::string_view kFreed = "writer:freed";
inline constexpr std::string_view kExtentPlaced = "writer:extent-placed";
inline constexpr std::string_view kExtentFreed = "writer:extent-freed";
inline constexpr std::string_view kIndexCarved = "writer:index-carved";
inline constexpr std::string_view kTableCleared = "writer:table-cleared";
inline constexpr std::string_view kDescriptor = "writer:descriptor";
inline constexpr std::string_view kTableWord = "writer:table-word";
inline constexpr std::string_view kEntryCopied = "writer:entry-copied";
inline constexpr std::string_view kEntryMoved = "writer:entry-moved";
inline constexpr std::string_view kRecoveredRecord = "writer:recovered-record";

inline constexpr std::string_view kAllOfWriter[] = {
    kChunksCarved, kChunkNamed,  kRecordHigh, kPageSlot,    kBound,       kReleased,
    kGranted,      kRenewed,     kWorn,       kGivenBack,   kQuarantined, kQuarantineEnded,
    kTextCarved,   kText,        kFields,     kIndexed,     kLive,        kRetiring,
    kReverted,     kCondemned,   kUnindexed,  kTextFreed,   kFreed,       kIndexCarved,
    kTableCleared, kDescriptor,  kTableWord,  kEntryCopied, kEntryMoved,  kRecoveredRecord,
    kExtentPlaced, kExtentFreed,
};

inline constexpr std::string_view kLeasesCarved = "leases:carved";
inline constexpr std::string_view kClientFields = "leases:client-fields";
inline constexpr std::string_view kBlockNamed = "leases:block-named";
inline constexpr std::string_view kClientNamed = "leases:client-named";
inline constexpr std::string_view kBlockUnnamed = "leases:block-unnamed";
inline constexpr std::string_view kClientFreed = "leases:client-freed";

inline constexpr std::string_view kAllOfLeaseAreas[] = {
    kLeasesCarved, kClientFields, kBlockNamed, kClientNamed, kBlockUnnamed, kClientFreed,
};

}  // namespace maru::catalogue::points
