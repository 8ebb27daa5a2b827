// Pure validators of what lies in a pool behind its superblock: for `maru pool check`, recovery and
// the fuzz targets. Each judges one value by itself and says what is wrong, naming the field and
// the value (DataLoss); what holds between records (overlaps, ids used twice, two keys in one
// place) is for those who see them all.
//
// Readers do not call these: they check the few fields that they use, as they read them.
#pragma once

#include <cstdint>

#include "layout/lease_area.h"
#include "layout/values.h"
#include "maru/status.h"

namespace maru::layout {

// Counters within their limits, the table word names tables that lie in the pool.
Status ValidateRoot(const RootValues& root, uint64_t pool_bytes);

// An unused record (kind kNone) is always valid: nothing else of it is read. A used one lies in the
// pool and outside its head; the fields that its kind does not use are zero.
Status ValidateRegionRecord(const RegionValues& record, uint64_t pool_bytes);

// A record of any state. Where the state has a key (LIVE, RETIRING) its text lies in the pool,
// and its length fits into one.
Status ValidatePageRecord(const PageValues& record, uint64_t pool_bytes);

// A free slot (client_id 0) is always valid.
Status ValidateClientRecord(const ClientValues& record);

// Of one block of a lease unit. Block 0 is the directory's own and has no owner.
Status ValidateBlockOwner(BlockOwner owner, uint32_t block);

}  // namespace maru::layout
