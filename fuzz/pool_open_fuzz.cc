// Checking and opening a pool of which any words were changed, on the same boot or another. It is
// refused with DataLoss, and then the check has an offence for it, or opened, and then it serves.
// The input: one byte which boot, then (place, word, value): one byte which part of the pool, two
// bytes which word of it, eight bytes its value.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"
#include "catalogue/key.h"
#include "pool/check.h"
#include "pool/memory_backing.h"
#include "pool/pool.h"

namespace {

using maru::ByteReader;
using maru::ClientId;
using maru::ClientSlot;
using maru::RecordNumber;
using maru::pool::Pool;
namespace layout = maru::layout;

constexpr uint64_t kPageBytes = 4096;
constexpr uint32_t kKeys = 24;
constexpr int kChangesMax = 64;

// A pool that was served and killed, with what can be changed of it.
struct Sample {
  std::shared_ptr<maru::pool::PlainMemory> memory;
  std::vector<std::byte> bytes;     // as it was
  std::vector<uint64_t> catalogue;  // offsets of the catalogue's regions
};

maru::Result<std::unique_ptr<Pool>> Open(const Sample& sample, uint64_t boot) {
  return Pool::Open(std::make_unique<maru::pool::MemoryBacking>(sample.memory),
                    {.boot_id = {boot, 7}, .epoch = 5});
}

void StoreKey(const Sample& sample, Pool& pool, const Pool::PageRegion& region, uint32_t index,
              const std::string& text) {
  const RecordNumber record(region.first_record.value() + index);
  maru::Generation generation;
  MARU_CHECK(pool.writer().Grant(record, ClientSlot(5), &generation));
  std::byte* page = sample.memory->base() + region.offset_bytes + index * region.page_bytes;
  std::memcpy(page, text.data(), text.size());
  const maru::catalogue::Namespace space("fuzz");
  MARU_CHECK_OK(pool.writer().Register(record, maru::catalogue::MakeKeyRef(space, text),
                                       {.length_bytes = text.size(),
                                        .checksum = maru::HashBytes64({page, text.size()}),
                                        .owner = ClientId(1),
                                        .last_use = 0}));
}

Sample MakeSample() {
  Sample sample;
  sample.memory = maru::pool::MakeMemoryPool(layout::kPoolBytesMin, layout::kFlagChecksums);
  const std::unique_ptr<Pool> pool = Open(sample, 1).value();
  const Pool::PageRegion region = pool->CutPages(kPageBytes, 1).value();
  for (uint32_t i = 0; i < kKeys; ++i) {
    StoreKey(sample, *pool, region, i, std::string(i * 9, 'k') + std::to_string(i));
  }
  pool->writer().Retire(RecordNumber(region.first_record.value() + 1));
  MARU_CHECK_OK(pool->leases().AddClient(ClientSlot(5), {.id = ClientId(1), .label = "reader"}));
  const auto* table = reinterpret_cast<const layout::RegionRecord*>(sample.memory->base() +
                                                                    layout::kRegionTableOffset);
  for (uint32_t slot = 0; slot < pool->usage().regions; ++slot) {
    if (layout::RegionWord(table[slot].word).kind() == layout::RegionKind::kPages) continue;
    sample.catalogue.push_back(table[slot].offset_bytes);
  }
  sample.bytes.assign(sample.memory->base(), sample.memory->base() + sample.memory->bytes());
  return sample;
}

void Change(const Sample& sample, ByteReader& input) {
  const uint8_t place = input.U8();
  const uint64_t word = input.U16();
  const uint64_t value = input.U64();
  if (!input.ok()) return;
  uint64_t at = 0;
  switch (place % 8) {
    case 0: at = layout::kRootOffset + word % 512 * 8; break;
    case 1: at = layout::kRegionDirectoryOffset + word % 512 * 8; break;
    case 2: at = layout::kClientTableOffset + word % (8 * 16) * 8; break;
    case 3: at = layout::kRegionTableOffset + word % (16 * 32) * 8; break;
    case 4: at = layout::kRecordDirectoryOffset + word % 8 * 8; break;
    default: at = sample.catalogue[place / 8 % sample.catalogue.size()] + word * 8; break;
  }
  std::memcpy(sample.memory->base() + at, &value, sizeof(value));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Sample sample = MakeSample();
  std::memcpy(sample.memory->base(), sample.bytes.data(), sample.bytes.size());
  ByteReader input(std::as_bytes(std::span(data, size)));
  const uint64_t boot = 1 + input.U8() % 2;
  for (int i = 0; i < kChangesMax && input.ok() && !input.AtEnd(); ++i) Change(sample, input);

  maru::pool::CheckReport report;
  maru::pool::CheckMapped({sample.memory->base(), sample.memory->bytes()},
                          maru::pool::VerifyBytes::kYes, &report);
  MARU_CHECK(!maru::pool::DescribeCheck(report).empty());
  auto opened = Open(sample, boot);
  if (!opened.ok()) {
    MARU_CHECK(opened.status().code() == maru::StatusCode::kDataLoss ||
               opened.status().code() == maru::StatusCode::kResourceExhausted)
        << opened.status().ToString();
    MARU_CHECK(opened.status().code() != maru::StatusCode::kDataLoss || !report.ok());
    return 0;
  }
  const std::unique_ptr<Pool> pool = std::move(opened).value();
  std::vector<maru::catalogue::Writer::Offender> offenders;
  MARU_CHECK_EQ(pool->writer().CheckIndex(&offenders, 1), 0u) << offenders[0].what;
  if (const auto region = pool->CutPages(kPageBytes, 1); region.ok()) {
    StoreKey(sample, *pool, *region, 0, "after");
  }
  return 0;
}
