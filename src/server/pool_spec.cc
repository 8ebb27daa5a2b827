#include "server/pool_spec.h"

#include <algorithm>

#include "base/units.h"
#include "layout/geometry.h"
#include "os/file.h"
#include "os/machine.h"
#include "os/process.h"
#include "pool/new_pool.h"

namespace maru::server {

namespace {

constexpr uint64_t kAutoBytesMax = 4ull << 30;
constexpr const char* kShmFolder = "/dev/shm";

std::string DefaultPath(const Machine& machine) {
  return std::string(kShmFolder) + "/maru-" + std::to_string(machine.uid);
}

Status Wrong(std::string_view text, std::string_view what) {
  return InvalidArgument("--pool " + std::string(text) + ": " + std::string(what));
}

// Splits "NAME,size=4GiB" into the name and the options.
Status ParseParts(std::string_view text, std::string_view parts, std::string* name,
                  PoolSpec* spec) {
  bool first = true;
  while (!parts.empty()) {
    const size_t comma = parts.find(',');
    const std::string_view part = parts.substr(0, comma);
    parts = comma == std::string_view::npos ? std::string_view() : parts.substr(comma + 1);
    if (part.starts_with("size=")) {
      if (spec->create_bytes != 0) return Wrong(text, "size= is given twice");
      const Result<uint64_t> size = ParseSize(part.substr(5));
      if (!size.ok()) return Wrong(text, size.status().message());
      const Status fits = pool::CheckPoolBytes(*size);
      if (!fits.ok()) return Wrong(text, fits.message());
      spec->create_bytes = *size;
    } else if (part == "checksum") {
      spec->checksums = true;
    } else if (first && !part.empty()) {
      *name = std::string(part);
    } else {
      return Wrong(text, "\"" + std::string(part) + "\" is neither size=BYTES nor checksum");
    }
    first = false;
  }
  return OkStatus();
}

}  // namespace

Result<Machine> ReadMachine() {
  Machine machine;
  MARU_ASSIGN_OR_RETURN(machine.memory_bytes, os::MemoryLimitBytes());
  // Pools in files do without /dev/shm.
  machine.shm_free_bytes = os::FreeSpaceBytes(kShmFolder).value_or(0);
  machine.uid = os::UserId();
  return machine;
}

Result<uint64_t> AutoPoolBytes(const Machine& machine) {
  const uint64_t bytes =
      std::min({machine.memory_bytes / 4, kAutoBytesMax, machine.shm_free_bytes / 10 * 9});
  if (bytes >= layout::kPoolBytesMin) return bytes / layout::kUnitBytes * layout::kUnitBytes;
  return ResourceExhausted(
      "only " + FormatSize(bytes) + " are to spare for a pool (memory " +
      FormatSize(machine.memory_bytes) + ", free in /dev/shm " +
      FormatSize(machine.shm_free_bytes) + "), and a pool needs " +
      FormatSize(layout::kPoolBytesMin) +
      ": raise the container's memory and --shm-size, or name a file with --pool file:PATH,size=…");
}

namespace {

// The pool in /dev/shm that is there, with the size that it has, else one of a fitting size.
Result<PoolSpec> AutoPool(Machine machine, Start start) {
  PoolSpec spec;
  spec.path = DefaultPath(machine);
  MARU_ASSIGN_OR_RETURN(const os::PathKind kind, os::KindOf(spec.path));
  if (kind != os::PathKind::kMissing) {
    if (start == Start::kGoOn) {
      spec.note = "goes on with what is there; --fresh makes it anew";
      return spec;
    }
    // What it holds is free for the one that takes its place.
    MARU_ASSIGN_OR_RETURN(const os::File former, os::File::Open(spec.path, os::Access::kRead));
    MARU_ASSIGN_OR_RETURN(const os::FileFacts facts, former.Facts());
    machine.shm_free_bytes += facts.reserved_bytes;
  }
  MARU_ASSIGN_OR_RETURN(spec.create_bytes, AutoPoolBytes(machine));
  spec.note = "the least of a quarter of memory (" + FormatSize(machine.memory_bytes / 4) + "), " +
              FormatSize(kAutoBytesMax) + " and 90% of what is free in /dev/shm (" +
              FormatSize(machine.shm_free_bytes / 10 * 9) + "); kept for the next start";
  return spec;
}

// All but auto.
Status ParseNamedPool(std::string_view text, const Machine& machine, PoolSpec* spec) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string_view parts =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  std::string name;
  if (kind == "shm") {
    MARU_RETURN_IF_ERROR(ParseParts(text, parts, &name, spec));
    if (name.find('/') != std::string::npos) return Wrong(text, "a name in /dev/shm has no /");
    spec->path = name.empty() ? DefaultPath(machine) : std::string(kShmFolder) + "/" + name;
    return OkStatus();
  }
  if (kind == "file") {
    MARU_RETURN_IF_ERROR(ParseParts(text, parts, &name, spec));
    if (name.empty()) return Wrong(text, "file: needs a path, as in file:PATH,size=4GiB");
    spec->path = name;
    return OkStatus();
  }
  if (kind == "dax" || kind == "fsdax" || kind == "numa") {
    return Wrong(text,
                 "pools of this kind are not served by this version: use shm:size=BYTES, or "
                 "file:PATH,size=BYTES (a path on fsdax storage works as any file)");
  }
  return Wrong(text, "wanted is auto, shm:size=BYTES or file:PATH,size=BYTES");
}

}  // namespace

Result<PoolSpec> ParsePoolSpec(std::string_view text, const Machine& machine, Start start) {
  PoolSpec spec;
  if (text == "auto") {
    MARU_ASSIGN_OR_RETURN(spec, AutoPool(machine, start));
  } else {
    MARU_RETURN_IF_ERROR(ParseNamedPool(text, machine, &spec));
  }
  spec.fresh = start == Start::kFresh;
  if (spec.fresh && spec.create_bytes == 0) {
    return Wrong(text, "--fresh makes the pool anew: give it a size, as in size=4GiB");
  }
  return spec;
}

}  // namespace maru::server
