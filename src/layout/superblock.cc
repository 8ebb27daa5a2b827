#include "layout/superblock.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/units.h"
#include "layout/text.h"
#include "maru/result.h"

namespace maru::layout {
namespace {

constexpr char kDeviceMagic[8] = {'M', 'A', 'R', 'U', 'D', 'E', 'V', '\0'};
constexpr char kPoolMagic[8] = {'M', 'A', 'R', 'U', 'P', 'O', 'O', 'L'};
constexpr uint32_t kDeviceVersion = 1;

// What holds in every version: the checksum is the last eight bytes of superblock_bytes, which is
// a multiple of eight between these two.
constexpr uint32_t kAnySuperblockBytesMin = 64;
constexpr uint32_t kAnySuperblockBytesMax = kRegionDirectoryOffset - kRootOffset;
static_assert(offsetof(Superblock, superblock_bytes) + 8 <= kAnySuperblockBytesMin);

std::string_view MagicText(const char (&magic)[8]) { return {magic, sizeof(magic)}; }

uint64_t Checksum(std::span<const std::byte> bytes) { return HashBytes64(bytes); }

bool AllZero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

std::string SizeText(uint64_t bytes) { return Concat(FormatSize(bytes), " (", bytes, " bytes)"); }

Status CheckMagic(const Superblock& block, std::span<const std::byte> bytes) {
  const bool device = MagicText(block.device.magic) == MagicText(kDeviceMagic);
  if (MagicText(block.magic) != MagicText(kPoolMagic)) {
    if (AllZero(bytes.first(sizeof(Superblock)))) {
      return DataLoss("no pool: the first 512 bytes are zero; `maru pool init` makes one");
    }
    if (device) {
      return DataLoss("no pool: a device header, but no superblock; `maru pool init` makes one");
    }
    return DataLoss(Concat("no pool: foreign bytes, magic is ", Quoted{MagicText(block.magic)},
                           " where ", Quoted{MagicText(kPoolMagic)}, " belongs"));
  }
  if (!device || block.device.version != kDeviceVersion) {
    return DataLoss(Concat("torn superblock: device header has magic ",
                           Quoted{MagicText(block.device.magic)}, " and version ",
                           block.device.version, ", expected ", Quoted{MagicText(kDeviceMagic)},
                           " and ", kDeviceVersion));
  }
  return OkStatus();
}

// Before the version is judged, so that a torn block is not taken for one of another version.
Status CheckWhole(const Superblock& block, std::span<const std::byte> bytes) {
  const uint32_t size = block.superblock_bytes;
  const bool own = block.layout_version == kLayoutVersion;
  if (size < kAnySuperblockBytesMin || size > kAnySuperblockBytesMax || !IsAligned(size, 8) ||
      (own && size != sizeof(Superblock))) {
    return DataLoss(
        Concat("torn superblock: superblock_bytes is ", size, ", expected ", sizeof(Superblock)));
  }
  if (size > bytes.size()) return OkStatus();  // of another version, which is told instead
  const uint64_t stored = LoadLittle<uint64_t>(bytes.data() + size - sizeof(uint64_t));
  const uint64_t computed = Checksum(bytes.first(size - sizeof(uint64_t)));
  if (stored != computed) {
    return DataLoss(Concat("torn superblock: checksum is ", Hex{stored, 16}, ", its bytes give ",
                           Hex{computed, 16}));
  }
  return OkStatus();
}

Status CheckVersion(const Superblock& block) {
  if (block.layout_version == kLayoutVersion) return OkStatus();
  const std::string versions = Concat("the pool has layout version ", block.layout_version,
                                      ", this maru reads version ", kLayoutVersion, ": ");
  if (block.layout_version > kLayoutVersion) {
    return FailedPrecondition(versions +
                              "upgrade this maru, or make a new pool with `maru pool init`");
  }
  return FailedPrecondition(versions +
                            "the pool is the older side: make it anew with `maru pool init`, or "
                            "read it with the maru that made it");
}

Status CheckSize(const Superblock& block, uint64_t file_bytes) {
  if (block.pool_bytes < kPoolBytesMin || block.pool_bytes > kPoolBytesMax ||
      !IsAligned(block.pool_bytes, kUnitBytes)) {
    return DataLoss(Concat("superblock: pool_bytes is ", block.pool_bytes,
                           ", expected a multiple of ", kUnitBytes, " from ", kPoolBytesMin, " to ",
                           kPoolBytesMax));
  }
  if (block.pool_bytes != file_bytes) {
    return FailedPrecondition(Concat(
        "resized: a pool of ", SizeText(block.pool_bytes), " in a file of ", SizeText(file_bytes),
        "; give the file its size again, or make a new pool with `maru pool "
        "init`"));
  }
  return OkStatus();
}

Status CheckFields(const Superblock& block) {
  if (block.unit_bytes != kUnitBytes) {
    return DataLoss(
        Concat("superblock: unit_bytes is ", block.unit_bytes, ", expected ", kUnitBytes));
  }
  if (block.client_slots != kClientSlots) {
    return DataLoss(
        Concat("superblock: client_slots is ", block.client_slots, ", expected ", kClientSlots));
  }
  if ((block.flags & ~kFlagsKnown) != 0) {
    return DataLoss(Concat("superblock: flags has ", Hex{block.flags & ~kFlagsKnown},
                           ", which this maru does not know: a newer one may"));
  }
  if (!IsAligned(block.region_id_base, kRegionIdsPerPool) || block.region_id_base > kRegionIdMax) {
    return DataLoss(Concat("superblock: region_id_base is ", block.region_id_base,
                           ", expected a multiple of ", kRegionIdsPerPool, " up to ",
                           kRegionIdMax));
  }
  if (!AllZero(std::as_bytes(std::span(block.reserved)))) {
    return DataLoss("superblock: reserved bytes are not zero");
  }
  return OkStatus();
}

}  // namespace

Superblock MakeSuperblock(const Uuid& uuid, uint64_t pool_bytes, uint64_t flags,
                          uint32_t region_id_base, uint64_t created_unix_ns) {
  Superblock block{};
  std::memcpy(block.device.magic, kDeviceMagic, sizeof(kDeviceMagic));
  block.device.version = kDeviceVersion;
  block.device.uuid = uuid;
  std::memcpy(block.magic, kPoolMagic, sizeof(kPoolMagic));
  block.layout_version = kLayoutVersion;
  block.superblock_bytes = sizeof(Superblock);
  block.pool_bytes = pool_bytes;
  block.flags = flags;
  block.created_unix_ns = created_unix_ns;
  block.region_id_base = region_id_base;
  block.client_slots = kClientSlots;
  block.unit_bytes = kUnitBytes;
  const auto bytes = std::as_bytes(std::span(&block, 1));
  block.checksum = Checksum(bytes.first(offsetof(Superblock, checksum)));
  MARU_CHECK_OK(CheckSize(block, pool_bytes));
  MARU_CHECK_OK(CheckFields(block));
  return block;
}

Status ValidateSuperblock(std::span<const std::byte> bytes, uint64_t file_bytes, Superblock* out) {
  if (bytes.size() < sizeof(Superblock)) {
    return DataLoss(
        Concat("no pool: only ", bytes.size(), " bytes, a superblock has ", sizeof(Superblock)));
  }
  Superblock block{};
  std::memcpy(&block, bytes.data(), sizeof(block));
  MARU_RETURN_IF_ERROR(CheckMagic(block, bytes));
  MARU_RETURN_IF_ERROR(CheckWhole(block, bytes));
  MARU_RETURN_IF_ERROR(CheckVersion(block));
  MARU_RETURN_IF_ERROR(CheckSize(block, file_bytes));
  MARU_RETURN_IF_ERROR(CheckFields(block));
  *out = block;
  return OkStatus();
}

bool TableDescriptor::Valid(uint64_t pool_bytes) const {
  if (entries_log2() < kIndexEntriesLog2Min || entries_log2() > kIndexEntriesLog2Max) return false;
  const uint64_t table_bytes = sizeof(uint64_t) << entries_log2();
  return IsAligned(offset_bytes(), kUnitBytes) && offset_bytes() >= kHeadBytes &&
         RangeFits(offset_bytes(), table_bytes, pool_bytes);
}

}  // namespace maru::layout
