#include "pool/check.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/test_crash.h"
#include "catalogue/key.h"
#include "os/temp_folder.h"
#include "pool/inspect.h"
#include "pool/new_pool.h"
#include "pool/pool.h"

namespace maru::pool {
namespace {

using catalogue::KeyRef;
using layout::PageState;
using layout::StateWord;
using testing::Contains;
using testing::HasSubstr;

constexpr uint64_t kUnit = layout::kUnitBytes;

class CheckTest : public testing::Test {
 protected:
  CheckTest() {
    // Memory, as most pools are in.
    auto folder = os::TempFolder::Create("/dev/shm");
    MARU_CHECK_OK(folder.status());
    folder_ = std::make_unique<os::TempFolder>(std::move(folder).value());
    path_ = folder_->File("pool");
  }

  void Make(uint64_t flags = layout::kFlagChecksums) {
    pool_.reset();
    const auto block =
        InitPool(path_, layout::kPoolBytesMin, {.flags = flags, .existing = Existing::kReplace});
    ASSERT_TRUE(block.ok()) << block.status().ToString();
    Open();
  }
  void Open() {
    auto backing = FileBacking::OpenForServing(path_);
    ASSERT_TRUE(backing.ok()) << backing.status().ToString();
    base_ = (*backing)->base();
    const auto boot_id = MachineBootId();
    ASSERT_TRUE(boot_id.ok()) << boot_id.status().ToString();
    OpenOptions options;
    std::copy(boot_id->begin(), boot_id->end(), options.boot_id);
    options.epoch = 9;
    auto opened = Pool::Open(std::move(backing).value(), options);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    pool_ = std::move(opened).value();
  }
  void Close() {
    pool_->CloseCleanly();
    pool_.reset();
  }

  static KeyRef Key(const std::string& text) {
    static const catalogue::Namespace kSpace("team");
    return catalogue::MakeKeyRef(kSpace, text);
  }
  void Store(const Pool::PageRegion& region, uint32_t index, const std::string& key) {
    const RecordNumber record(region.first_record.value() + index);
    Generation generation;
    ASSERT_TRUE(pool_->writer().Grant(record, ClientSlot(0), &generation));
    std::byte* page = base_ + region.offset_bytes + index * region.page_bytes;
    std::memcpy(page, key.data(), key.size());
    ASSERT_TRUE(pool_->writer()
                    .Register(record, Key(key),
                              {.length_bytes = key.size(),
                               .checksum = HashBytes64({page, key.size()}),
                               .owner = ClientId(1),
                               .last_use = 0})
                    .ok());
  }
  // A pool with a client and a page in each state but quarantined; three keys.
  void MakeFull(uint64_t flags = layout::kFlagChecksums) {
    Make(flags);
    const auto cut = pool_->CutPages(kUnit / 8, 2 * kUnit);
    ASSERT_TRUE(cut.ok()) << cut.status().ToString();
    region_ = *cut;
    const ClientId id(static_cast<uint32_t>(pool_->NextClientId().value()));
    ASSERT_TRUE(pool_->leases().AddClient(ClientSlot(0), {.id = id, .label = "worker-1"}).ok());
    for (const auto& [index, key] : {std::pair{0, "one"}, {1, "two"}, {2, "three"}, {4, "gone"}}) {
      Store(region_, index, key);
    }
    Generation generation;
    ASSERT_TRUE(pool_->writer().Grant(Number(3), ClientSlot(0), &generation));
    pool_->writer().Retire(Number(4));
    pool_->writer().Condemn(Number(4));
  }
  RecordNumber Number(uint32_t index) const {
    return RecordNumber(region_.first_record.value() + index);
  }

