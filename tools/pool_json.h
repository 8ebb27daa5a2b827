// What `maru pool inspect`, `check` and `dump` print with --json.
#pragma once

#include "pool/check.h"
#include "pool/dump.h"
#include "pool/inspect.h"
#include "tools/json.h"

namespace maru::tools {

Json JsonOf(const pool::PoolReport& report);
Json JsonOf(const pool::CheckReport& report);
// With "bytes" in hex digits, and under "fields" what they say.
Json JsonOf(const pool::Dump& dump);

}  // namespace maru::tools
