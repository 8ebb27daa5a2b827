// The bytes of one structure of a pool and what they say, for people: `maru pool dump`. Read-only,
// at rest or being served; judges nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "maru/result.h"

namespace maru::pool {

// What can be dumped, with the page of docs/formats/ that explains it.
struct DumpKind {
  std::string_view name;    // "record"; with a number behind a colon unless `number` is empty
  std::string_view number;  // what the number is, "" for none
  std::string_view format;  // "page_record.md"
};
inline constexpr DumpKind kDumpKinds[] = {
    {"superblock", "", "superblock.md"},
    {"root", "", "superblock.md"},
    {"region", "region slot", "region_table.md"},
    {"client", "client slot", "lease_area.md"},
    {"record", "record number", "page_record.md"},
    {"text", "record number", "key_text.md"},
    {"index", "entry of the current table", "index.md"},
    {"leases", "client slot", "lease_area.md"},
};
// Bytes and lines are cut there.
inline constexpr size_t kDumpBytesMax = 4096;
inline constexpr size_t kDumpLinesMax = 256;

struct Dump {
  uint64_t offset_bytes = 0;       // in the pool
  std::vector<std::byte> bytes;    // from there on, at most kDumpBytesMax
  std::vector<std::string> lines;  // what they say, "name: value"
};

// PART is a name of kDumpKinds, with its number: "superblock", "record:17". InvalidArgument names
// the parts that there are; NotFound: there is no such structure in this pool.
Result<Dump> DumpPart(const std::string& path, std::string_view part);

}  // namespace maru::pool
