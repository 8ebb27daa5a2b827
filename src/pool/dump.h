// The bytes of one structure of a pool and what they say, for people and for programs: `maru pool
// dump`. Read-only, at rest or being served; judges nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "layout/index.h"
#include "layout/lease_area.h"
#include "layout/state_word.h"
#include "layout/values.h"
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

struct DumpedRecord {
  layout::PageValues page{};
  std::optional<uint64_t> home;  // entry of the index where its probe begins; none without a table
};
struct DumpedText {
  std::string name_space, key;
  layout::StateWord state;
};
struct DumpedIndex {
  layout::TableDescriptor table;
  uint64_t first = 0;  // entry
  std::vector<layout::IndexEntry> entries;
};
// As many as have lines.
struct DumpedLeases {
  struct Block {
    uint64_t offset_bytes = 0;
    layout::BlockOwner owner;
    std::vector<std::pair<std::string_view, uint64_t>> header;  // name, value; of ordinal 0
    std::vector<std::pair<uint64_t, layout::SlotWord>> slots;   // those that are filled
  };
  std::vector<Block> blocks;
  uint64_t left_out = 0;  // blocks
};

struct Dump {
  uint64_t offset_bytes = 0;       // in the pool
  std::vector<std::byte> bytes;    // from there on, at most kDumpBytesMax
  std::vector<std::string> lines;  // what they say, "name: value"
  // The same for programs.
  std::variant<std::monostate, layout::Superblock, layout::RootValues, layout::RegionValues,
               layout::ClientValues, DumpedRecord, DumpedText, DumpedIndex, DumpedLeases>
      fields;
};

// PART is a name of kDumpKinds, with its number: "superblock", "record:17". InvalidArgument names
// the parts that there are; NotFound: there is no such structure in this pool.
Result<Dump> DumpPart(const std::string& path, std::string_view part);

}  // namespace maru::pool
