#include "catalogue/lease_areas.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/sequence_point.h"
#include "catalogue/publication_points.h"
#include "catalogue/test_pool.h"
#include "catalogue/test_writer.h"

namespace maru::catalogue {
namespace {

using layout::SlotWord;

constexpr uint64_t kPoolBytes = layout::kPoolBytesMin;

struct Areas {
  Areas() : test(kPoolBytes) {
    first = test.Cut(100);
    Reopen();
  }
  void Reopen() {
    areas.reset();
    auto opened = LeaseAreas::Open(test.pool().base(), test.pool().bytes(), &test.pool());
    MARU_CHECK_OK(opened.status());
    areas = std::move(*opened);
  }
  Status Add(uint16_t slot, uint32_t id, std::string_view label = "vllm-0") {
    return areas->AddClient(ClientSlot(slot), {.id = ClientId(id),
                                               .pid = 11,
                                               .uid = 22,
                                               .label = label,
                                               .budget_bytes = 33,
                                               .attached_unix_ns = 44});
  }
  layout::LeaseHeader& Header(uint16_t slot) {
    return *test.pool().At<layout::LeaseHeader>(areas->Blocks(ClientSlot(slot)).at(0));
  }
  // As a client does it.
  void Fill(uint16_t slot, uint64_t at, SlotWord word) {
    const auto blocks = areas->Blocks(ClientSlot(slot));
    if (Header(slot).slots_high.load() < at + 1) Header(slot).slots_high.store(at + 1);
    test.pool()
        .At<layout::LeaseSlots>(blocks.at(1 + at / layout::kLeaseSlotsPerBlock))
        ->slots[at % layout::kLeaseSlotsPerBlock]
        .store(word.bits());
  }
  SlotWord Lease(uint32_t page, uint32_t generation = 1) {
    return SlotWord::Make(RecordNumber(first.value() + page), Generation(generation),
                          SlotWord::Kind::kLease);
  }
  std::vector<std::pair<uint16_t, uint64_t>> Scan() {
    std::vector<std::pair<uint16_t, uint64_t>> met;
    areas->Scan(
        [&](ClientSlot slot, SlotWord word) { met.emplace_back(slot.value(), word.bits()); });
    return met;
  }
  std::vector<uint32_t> Drain(uint16_t slot) {
    std::vector<uint32_t> touched;
    areas->DrainTouches(ClientSlot(slot),
                        [&](RecordNumber record) { touched.push_back(record.value()); });
    return touched;
  }

  TestWriter test;
  RecordNumber first{0};
  std::unique_ptr<LeaseAreas> areas;
};

TEST(LeaseAreas, AClientOutlivesTheServer) {
  Areas a;
  ASSERT_TRUE(a.Add(7, 1234, std::string("engine") + '\0' + "hidden").ok());
  a.Fill(7, 0, a.Lease(3));
  ASSERT_TRUE(a.areas->AddBlock(ClientSlot(7)).ok());
  a.Fill(7, layout::kLeaseSlotsPerBlock + 5, a.Lease(4));
  const auto blocks = a.areas->Blocks(ClientSlot(7));
  ASSERT_EQ(blocks.size(), 3u);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(a.areas->Clients(), std::vector{ClientSlot(7)});
    EXPECT_EQ(a.areas->Blocks(ClientSlot(7)), blocks);
    const layout::ClientRecord& record = a.areas->Record(ClientSlot(7));
    EXPECT_EQ(record.client_id.load(), 1234u);
    EXPECT_EQ(record.process.load(), 22ull << 32 | 11);
    EXPECT_EQ(record.budget_bytes.load(), 33u);
    EXPECT_EQ(record.attached_unix_ns.load(), 44u);
    EXPECT_STREQ(reinterpret_cast<const char*>(record.label), "engine");
    EXPECT_EQ(a.Scan(), (std::vector<std::pair<uint16_t, uint64_t>>{{7, a.Lease(3).bits()},
                                                                    {7, a.Lease(4).bits()}}));
    EXPECT_TRUE(a.areas->dropped().empty());
    a.Reopen();
  }
  a.areas->DropClient(ClientSlot(7));
  EXPECT_TRUE(a.Scan().empty());
  a.Reopen();
  EXPECT_TRUE(a.areas->Clients().empty());
}

TEST(LeaseAreas, ALongLabelIsCut) {
  Areas a;
  ASSERT_TRUE(a.Add(0, 1, std::string(200, 'x')).ok());
  a.Reopen();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(a.areas->Record(ClientSlot(0)).label)),
            std::string(layout::kLabelBytes - 1, 'x'));
}

