// Pools whose bytes were changed at random: opening one says DataLoss or mends it, and what it
// opens is whole. Nothing of it may stop the process or be read outside the pool.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "pool/check.h"
#include "pool/test_pool_fixture.h"

namespace maru::pool {
namespace {

class PoolDamageTest : public PoolFixture {
 protected:
  // Two page sizes, keys of many lengths, a client with leases, a growing catalogue.
  void MakeGood() {
    Make(16, layout::kFlagChecksums);
    const auto small = pool_->CutPages(4096, kUnit);
    const auto large = pool_->CutPages(kPageMiB, 2 * kUnit);
    ASSERT_TRUE(small.ok() && large.ok());
    for (int i = 0; i < 60; ++i) {
      ASSERT_TRUE(
          Store(i % 20 == 0 ? *large : *small, std::string(i * 7, 'k') + std::to_string(i)));
    }
    const ClientId id(static_cast<uint32_t>(pool_->NextClientId().value()));
    ASSERT_TRUE(pool_->leases().AddClient(ClientSlot(5), {.id = id, .label = "reader"}).ok());
    Reopen();
    for (const auto& [slot, kind] : KindsBySlot()) {
      const layout::RegionRecord& record = RegionRecordOf(slot);
      if (kind != layout::RegionKind::kPages) rooms_.push_back(record.offset_bytes);
    }
    good_boot_ = options_.boot_id[0];
    pool_.reset();
    good_.assign(memory_->base(), memory_->base() + memory_->bytes());
  }
  layout::RegionRecord& RegionRecordOf(uint32_t slot) {
    return At<layout::RegionRecord>(layout::kRegionTableOffset + slot * 256);
  }
  std::vector<std::pair<uint32_t, layout::RegionKind>> KindsBySlot() {
    std::vector<std::pair<uint32_t, layout::RegionKind>> kinds;
    for (uint32_t slot = 0; slot < root().region_slots_high; ++slot) {
      kinds.emplace_back(slot, layout::RegionWord(RegionRecordOf(slot).word).kind());
    }
    return kinds;
  }

  // A word of the parts that opening reads: root, directories, client table, region table, records,
  // index, text, lease directories.
  uint64_t AnyOffset(Random& random) {
    switch (random.Below(8)) {
      case 0: return layout::kRootOffset + 8 * random.Below(random.OneIn(2) ? 16 : 512);
      case 1: return layout::kRegionDirectoryOffset + 8 * random.Below(66);
      case 2: return layout::kClientTableOffset + 128 * 5 + 8 * random.Below(16);
      case 3: return layout::kRegionTableOffset + 8 * random.Below(12 * 32);
      case 4: return layout::kRecordDirectoryOffset + 8 * random.Below(4);
      default: {
        const uint64_t room = rooms_[random.Below(rooms_.size())];
        return room + 8 * random.Below(random.OneIn(2) ? 16 * 64 : kUnit / 8);
      }
    }
  }
  uint64_t AnyValue(Random& random, uint64_t before) {
    switch (random.Below(6)) {
      case 0: return 0;
      case 1: return ~0ull;
      case 2: return before ^ (1ull << random.Below(64));
      case 3: return before + 1;
      case 4: return random.Below(1000);
      default: return random();
    }
  }

  CheckReport Check() {
    CheckReport report;
    // Not of the bytes: whether they are verified is asked of a check, and of a start by the boot.
    CheckMapped(catalogue::PoolView(memory_->base(), memory_->bytes()), VerifyBytes::kNo, &report);
    return report;
  }

  static std::string RecordOffence(const CheckReport& report) {
    for (const std::string& offence : report.offences.listed) {
      if (offence.starts_with("record ")) return offence;
    }
    return "";
  }

  void RunSeed(uint64_t seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::memcpy(memory_->base(), good_.data(), good_.size());
    for (uint64_t i = random.Between(1, 3); i > 0; --i) {
      auto& word = At<std::atomic<uint64_t>>(AnyOffset(random));
      word = AnyValue(random, word);
    }
    const CheckReport report = Check();
    options_.boot_id[0] = good_boot_ + random.Below(2);
    const bool same_boot =
        root().boot_id[0] == options_.boot_id[0] && root().boot_id[1] == options_.boot_id[1];
    const Status status = TryOpen();
    // What a check finds sound opens; what does not open, a check has an offence for. Of records
    // there is one rule.
    if (status.code() == StatusCode::kDataLoss) {
      ASSERT_FALSE(report.ok()) << status.ToString();
    }
    if (status.ok() && same_boot) {
      ASSERT_EQ(RecordOffence(report), "");
    }
    if (!status.ok()) {
      ASSERT_TRUE(status.code() == StatusCode::kDataLoss ||
                  status.code() == StatusCode::kResourceExhausted)
          << status.ToString();
      ASSERT_GT(status.message().size(), 20u);
      ++refused_;
      return;
    }
    ++opened_;
    keys_.clear();  // some may be gone
    CheckWhole();
    // Also after what a start has mended and dropped.
    ASSERT_EQ(RecordOffence(Check()), "");
    const auto region = pool_->CutPages(512, 1);
    if (region.ok()) {
      ASSERT_TRUE(Store(*region, "after"));
    }
  }

  std::vector<std::byte> good_;
  std::vector<uint64_t> rooms_;
  uint64_t good_boot_ = 0;
  int opened_ = 0, refused_ = 0;
};

TEST_F(PoolDamageTest, AnyDamageIsRefusedOrMended) {
  MakeGood();
  if (HasFatalFailure()) return;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    RunSeed(seed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(opened_, 50);
  EXPECT_GT(refused_, 50);
}

}  // namespace
}  // namespace maru::pool
