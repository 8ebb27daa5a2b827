// A client's lease area as a client that went wrong may leave it, and the directory beside it: the
// server scans, drains, reads counts and opens it again. Nothing that is found there leads outside.
// The input is a list of steps, one byte what and the rest as the step needs it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/check.h"
#include "catalogue/lease_areas.h"
#include "catalogue/test_writer.h"

namespace {

using maru::ByteReader;
using maru::ClientId;
using maru::ClientSlot;
using maru::RecordNumber;
using maru::catalogue::LeaseAreas;
using maru::catalogue::TestWriter;
namespace layout = maru::layout;

constexpr uint16_t kClients = 2;
constexpr uint32_t kPages = 100;
constexpr int kStepsMax = 256;

class Rig {
 public:
  Rig() : test_(layout::kPoolBytesMin) {
    first_ = test_.Cut(kPages);
    Open();
    for (uint16_t slot = 0; slot < kClients; ++slot) Add(slot);
  }

  bool Step(ByteReader& input) {
    const uint8_t what = input.U8();
    const ClientSlot slot(what >> 4 & 1);
    switch (what & 7) {
      case 0: Store(slot, input); break;
      case 1: Scan(); break;
      case 2: Drain(slot); break;
      case 3: ReadCounts(slot); break;
      case 4: StoreOwner(input); break;
      case 5: Open(); break;
      case 6: areas_->DropClient(slot); break;
      default: Grow(slot);
    }
    return input.ok();
  }

 private:
  void Open() {
    areas_.reset();
    auto opened = LeaseAreas::Open(test_.pool().base(), test_.pool().bytes(), &test_.pool());
    MARU_CHECK_OK(opened.status());
    areas_ = std::move(*opened);
  }
  void Add(uint16_t slot) {
    (void)areas_->AddClient(ClientSlot(slot), {.id = ClientId(slot + 1u), .label = "fuzz"});
  }
  bool Attached(ClientSlot slot) const { return !areas_->Blocks(slot).empty(); }

  // A word anywhere in the client's blocks.
  void Store(ClientSlot slot, ByteReader& input) {
    const auto blocks = areas_->Blocks(slot);
    const uint64_t word = input.U16();
    const uint64_t value = input.U64();
    if (blocks.empty()) return;
    constexpr uint64_t kWords = layout::kLeaseBlockBytes / sizeof(uint64_t);
    test_.pool().Word(blocks[word / kWords % blocks.size()] + word % kWords * 8).store(value);
  }
  void StoreOwner(ByteReader& input) {
    const uint64_t block = input.U8() % layout::kLeaseBlocksPerUnit;
    const uint64_t value = input.U64();
    for (uint16_t slot = 0; slot < kClients; ++slot) {
      const auto blocks = areas_->Blocks(ClientSlot(slot));
      if (blocks.empty()) continue;
      const uint64_t unit = maru::AlignDown(blocks[0], layout::kUnitBytes);
      test_.pool().At<layout::LeaseDirectory>(unit)->owners[block].store(value);
      return Open();
    }
  }

  void CheckRecord(RecordNumber record) {
    MARU_CHECK(test_.pool().view().Record(record) != nullptr) << "record " << record;
  }
  void Scan() {
    uint64_t met = 0, room = 0;
    areas_->Scan([&](ClientSlot slot, layout::SlotWord word) {
      MARU_CHECK(Attached(slot));
      CheckRecord(word.record());
      MARU_CHECK(word.generation().value() != 0);
      ++met;
    });
    for (const ClientSlot slot : areas_->Clients()) {
      room += (areas_->Blocks(slot).size() - 1) * layout::kLeaseSlotsPerBlock;
    }
    MARU_CHECK_LE(met, room);
  }
  void Drain(ClientSlot slot) {
    uint64_t touches = 0;
    areas_->DrainTouches(slot, [&](RecordNumber record) {
      CheckRecord(record);
      ++touches;
    });
    MARU_CHECK_LE(touches, layout::kTouchRingEntries);
  }
  void ReadCounts(ClientSlot slot) {
    const LeaseAreas::Counts counts = areas_->ReadCounts(slot);
    MARU_CHECK_LE(counts.leases + counts.pins,
                  areas_->Blocks(slot).size() * layout::kLeaseSlotsPerBlock);
  }
  void Grow(ClientSlot slot) {
    if (Attached(slot)) {
      (void)areas_->AddBlock(slot);
    } else if (areas_->Record(slot).client_id.load() == 0) {
      Add(slot.value());
    }
  }

  TestWriter test_;
  RecordNumber first_{0};
  std::unique_ptr<LeaseAreas> areas_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader input(std::as_bytes(std::span(data, size)));
  Rig rig;
  for (int step = 0; step < kStepsMax && input.remaining() > 0 && rig.Step(input); ++step) continue;
  return 0;
}