TEST(LeaseAreas, BlocksOfTheDeadAreZeroedForTheNext) {
  Areas a;
  ASSERT_TRUE(a.Add(1, 5).ok());
  const auto blocks = a.areas->Blocks(ClientSlot(1));
  for (uint64_t i = 0; i < layout::kLeaseSlotsPerBlock; ++i) a.Fill(1, i, a.Lease(1));
  a.Header(1).touches[9].store(77);
  a.areas->DropClient(ClientSlot(1));
  a.areas->DropClient(ClientSlot(1));  // nothing
  ASSERT_TRUE(a.Add(2, 6).ok());
  EXPECT_EQ(a.areas->Blocks(ClientSlot(2)).size(), 2u);
  for (const uint64_t offset : a.areas->Blocks(ClientSlot(2))) {
    EXPECT_TRUE(offset == blocks[0] || offset == blocks[1]);
    for (uint64_t i = 0; i < layout::kLeaseBlockBytes; i += 8) {
      ASSERT_EQ(a.test.pool().Word(offset + i).load(), 0u);
    }
  }
  EXPECT_EQ(a.areas->bytes(), layout::kUnitBytes);
}

TEST(LeaseAreas, NothingThatAClientWritesLeadsOutside) {
  Areas a;
  ASSERT_TRUE(a.Add(1, 5).ok());
  ASSERT_TRUE(a.Add(2, 6).ok());
  for (const uint64_t beyond : {4'097ull, 12'288ull, 1ull << 40, ~0ull}) {
    a.Header(1).slots_high.store(beyond);
    EXPECT_TRUE(a.Scan().empty()) << beyond;
  }
  a.Fill(1, 0, SlotWord(~0ull));
  a.Fill(1, 1, SlotWord::Make(RecordNumber(0), Generation(1), SlotWord::Kind::kPin));
  a.Fill(1, 2, SlotWord::Make(RecordNumber(1 << 20), Generation(1), SlotWord::Kind::kPin));
  a.Fill(1, 3, a.Lease(0, 0));
  a.Fill(1, 4095, a.Lease(9, layout::kGenerationMax));
  const auto met = a.Scan();
  ASSERT_EQ(met.size(), 1u);
  EXPECT_EQ(met[0].second, a.Lease(9, layout::kGenerationMax).bits());
  EXPECT_EQ(a.areas->ReadCounts(ClientSlot(1)).leases, 1u);

  a.Header(1).touch_head.store(~0ull);
  for (auto& touch : a.Header(1).touches) touch.store(0xFFFFFFFF);
  a.Header(1).touches[17].store(a.first.value());
  EXPECT_EQ(a.Drain(1), std::vector{a.first.value()});
  a.Header(1).touch_head.store(3);
  EXPECT_TRUE(a.Drain(1).empty());
  a.Header(1).touch_head.store(18);
  EXPECT_EQ(a.Drain(1), std::vector{a.first.value()});
}

TEST(LeaseAreas, TouchesDoNotComeAgainWithTheNextServer) {
  Areas a;
  ASSERT_TRUE(a.Add(1, 5).ok());
  a.Header(1).touches[0].store(a.first.value());
  a.Header(1).touch_head.store(1);
  EXPECT_EQ(a.Drain(1), std::vector{a.first.value()});
  a.Reopen();
  EXPECT_TRUE(a.Drain(1).empty());
  a.Header(1).touches[1].store(a.first.value() + 1);
  a.Header(1).touch_head.store(2);
  EXPECT_EQ(a.Drain(1), std::vector{a.first.value() + 1});
}