  // Changes the closed pool's bytes.
  void Damage(const std::function<void(std::byte* base)>& change) {
    const int fd = open(path_.c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    void* base = mmap(nullptr, layout::kPoolBytesMin, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(base, MAP_FAILED);
    change(static_cast<std::byte*>(base));
    munmap(base, layout::kPoolBytesMin);
    close(fd);
  }
  static layout::PageRecord& Record(std::byte* base, RecordNumber record) {
    auto& directory =
        *reinterpret_cast<layout::RecordDirectory*>(base + layout::kRecordDirectoryOffset);
    return reinterpret_cast<layout::PageRecord*>(base + directory.units[0] * kUnit)[record.value()];
  }
  static layout::Root& Root(std::byte* base) {
    return *reinterpret_cast<layout::Root*>(base + layout::kRootOffset);
  }
  static std::atomic<uint64_t>* IndexSlots(std::byte* base) {
    const layout::TableWord word(Root(base).table_word);
    const layout::TableDescriptor table(Root(base).tables[word.current()]);
    return reinterpret_cast<std::atomic<uint64_t>*>(base + table.offset_bytes());
  }
  layout::RegionRecord& RegionOf(std::byte* base, uint32_t slot) {
    return reinterpret_cast<layout::RegionRecord*>(base + layout::kRegionTableOffset)[slot];
  }

  CheckReport Check(VerifyBytes verify = VerifyBytes::kNo) {
    const Result<CheckReport> report = CheckPool(path_, verify);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    return report.ok() ? *report : CheckReport{};
  }
  void ExpectOffence(const std::string& text, VerifyBytes verify = VerifyBytes::kNo) {
    const CheckReport report = Check(verify);
    EXPECT_FALSE(report.ok());
    EXPECT_THAT(report.offences.listed, Contains(HasSubstr(text)))
        << testing::PrintToString(report.offences.listed);
  }

  std::unique_ptr<os::TempFolder> folder_;
  std::string path_;
  std::unique_ptr<Pool> pool_;
  std::byte* base_ = nullptr;
  Pool::PageRegion region_;
};

TEST_F(CheckTest, APoolThatWasNeverServedIsSound) {
  ASSERT_TRUE(InitPool(path_, layout::kPoolBytesMin, {}).ok());
  const CheckReport report = Check();
  EXPECT_TRUE(report.ok());
  EXPECT_TRUE(report.clean);
  EXPECT_EQ(report.mends.count, 0u);
  EXPECT_THAT(DescribeCheck(report), Contains("sound"));
  EXPECT_THAT(DescribeCheck(report), Contains("closed in order: never served yet"));
}

TEST_F(CheckTest, ASoundPoolIsCountedWhole) {
  MakeFull();
  Close();
  const CheckReport report = Check(VerifyBytes::kYes);
  EXPECT_TRUE(report.ok()) << testing::PrintToString(report.offences.listed);
  EXPECT_EQ(report.mends.count, 0u) << testing::PrintToString(report.mends.listed);
  EXPECT_TRUE(report.clean);
  EXPECT_EQ(report.pages, 16u);
  EXPECT_EQ(SumOf(report.states), 16u);
  EXPECT_EQ(report.states[static_cast<int>(PageState::kLive)], 3u);
  EXPECT_EQ(report.states[static_cast<int>(PageState::kGranted)], 1u);
  EXPECT_EQ(report.states[static_cast<int>(PageState::kCondemned)], 1u);
  EXPECT_EQ(report.states[static_cast<int>(PageState::kFree)], 11u);
  EXPECT_EQ(report.keys, 3u);
  EXPECT_EQ(report.text_bytes, 3 * 4 + 3 + 3 + 5u);
  EXPECT_EQ(report.index_entries, 3u);
  EXPECT_EQ(report.clients, 1u);
  EXPECT_EQ(report.verified_pages, 3u);
  EXPECT_EQ(report.verified_bytes, 11u);
}

TEST_F(CheckTest, LookingChangesNothing) {
  MakeFull();
  Close();
  ASSERT_EQ(chmod(path_.c_str(), 0400), 0);
  struct stat before{}, after{};
  ASSERT_EQ(stat(path_.c_str(), &before), 0);
  EXPECT_TRUE(Check(VerifyBytes::kYes).ok());
  EXPECT_TRUE(InspectPool(path_).ok());
  ASSERT_EQ(stat(path_.c_str(), &after), 0);
  EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
  EXPECT_EQ(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
  EXPECT_EQ(before.st_blocks, after.st_blocks) << "no hole was touched";
}

TEST_F(CheckTest, APoolInServiceIsInspectedButNotChecked) {
  MakeFull();
  const Result<PoolReport> report = InspectPool(path_);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->use, PoolUse::kServed);
  EXPECT_EQ(report->superblock.device.uuid, pool_->superblock().device.uuid);
  EXPECT_EQ(report->free_bytes, pool_->usage().free_bytes);
  ASSERT_EQ(report->page_sizes.size(), 1u);
  EXPECT_EQ(SumOf(report->page_sizes.at(kUnit / 8).states), 16u);
  ASSERT_EQ(report->clients.size(), 1u);
  EXPECT_FALSE(report->clients[0].lives);
  const std::vector<std::string> lines = DescribePool(*report);
  EXPECT_THAT(lines, Contains("use: being served"));
  EXPECT_THAT(lines, Contains(HasSubstr("client 1 \"worker-1\"")));
  EXPECT_THAT(lines, Contains(HasSubstr("11 free, 1 granted, 3 live, 1 condemned")));
  EXPECT_THAT(lines, Contains(HasSubstr("16 pages of 262144 bytes")));
  const Result<CheckReport> checked = CheckPool(path_, VerifyBytes::kNo);
  EXPECT_EQ(checked.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(checked.status().message()), HasSubstr("maru audit"));
  Close();
  EXPECT_EQ(InspectPool(path_)->use, PoolUse::kAtRest);
  EXPECT_THAT(DescribePool(*InspectPool(path_)), Contains("use: at rest, closed in order"));
}

TEST_F(CheckTest, AFileThatIsNoPoolCannotBeChecked) {
  EXPECT_EQ(CheckPool(path_, VerifyBytes::kNo).status().code(), StatusCode::kNotFound);
  Make();
  Close();
  Damage([](std::byte* base) { base[70] ^= std::byte{1}; });
  EXPECT_EQ(CheckPool(path_, VerifyBytes::kNo).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(InspectPool(path_).status().code(), StatusCode::kDataLoss);
}

TEST_F(CheckTest, DamagedRecordsAreNamed) {
  MakeFull();
  Close();
  const auto spoil = [this](const std::function<void(layout::PageRecord&)>& change,
                            const std::string& text) {
    SCOPED_TRACE(text);
    std::vector<uint64_t> kept(sizeof(layout::PageRecord) / 8);
    Damage([&](std::byte* base) {
      layout::PageRecord& record = Record(base, Number(1));
      std::memcpy(kept.data(), static_cast<void*>(&record), sizeof(record));
      change(record);
    });
    ExpectOffence(text);
    Damage([&](std::byte* base) {
      std::memcpy(static_cast<void*>(&Record(base, Number(1))), kept.data(), kept.size() * 8);
    });
    EXPECT_TRUE(Check().ok());
  };
  using R = layout::PageRecord;
  spoil([](R& r) { r.state_word = 9ull << 60; }, "record 2: page record: state_word");
  spoil([](R& r) { r.region_slot = 77; }, "but names slot 77");
  spoil([](R& r) { r.length_bytes = 1 << 20; }, "stores 1048576 bytes in a page of 262144");
  spoil([](R& r) { r.text_offset += 8; }, "record 2: ");
  spoil([](R& r) { r.hash_low ^= 1; }, "the hash is not that of its key \"two\"");
  spoil([](R& r) { r.key_sizes = ~0ull; }, "key_sizes");
  spoil([](R& r) { r.last_use = ~0ull; }, "last_use");
}

TEST_F(CheckTest, TextThatTwoRecordsShareIsFound) {
  MakeFull();
  Close();
  Damage([&](std::byte* base) {
    Record(base, Number(1)).text_offset = Record(base, Number(0)).text_offset.load();
  });
  ExpectOffence("belongs to two records");
}

// The index is derived: a start builds it anew from the records.
TEST_F(CheckTest, WhatIsWrongInTheIndexIsMended) {
  MakeFull();
  Close();
  const uint64_t home = layout::IndexEntry::Home(Key("two").hash, 1 << 18);
  Damage([&](std::byte* base) {
    ASSERT_EQ(IndexSlots(base)[home], layout::IndexEntry::Make(Key("two").hash, Number(1)).bits());
    IndexSlots(base)[home] = 0;
    layout::PageRecord& gone = Record(base, Number(2));
    gone.state_word = StateWord(gone.state_word).With(PageState::kFree).bits();
    uint64_t slot = layout::IndexEntry::Home(Key("nowhere").hash, 1 << 18);
    while (IndexSlots(base)[slot] != 0) ++slot;
    IndexSlots(base)[slot] =
        layout::IndexEntry::Make(Key("nowhere").hash, RecordNumber(1u << 31)).bits();
  });
  const CheckReport report = Check();
  EXPECT_TRUE(report.ok()) << testing::PrintToString(report.offences.listed);
  EXPECT_THAT(report.mends.listed, Contains(HasSubstr("its key \"two\" is not in the index")));
  EXPECT_THAT(report.mends.listed, Contains(HasSubstr("record 3: is in the index at slot")));
  EXPECT_THAT(report.mends.listed, Contains(HasSubstr("which has no memory")));
  Open();
  Close();
  EXPECT_EQ(Check().mends.count, 0u);
}

TEST_F(CheckTest, AClientIdThatWouldBeGivenOutOnceMoreIsToldAndMovedOver) {
  MakeFull();
  Close();
  Damage([](std::byte* base) { Root(base).next_client_id = 0; });
  const CheckReport report = Check();
  EXPECT_TRUE(report.ok()) << testing::PrintToString(report.offences.listed);
  EXPECT_THAT(report.mends.listed, Contains(HasSubstr("next_client_id is 0, but 1 was given out")));
  Open();
  EXPECT_EQ(pool_->NextClientId().value(), 2u);
}

TEST_F(CheckTest, TwoRecordsOfOneKeyAreFound) {
  MakeFull();
  Store(region_, 6, "TWO");
  Close();
  // The second record and its text as those of the first key.
  Damage([&](std::byte* base) {
    layout::PageRecord& record = Record(base, Number(6));
    record.hash_low = Key("two").hash.low;
    record.hash_high = Key("two").hash.high;
    std::memcpy(base + record.text_offset, "teamtwo", 7);
  });
  ExpectOffence("record 7: has the key \"two\" of record 2");
}

TEST_F(CheckTest, DamageOutsideTheRecordsIsFound) {
  MakeFull();
  Close();
  std::vector<std::byte> good(layout::kPoolBytesMin);
  Damage([&](std::byte* base) { std::copy(base, base + good.size(), good.begin()); });
  const auto spoil = [&](const std::function<void(std::byte*)>& change, const std::string& text) {
    SCOPED_TRACE(text);
    Damage(change);
    ExpectOffence(text);
    Damage([&](std::byte* base) { std::copy(good.begin(), good.end(), base); });
    EXPECT_TRUE(Check().ok());
  };
  spoil([&](std::byte* base) { RegionOf(base, 0).offset_bytes = region_.offset_bytes; }, "overlap");
  spoil(
      [](std::byte* base) {
        Root(base).tables[1] = 0x1234;
        Root(base).tables[0] = 0x1234;
      },
      "root: ");
  spoil([](std::byte* base) { Root(base).next_client_id = ~0ull; }, "next_client_id");
  spoil([](std::byte* base) { Root(base).use_tick = ~0ull; }, "use_tick");
  spoil(
      [](std::byte* base) {
        reinterpret_cast<layout::ClientRecord*>(base + layout::kClientTableOffset)->client_id =
            ~0ull;
      },
      "client slot 0");
  spoil(
      [&](std::byte* base) {
        for (uint32_t slot = 0; slot < 10; ++slot) {
          layout::RegionRecord& region = RegionOf(base, slot);
          if (layout::RegionWord(region.word).kind() != layout::RegionKind::kLeases) continue;
          auto& leases = *reinterpret_cast<layout::LeaseDirectory*>(base + region.offset_bytes);
          leases.owners[2] = leases.owners[1].load();
          leases.owners[3] = layout::BlockOwner::Make(1, 5000, 0).bits();
        }
      },
      "lease block at");
}

TEST_F(CheckTest, BytesThatAreNotThoseStoredAreFoundWhenAsked) {
  MakeFull();
  Close();
  Damage([&](std::byte* base) { base[region_.offset_bytes + region_.page_bytes] ^= std::byte{1}; });
  EXPECT_TRUE(Check().ok());
  ExpectOffence("record 2: its 3 bytes do not have the checksum of those stored, key \"two\"",
                VerifyBytes::kYes);
}

TEST_F(CheckTest, WhatAFreePageNamesIsMended) {
  MakeFull();
  Close();
  Damage([&](std::byte* base) { Record(base, Number(7)).region_slot = (1ull << 32) + 3; });
  const CheckReport report = Check();
  EXPECT_TRUE(report.ok()) << testing::PrintToString(report.offences.listed);
  EXPECT_THAT(report.mends.listed, Contains(HasSubstr("names a former region")));
  Open();
  Close();
  EXPECT_EQ(Check().mends.count, 0u);
}

TEST_F(CheckTest, TheListOfFindingsIsBounded) {
  Make();
  const auto cut = pool_->CutPages(512, kUnit);
  ASSERT_TRUE(cut.ok());
  region_ = *cut;
  Close();
  Damage([&](std::byte* base) {
    for (uint32_t i = 0; i < 1000; ++i) Record(base, Number(i)).state_word = ~0ull;
  });
  const CheckReport report = Check();
  EXPECT_EQ(report.offences.count, 1000u);
  EXPECT_EQ(report.offences.listed.size(), FindingList::kListedMax);
  EXPECT_THAT(DescribeCheck(report), Contains("damage: and 800 more"));
}

TEST_F(CheckTest, AfterABootWithoutACloseAStartIsSaidToDrop) {
  MakeFull();
  pool_.reset();
  Damage([&](std::byte* base) {
    Root(base).boot_id[0] ^= 1;
    base[region_.offset_bytes] ^= std::byte{1};
  });
  const CheckReport report = Check(VerifyBytes::kYes);
  EXPECT_TRUE(report.ok());
  EXPECT_TRUE(report.rebooted);
  EXPECT_THAT(report.mends.listed, Contains(HasSubstr("only keys whose checksum verifies")));
  EXPECT_THAT(report.mends.listed, Contains(HasSubstr("record 1: its 3 bytes")));
  EXPECT_EQ(report.verified_pages, 2u);
}

// A killed server never leaves what a check calls damage, and a start mends all that it told.
TEST_F(CheckTest, ACrashAtAnyPointIsNoDamage) {
  uint64_t mends = 0;
  CrashAtEachPoint([&](CrashPoint& point) {
    Make();
    point.Run([this] {
      const auto small = pool_->CutPages(kUnit / 4, kUnit);
      ASSERT_TRUE(small.ok());
      const ClientId id(static_cast<uint32_t>(pool_->NextClientId().value()));
      ASSERT_TRUE(pool_->leases().AddClient(ClientSlot(0), {.id = id, .label = "x"}).ok());
      for (const auto& [index, key] : {std::pair{0, "one"}, {1, "two"}}) Store(*small, index, key);
      const RecordNumber first = small->first_record;
      pool_->writer().Retire(first);
      pool_->writer().Revert(first);
      for (uint32_t i = 0; i < 2; ++i) {
        pool_->writer().Retire(RecordNumber(first.value() + i));
        pool_->writer().Condemn(RecordNumber(first.value() + i));
        pool_->writer().Free(RecordNumber(first.value() + i));
      }
      ASSERT_TRUE(pool_->FreePages(small->slot).ok());
      ASSERT_TRUE(pool_->CutPages(kUnit, kUnit).ok());
    });
    pool_.reset();
    const CheckReport left = Check(VerifyBytes::kYes);
    ASSERT_TRUE(left.ok()) << testing::PrintToString(left.offences.listed);
    mends += left.mends.count;
    Open();
    Close();
    const CheckReport after = Check(VerifyBytes::kYes);
    ASSERT_TRUE(after.ok()) << testing::PrintToString(after.offences.listed);
    for (const std::string& mend : after.mends.listed) {
      // The engine's to mend: the client of a grant that the crash has cut off.
      EXPECT_THAT(mend, HasSubstr("is granted to slot"));
    }
  });
  EXPECT_GT(mends, 10u);
}

}  // namespace
}  // namespace maru::pool
