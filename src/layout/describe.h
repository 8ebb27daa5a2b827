// What lies in a pool, for people: the lines that `maru pool inspect` prints, and a name for each
// number. Takes any values, also those that a validator refuses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layout/lease_area.h"
#include "layout/state_word.h"
#include "layout/values.h"

namespace maru::layout {

// "free", "granted" and so on; "unknown" for a number that is no state.
std::string_view PageStateName(PageState state);
// "pages", "client-cut" and so on; "none" for an unused record, "unknown" for a number beyond.
std::string_view RegionKindName(RegionKind kind);
std::string_view RegionRoadName(RegionRoad road);

// "name: value" lines, in the order of the bytes.
using Lines = std::vector<std::string>;
Lines DescribeSuperblock(const Superblock& block);
Lines DescribeRoot(const RootValues& root);
Lines DescribeRegion(const RegionValues& record);
Lines DescribePage(const PageValues& record);
Lines DescribeClient(const ClientValues& record);

// One word each, on one line.
std::string DescribeState(StateWord word);         // "live, generation 7"
std::string DescribeSlot(SlotWord word);           // "pin of record 9, generation 7"
std::string DescribeOwner(BlockOwner owner);       // "client 3 in slot 0, block 1"
std::string DescribeTable(TableDescriptor table);  // "2^18 entries at offset 0x200000"
std::string DescribeTables(TableWord word);        // "sequence 5, current 1, old none"
std::string UuidText(const Uuid& uuid);            // 8-4-4-4-12 hex digits

}  // namespace maru::layout