TEST(LeaseAreas, TouchesComeOnceAndInOrder) {
  Areas a;
  ASSERT_TRUE(a.Add(1, 5).ok());
  uint64_t head = 0;
  const auto touch = [&](uint32_t page) {
    a.Header(1).touches[head++ % layout::kTouchRingEntries].store(a.first.value() + page);
    a.Header(1).touch_head.store(head);
  };
  touch(1);
  touch(2);
  touch(1);
  const uint32_t f = a.first.value();
  EXPECT_EQ(a.Drain(1), (std::vector{f + 1, f + 2, f + 1}));
  EXPECT_TRUE(a.Drain(1).empty());
  for (uint32_t i = 0; i < layout::kTouchRingEntries + 10; ++i) touch(i % 50);
  const auto touched = a.Drain(1);
  ASSERT_EQ(touched.size(), layout::kTouchRingEntries);
  EXPECT_EQ(touched.front(), f + 10);
}

TEST(LeaseAreas, CountsAreWhatTheClientSays) {
  Areas a;
  ASSERT_TRUE(a.Add(1, 5).ok());
  a.Header(1).free_pages.store(1);
  a.Header(1).pending_pages.store(2);
  a.Header(1).held_pages.store(3);
  a.Header(1).last_request.store(4);
  a.Fill(1, 0, a.Lease(0));
  a.Fill(1, 1, a.Lease(1));
  a.Fill(1, 2, SlotWord::Make(a.first, Generation(1), SlotWord::Kind::kPin));
  const LeaseAreas::Counts counts = a.areas->ReadCounts(ClientSlot(1));
  EXPECT_EQ(counts.free_pages, 1u);
  EXPECT_EQ(counts.pending_pages, 2u);
  EXPECT_EQ(counts.held_pages, 3u);
  EXPECT_EQ(counts.last_request, 4u);
  EXPECT_EQ(counts.leases, 2u);
  EXPECT_EQ(counts.pins, 1u);
  EXPECT_EQ(a.areas->ReadCounts(ClientSlot(9)).leases, 0u);
}

