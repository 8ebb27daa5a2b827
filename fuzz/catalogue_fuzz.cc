// A reader's pool in which any word of the catalogue is what the input says. Whatever stands there,
// a lookup ends, reads nothing outside the pool (the address sanitizer watches), and what it finds
// is under the key asked for.
//
// The input is a row of stores: a place (u8), an index within it (u8), the value (u64).
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "catalogue/leases.h"
#include "catalogue/reader.h"
#include "catalogue/test_catalogue.h"

namespace {

using namespace maru;             // NOLINT
using namespace maru::catalogue;  // NOLINT

constexpr uint32_t kKeys = 4;
constexpr std::size_t kStoresMax = 64;
constexpr uint64_t kTextBytesEach = 64;

class FuzzedPool {
 public:
  FuzzedPool()
      : catalogue_(&pool_, MakeOptions()),
        leases_(pool_.view(), catalogue_.Header(ClientSlot(0)), catalogue_.Blocks(ClientSlot(0))) {
    for (uint32_t i = 0; i < kKeys; ++i) {
      // Neighbours in the index, two and two with one tag.
      KeyRef key = MakeKeyRef(name_space_, texts_[i]);
      key.hash = {i / 2, uint64_t{1 + i % 2} << 32 | i};
      keys_.push_back(key);
      catalogue_.Put(RecordNumber(1 + i), key, 100 + i);
    }
    const layout::PageRecord& first = catalogue_.Record(RecordNumber(1));
    records_offset_ = OffsetOf(&first);
    text_offset_ = first.text_offset.load();
    for (uint8_t table : {0, 1}) tables_offset_[table] = OffsetOf(catalogue_.Table(table));
  }

  // Stores what the input says, and puts everything back afterwards.
  void Run(std::span<const std::byte> input) {
    ByteReader reader(input);
    std::map<uint64_t, uint64_t> before;  // by offset
    for (std::size_t stores = 0; stores < kStoresMax && reader.remaining() >= 10; ++stores) {
      const uint8_t place = reader.U8();
      const uint64_t offset = PlaceOf(place, reader.U8());
      const uint64_t value = reader.U64();
      before.emplace(offset, pool_.Word(offset).load());
      pool_.Word(offset).store(value);
    }
    Look();
    for (const auto& [offset, value] : before) pool_.Word(offset).store(value);
  }

 private:
  static TestCatalogue::Options MakeOptions() {
    TestCatalogue::Options options;
    options.pages = 8;
    options.text_bytes_each = kTextBytesEach;
    options.tables = 2;
    return options;
  }

  uint64_t OffsetOf(const void* at) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(at) - pool_.base());
  }

  // The places that a reader reads.
  uint64_t PlaceOf(uint8_t place, uint8_t index) const {
    switch (place % 8) {
      case 0: return OffsetOf(&pool_.root().table_word);
      case 1: return OffsetOf(&pool_.root().tables[index % 3]);
      case 2: return tables_offset_[0] + index % 16 * 8;
      case 3: return tables_offset_[1] + index % 16 * 8;
      case 4: return records_offset_ + index % 128 * 8;
      case 5: return text_offset_ + index % (kKeys * kTextBytesEach / 8) * 8;
      case 6: return layout::kRegionTableOffset + index % 192 * 8;
      default: return layout::kRecordDirectoryOffset + index % 2 * 8;
    }
  }

  void Look() {
    const Reader reader(pool_.view());
    std::vector<FindVerdict> verdicts(kKeys);
    std::vector<Found> found(kKeys);
    reader.FindBatch(keys_, verdicts, found);
    for (uint32_t i = 0; i < kKeys; ++i) {
      Found alone;
      const FindVerdict verdict = reader.Find(keys_[i], &alone);
      MARU_CHECK_EQ(verdict, verdicts[i]);
      if (verdict != FindVerdict::kLive && verdict != FindVerdict::kRetiring) continue;
      MARU_CHECK_EQ(alone.record, found[i].record);
      Judge(keys_[i], verdict, alone);
      Lease(alone, verdict);
    }
    MARU_CHECK_EQ(leases_.slots_in_use(), 0u);
    for (uint32_t record = 0; record < 10; ++record) JudgePage(RecordNumber(record));
  }

  // Reads the record as plainly as can be.
  void Judge(const KeyRef& key, FindVerdict verdict, const Found& found) const {
    const layout::PageRecord* record = pool_.view().Record(found.record);
    MARU_CHECK(record != nullptr);
    const layout::StateWord state(record->state_word.load());
    MARU_CHECK(state.Valid());
    MARU_CHECK_EQ(state.state() == layout::PageState::kLive, verdict == FindVerdict::kLive);
    MARU_CHECK_EQ(state.generation(), found.generation);
    MARU_CHECK_EQ(record->length_bytes.load(), found.length_bytes);
    const std::string text = std::string(key.name_space) + std::string(key.key);
    MARU_CHECK_EQ(record->key_sizes.load() & 0xFFFFFFFF, key.key.size());
    const uint64_t offset = record->text_offset.load();
    MARU_CHECK(pool_.view().InBounds(offset, text.size()));
    MARU_CHECK(std::memcmp(pool_.base() + offset, text.data(), text.size()) == 0);
  }

  void Lease(const Found& found, FindVerdict verdict) {
    const LeaseOutcome outcome = leases_.Acquire(found.record, found.generation);
    if (verdict == FindVerdict::kLive) {
      MARU_CHECK_EQ(outcome, LeaseOutcome::kHeld);
      leases_.Release(found.record, found.generation);
    } else {
      MARU_CHECK_EQ(outcome, LeaseOutcome::kRetiring);
      leases_.Confirm(found.record, found.generation, Leases::What::kLease,
                      Leases::Server::kSaysGone);
    }
  }

  void JudgePage(RecordNumber record) const {
    PoolView::PageExtent extent;
    if (!pool_.view().Page(record, &extent)) return;
    MARU_CHECK(pool_.view().InBounds(extent.offset_bytes, extent.page_bytes));
    MARU_CHECK(IsAligned(extent.offset_bytes, layout::kPageAlignBytes));
  }

  const Namespace name_space_{"team-a"};
  const std::string texts_[kKeys] = {"a key of some length", "another of them", "b", "the last"};
  std::vector<KeyRef> keys_;
  TestPool pool_;
  TestCatalogue catalogue_;
  Leases leases_;
  // Where things were before any word was changed.
  uint64_t tables_offset_[2] = {};
  uint64_t records_offset_ = 0;
  uint64_t text_offset_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static FuzzedPool* const pool = new FuzzedPool;
  pool->Run(std::as_bytes(std::span(data, size)));
  return 0;
}
