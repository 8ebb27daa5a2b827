// For tests: a pool in memory with a writer on it that can be killed and opened again, as the
// server does it.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "catalogue/key.h"
#include "catalogue/test_pool.h"
#include "catalogue/writer.h"

namespace maru::catalogue {

// Zeroed memory for a pool, touched only where it is used: a large pool costs little.
class LazyMemory {
 public:
  static constexpr uint64_t kAlignBytes = 4096;
  explicit LazyMemory(uint64_t bytes) : room_(std::calloc(1, bytes + kAlignBytes), &std::free) {
    MARU_CHECK(room_ != nullptr);
  }
  std::byte* data() const {
    const auto address = reinterpret_cast<uintptr_t>(room_.get());
    return static_cast<std::byte*>(room_.get()) + (AlignUp(address, kAlignBytes) - address);
  }

 private:
  std::unique_ptr<void, void (*)(void*)> room_;
};

class TestWriter {
 public:
  static constexpr uint64_t kPageBytes = 512;

  explicit TestWriter(uint64_t pool_bytes)
      : memory_(pool_bytes), pool_({.pool_bytes = pool_bytes, .memory = memory_.data()}) {
    Reopen();
  }

  TestPool& pool() { return pool_; }
  Writer& writer() { return *writer_; }
  Writer* operator->() { return writer_.get(); }
  const RecoverySummary& summary() const { return summary_; }

  // The writer's process ends, in order or not, and the next one starts.
  Status TryOpen(Damage damage = Damage::kRefuse) {
    writer_.reset();
    summary_ = {};
    auto opened = Writer::Open(pool_.base(), pool_.bytes(), &pool_, &summary_, {.damage = damage});
    if (!opened.ok()) return opened.status();
    writer_ = std::move(*opened);
    return OkStatus();
  }
  void Reopen() { MARU_CHECK_OK(TryOpen()); }

  // A region of FREE pages, in the pool's order: numbers, region, then records.
  RecordNumber Cut(uint32_t count) {
    Result<RecordNumber> first = writer_->AllocateRecords(count);
    MARU_CHECK_OK(first.status());
    auto room = pool_.CarvePages(kPageBytes, count, *first);
    MARU_CHECK_OK(room.status());
    writer_->BindRecords(*first, count, room->slot);
    return *first;
  }

  // The record GRANTED to client 1, then LIVE under that key.
  Status Put(RecordNumber record, const KeyRef& key, uint64_t length_bytes = 1) {
    Generation generation;
    MARU_CHECK(writer_->Grant(record, ClientSlot(1), &generation));
    const Status registered = writer_->Register(
        record, key,
        {.length_bytes = length_bytes, .checksum = 7, .owner = ClientId(3), .last_use = 5});
    if (!registered.ok()) writer_->GiveBack(record);
    return registered;
  }
  RegionSlot CutClient(uint64_t length_bytes) {
    auto room = pool_.CarveClientCut(length_bytes);
    MARU_CHECK_OK(room.status());
    return room->slot;
  }
  bool IsExtent(RecordNumber record) {
    const uint64_t slot = pool_.Record(record).region_slot.load();
    const layout::RegionRecord& region = pool_.Region(RegionSlot(static_cast<uint32_t>(slot)));
    return layout::RegionWord(region.word.load()).kind() == layout::RegionKind::kClientCut;
  }
  // LIVE to FREE, or to ABSENT.
  void Delete(RecordNumber record) {
    writer_->Retire(record);
    writer_->Condemn(record);
    if (IsExtent(record)) return writer_->FreeExtent(record);
    writer_->Free(record);
  }

  // What CheckIndex finds, as text; empty when all is well.
  std::string Audit() const {
    std::vector<Writer::Offender> offenders;
    const uint64_t found = writer_->CheckIndex(&offenders, 8);
    std::string text;
    for (const Writer::Offender& offender : offenders) {
      text += std::to_string(offender.record.value()) + ": " + offender.what + "\n";
    }
    if (found > 0 && text.empty()) text = "offenders without a name";
    return text;
  }

 private:
  LazyMemory memory_;
  TestPool pool_;
  RecoverySummary summary_;
  std::unique_ptr<Writer> writer_;
};

// Key number i: a text of its own, of a length between 8 and 100 bytes.
inline std::string NumberedKey(uint64_t i) {
  std::string text = "key:" + std::to_string(i) + ":";
  text.append(i * 7 % 90, static_cast<char>('a' + i % 26));
  return text;
}

}  // namespace maru::catalogue