TEST(LeaseAreas, AFullPoolRefusesClientsAndBlocksWhole) {
  Areas a;
  ASSERT_TRUE(a.Add(0, 1).ok());
  uint64_t added = 0;
  while (a.areas->AddBlock(ClientSlot(0)).ok()) ++added;
  EXPECT_EQ(a.test.pool().free_bytes(), 0u);
  EXPECT_EQ(a.areas->Blocks(ClientSlot(0)).size(), added + 2);
  EXPECT_EQ(a.Add(1, 2).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(a.areas->Clients().size(), 1u);
  a.areas->DropClient(ClientSlot(0));
  // One block short of two: the one that was taken comes back.
  ASSERT_TRUE(a.Add(0, 3).ok());
  for (uint64_t i = 0; i + 1 < added; ++i) ASSERT_TRUE(a.areas->AddBlock(ClientSlot(0)).ok());
  EXPECT_EQ(a.Add(1, 4).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(a.areas->Record(ClientSlot(1)).client_id.load(), 0u);
  EXPECT_TRUE(a.areas->AddBlock(ClientSlot(0)).ok());
}

TEST(LeaseAreas, AClientHasANamedMaximumOfBlocks) {
  TestPool pool({.pool_bytes = 72 * layout::kUnitBytes});
  auto areas = LeaseAreas::Open(pool.base(), pool.bytes(), &pool).value();
  ASSERT_TRUE(areas->AddClient(ClientSlot(0), {.id = ClientId(1)}).ok());
  for (uint32_t i = 2; i < layout::kLeaseBlocksPerClientMax; ++i) {
    ASSERT_TRUE(areas->AddBlock(ClientSlot(0)).ok());
  }
  const Result<uint64_t> refused = areas->AddBlock(ClientSlot(0));
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("16777216 leases"), std::string_view::npos);
  areas = LeaseAreas::Open(pool.base(), pool.bytes(), &pool).value();
  EXPECT_EQ(areas->Blocks(ClientSlot(0)).size(), layout::kLeaseBlocksPerClientMax);
  EXPECT_TRUE(areas->dropped().empty());
}

TEST(LeaseAreas, DamagedDirectoriesAreDroppedAndTold) {
  Areas a;
  ASSERT_TRUE(a.Add(1, 5).ok());
  ASSERT_TRUE(a.areas->AddBlock(ClientSlot(1)).ok());
  const uint64_t unit = AlignDown(a.areas->Blocks(ClientSlot(1))[0], layout::kUnitBytes);
  auto& owners = a.test.pool().At<layout::LeaseDirectory>(unit)->owners;
  owners[20].store(layout::BlockOwner::Make(5, 1, 1).bits());     // twice
  owners[21].store(layout::BlockOwner::Make(5, 1, 9).bits());     // behind a gap
  owners[22].store(layout::BlockOwner::Make(5, 2000, 0).bits());  // no such slot
  owners[23].store(layout::BlockOwner::Make(0, 1, 3).bits());     // no client
  owners[24].store(layout::BlockOwner::Make(6, 1, 3).bits());     // left by a crash: not told
  owners[25].store(layout::BlockOwner::Make(6, 3, 0).bits());     // left by a crash: not told
  a.Reopen();
  EXPECT_EQ(a.areas->dropped().size(), 4u);
  EXPECT_EQ(a.areas->Blocks(ClientSlot(1)).size(), 3u);
  for (int i = 20; i < 26; ++i) EXPECT_EQ(owners[i].load(), 0u) << i;
  a.Reopen();
  EXPECT_TRUE(a.areas->dropped().empty());
}

TEST(LeaseAreas, AnImpossibleClientRecordIsRefused) {
  Areas a;
  ASSERT_TRUE(a.Add(1, 5).ok());
  a.test.pool()
      .At<layout::ClientRecord>(layout::kClientTableOffset + 128)
      ->client_id.store(1ull << 32);
  const auto opened = LeaseAreas::Open(a.test.pool().base(), a.test.pool().bytes(), &a.test.pool());
  EXPECT_EQ(opened.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(opened.status().message().find("client slot 1"), std::string_view::npos);
}

class Crash {};

// At each point, at each of its passings: no client or a whole one, and no block is lost.
TEST(LeaseAreas, ACrashAnywhereLeavesNoClientOrAWholeOne) {
  std::map<std::string, int> passings;
  size_t whole = 0;  // blocks that the client has if it is there at all; 1: it is being dropped
  const auto scenario = [&whole](Areas& a) {
    for (const uint32_t id : {5, 6}) {
      whole = 2;
      MARU_CHECK_OK(a.Add(1, id));
      MARU_CHECK_OK(a.areas->AddBlock(ClientSlot(1)).status());
      whole = 1;
      a.areas->DropClient(ClientSlot(1));
    }
  };
  {
    Areas a;
    const ScopedHook hook([&](std::string_view name) {
      ++passings[std::string(name)];
      // In the table as long as a block is its own.
      if (name == points::kBlockUnnamed) {
        EXPECT_NE(a.areas->Record(ClientSlot(1)).client_id.load(), 0u);
      }
    });
    scenario(a);
  }
  for (const std::string_view name : points::kAllOfLeaseAreas) {
    ASSERT_GT(passings[std::string(name)], 0) << name;
    for (int at = 1; at <= passings[std::string(name)]; ++at) {
      SCOPED_TRACE(std::string(name) + " passing " + std::to_string(at));
      Areas a;
      int passed = 0;
      {
        const ScopedHook hook(name, [&] {
          if (++passed == at) throw Crash();
        });
        EXPECT_THROW(scenario(a), Crash);
      }
      a.Reopen();
      EXPECT_TRUE(a.areas->dropped().empty());
      for (const ClientSlot slot : a.areas->Clients()) {
        EXPECT_EQ(slot, ClientSlot(1));
        EXPECT_GE(a.areas->Blocks(slot).size(), whole);
        EXPECT_NE(a.areas->Record(slot).client_id.load(), 0u);
        a.areas->DropClient(slot);
      }
      EXPECT_EQ(a.areas->Record(ClientSlot(1)).client_id.load(), 0u);
      // All 63 blocks of the one unit are there.
      ASSERT_TRUE(a.Add(2, 9).ok());
      for (int i = 2; i < 63; ++i) ASSERT_TRUE(a.areas->AddBlock(ClientSlot(2)).ok());
      EXPECT_EQ(a.areas->bytes(), layout::kUnitBytes);
    }
  }
}

}  // namespace
}  // namespace maru::catalogue
