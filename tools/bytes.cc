// maru pool dump, maru frame: the bytes of each format that docs/formats/ describes.

#include <cctype>
#include <cinttypes>
#include <cstdio>

#include "layout/frame.h"
#include "pool/dump.h"
#include "tools/commands.h"
#include "tools/files.h"
#include "tools/frame_json.h"
#include "tools/json.h"
#include "tools/output.h"
#include "tools/pool_json.h"
#include "wire/compat/metadata.h"
#include "wire/describe.h"

namespace maru::tools {

namespace {

constexpr size_t kBytesPerLine = 16;

// "00001000  4d 41 52 55 ...  |MARU...|" for each 16 bytes; equal lines in a row once.
void PrintHexDump(uint64_t offset_bytes, std::span<const std::byte> bytes) {
  std::string former;
  bool skipping = false;
  for (size_t at = 0; at < bytes.size(); at += kBytesPerLine) {
    const auto line = bytes.subspan(at, std::min(kBytesPerLine, bytes.size() - at));
    std::string hex;
    std::string text;
    for (std::byte byte : line) {
      const auto value = std::to_integer<unsigned char>(byte);
      hex += HexText({&byte, 1}) + " ";
      text += value >= 0x20 && value < 0x7F ? static_cast<char>(value) : '.';
    }
    hex.resize(kBytesPerLine * 3, ' ');
    const bool last = at + kBytesPerLine >= bytes.size();
    if (hex == former && !last) {
      if (!skipping) PrintLine("*");
      skipping = true;
      continue;
    }
    skipping = false;
    former = hex;
    char offset[24];
    std::snprintf(offset, sizeof(offset), "%08" PRIx64, uint64_t{offset_bytes + at});
    PrintLine(std::string(offset) + "  " + hex + " |" + text + "|");
  }
}

constexpr PositionalRow kDumpPositionals[] = {
    {"PATH", "The pool's file", Takes::kOne},
    {"PART", "superblock, root, region:N, client:N, record:N, text:N, index:N, leases:N",
     Takes::kOne},
};

Result<Exit> DumpPool(const Arguments& arguments) {
  MARU_ASSIGN_OR_RETURN(const pool::Dump dump,
                        pool::DumpPart(arguments.Get("PATH"), arguments.Get("PART")));
  if (arguments.json()) {
    PrintJson(JsonOf(dump));
    return Exit::kDone;
  }
  PrintHexDump(dump.offset_bytes, dump.bytes);
  for (const std::string& line : dump.lines) PrintLine(Printable(line));
  return Exit::kDone;
}

constexpr PositionalRow kFramePositionals[] = {
    {"FILE", "One message, as bytes or as hex digits; - is standard input", Takes::kOne},
};

// A message begins with its magic; what does not is taken for hex digits, with any spaces between.
Result<std::vector<std::byte>> FrameBytes(std::string_view input) {
  const auto as_bytes = std::as_bytes(std::span(input));
  if (input.starts_with("MARU") || IsUpstreamMessage(as_bytes)) {
    return std::vector<std::byte>(as_bytes.begin(), as_bytes.end());
  }
  std::vector<std::byte> frame;
  int high = -1;
  for (const char c : input) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isspace(letter) != 0) continue;
    if (std::isxdigit(letter) == 0) {
      return InvalidArgument("neither a message, which begins with its magic, nor hex digits: " +
                             std::string(input.substr(0, 16)));
    }
    const int digit = std::isdigit(letter) != 0 ? letter - '0' : std::tolower(letter) - 'a' + 10;
    if (high >= 0) frame.push_back(static_cast<std::byte>(high << 4 | digit));
    high = high >= 0 ? -1 : digit;
  }
  if (high >= 0) return InvalidArgument("an odd number of hex digits");
  return frame;
}

Result<Exit> DescribeFrame(const Arguments& arguments) {
  // Twice the bytes in hex digits, and a space or a line's end behind each pair.
  constexpr uint64_t kInputBytesMax = 4 * uint64_t{wire::compat::kMetadataMessageBytesMax};
  static_assert(wire::compat::kMetadataMessageBytesMax >= layout::kFrameBytesMax);
  const Result<std::string> input = ReadAll(arguments.Get("FILE"), kInputBytesMax);
  MARU_RETURN_IF_ERROR(input.status());
  MARU_ASSIGN_OR_RETURN(const std::vector<std::byte> frame, FrameBytes(*input));
  const bool upstream = IsUpstreamMessage(frame);
  MARU_ASSIGN_OR_RETURN(Json json, upstream ? JsonOfUpstream(frame) : JsonOfFrame(frame));
  if (arguments.json()) {
    json["bytes"] = HexText(frame);
    PrintJson(json);
    return Exit::kDone;
  }
  std::vector<std::string> lines;
  if (upstream) {
    lines = LinesOf(json);
  } else {
    MARU_ASSIGN_OR_RETURN(lines, wire::DescribeFrame(frame));
  }
  PrintHexDump(0, frame);
  for (const std::string& line : lines) PrintLine(Printable(line));
  return Exit::kDone;
}

}  // namespace

extern const Command kPoolDump = {
    "pool dump",
    "Print the bytes of one structure of a pool, and what they say",
    "The formats are in docs/formats/. A record's number is what maru ls --long shows behind the\n"
    "pool's; text:N is the key of record N; index:N begins at entry N of the current table, and a\n"
    "record tells where its own is; leases:N are the lease blocks of client slot N.\n"
    "Example: maru pool dump /dev/shm/kv record:1",
    {},
    kDumpPositionals,
    &DumpPool};
extern const Command kFrame = {
    "frame",
    "Print the bytes of a message, and what they say",
    "A frame of the unix socket (docs/formats/frame.md), or a message of upstream's protocols:\n"
    "metadata, without ZeroMQ's own frames (upstream_metadata.md), or resource manager\n"
    "(upstream_resource_manager.md). The magic tells them apart. Exit code 4 when it is none; the\n"
    "field is named. Exit code 2 for a text that is neither that nor hex digits.\n"
    "Example: echo 4d415255 0b00 0000 00000000 00000000 0100000000000000 0000000000000000 |\n"
    "           maru frame -",
    {},
    kFramePositionals,
    &DescribeFrame};

}  // namespace maru::tools
