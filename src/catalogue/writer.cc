#include "catalogue/writer.h"

#include <utility>

#include "base/check.h"
#include "catalogue/key_text.h"
#include "catalogue/publication_points.h"
#include "catalogue/recovery.h"
#include "catalogue/writer_impl.h"

namespace maru::catalogue {

using layout::PageRecord;
using layout::PageState;
using layout::StateWord;

namespace {

// Relaxed: only this thread stores state words.
StateWord Word(const PageRecord& page) {
  return StateWord(page.state_word.load(std::memory_order_relaxed));
}

// Release, with the acquire and seq_cst loads of readers. For LIVE, the reverting store too, it
// carries text and fields; for other states it keeps what follows behind it: a reader that meets a
// later store to text or fields finds this state, or a later one, at its second look.
void StoreWord(PageRecord& page, StateWord word) {
  page.state_word.store(word.bits(), std::memory_order_release);
}

void StoreField(std::atomic<uint64_t>& field, uint64_t value) {
  // Release, with the reader's acquire load: as for text words.
  field.store(value, std::memory_order_release);
}

bool AtLastGeneration(StateWord word) {
  return word.generation().value() >= layout::kGenerationMax;
}

}  // namespace

Writer::Writer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Writer::~Writer() = default;

Result<std::unique_ptr<Writer>> Writer::Open(std::byte* base, uint64_t bytes, SpaceSource* space,
                                             RecoverySummary* summary, const Options& options) {
  auto impl = std::make_unique<Impl>(base, bytes, space, options.index_entries_log2_min);
  Recovery recovery(&impl->memory, &impl->runs, &impl->text, &impl->index, options.damage);
  MARU_RETURN_IF_ERROR(recovery.Run(summary));
  return std::unique_ptr<Writer>(new Writer(std::move(impl)));
}

PageRecord& Writer::Impl::Page(RecordNumber record) const {
  PageRecord* page = memory.Record(record);
  MARU_CHECK(page != nullptr) << "record " << record << " does not exist";
  return *page;
}

StateWord Writer::Impl::Expect(RecordNumber record, const PageRecord& page, PageState state) const {
  const StateWord word = Word(page);
  MARU_CHECK_EQ(word.state(), state) << "record " << record;
  return word;
}

const PoolView& Writer::view() const { return impl_->memory.view(); }

StateWord Writer::State(RecordNumber record) const {
  const PageRecord* page = impl_->memory.Record(record);
  return page == nullptr ? StateWord() : Word(*page);
}

// --- Runs of records.

Result<RecordNumber> Writer::AllocateRecords(uint32_t count) { return impl_->runs.Allocate(count); }

Result<Writer::RecordRun> Writer::AllocateSomeRecords(uint32_t count) {
  MARU_ASSIGN_OR_RETURN(const RecordRuns::Run run, impl_->runs.AllocateSome(count));
  return RecordRun{run.first, run.count};
}

Result<uint32_t> Writer::ExtendRecords(RecordNumber next, uint32_t count) {
  return impl_->runs.Extend(next, count);
}

void Writer::DropRecords(RecordNumber first, uint32_t count) { impl_->runs.Release(first, count); }

void Writer::BindRecords(RecordNumber first, uint32_t count, RegionSlot region) {
  for (uint32_t i = 0; i < count; ++i) {
    const RecordNumber record(first.value() + i);
    PageRecord& page = impl_->Page(record);
    const StateWord word = Word(page);
    // The slot first: who finds the page FREE or later finds it in its region.
    StoreField(page.region_slot, region.value());
    MARU_PUBLICATION_POINT(points::kPageSlot);
    if (word.state() == PageState::kWorn) continue;
    MARU_CHECK_EQ(word.state(), PageState::kAbsent) << "record " << record;
    const Generation generation(word.generation().value() == 0 ? 1 : word.generation().value());
    StoreWord(page, StateWord::Make(PageState::kFree, generation));
    MARU_PUBLICATION_POINT(points::kBound);
  }
}

void Writer::ReleaseRecords(RecordNumber first, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const RecordNumber record(first.value() + i);
    PageRecord& page = impl_->Page(record);
    const StateWord word = Word(page);
    if (word.state() == PageState::kWorn) continue;
    impl_->Expect(record, page, PageState::kFree);
    StoreWord(page, word.With(PageState::kAbsent));
    MARU_PUBLICATION_POINT(points::kReleased);
  }
  impl_->runs.Release(first, count);
}

// --- Grants.

bool Writer::Grant(RecordNumber record, ClientSlot client, Generation* generation) {
  PageRecord& page = impl_->Page(record);
  const StateWord word = Word(page);
  MARU_CHECK(word.state() == PageState::kFree || word.state() == PageState::kQuarantined)
      << "record " << record << " is in state " << word.state();
  MARU_CHECK_LT(client.value(), layout::kClientSlots);
  if (AtLastGeneration(word)) {
    StoreField(page.owner, 0);
    StoreWord(page, word.With(PageState::kWorn));
    MARU_PUBLICATION_POINT(points::kWorn);
    return false;
  }
  *generation = Generation(word.generation().value() + 1);
  StoreWord(page, StateWord::Make(PageState::kGranted, *generation, client));
  MARU_PUBLICATION_POINT(points::kGranted);
  return true;
}

bool Writer::Renew(RecordNumber record, ClientId client, Generation* generation) {
  PageRecord& page = impl_->Page(record);
  const StateWord word = impl_->Expect(record, page, PageState::kGranted);
  if (AtLastGeneration(word)) {
    StoreField(page.owner, client.value());
    StoreWord(page, word.With(PageState::kWorn));
    MARU_PUBLICATION_POINT(points::kWorn);
    return false;
  }
  *generation = Generation(word.generation().value() + 1);
  StoreWord(page, StateWord::Make(PageState::kGranted, *generation, word.client()));
  MARU_PUBLICATION_POINT(points::kRenewed);
  return true;
}

namespace {

// FREE, or WORN in nobody's hands.
void Rest(PageRecord& page, StateWord word) {
  if (AtLastGeneration(word)) StoreField(page.owner, 0);
  StoreWord(page, word.With(AtLastGeneration(word) ? PageState::kWorn : PageState::kFree));
}

}  // namespace

void Writer::GiveBack(RecordNumber record) {
  PageRecord& page = impl_->Page(record);
  Rest(page, impl_->Expect(record, page, PageState::kGranted));
  MARU_PUBLICATION_POINT(points::kGivenBack);
}

void Writer::Quarantine(RecordNumber record) {
  PageRecord& page = impl_->Page(record);
  const StateWord word = impl_->Expect(record, page, PageState::kGranted);
  StoreWord(page, word.With(PageState::kQuarantined));
  MARU_PUBLICATION_POINT(points::kQuarantined);
}

void Writer::EndQuarantine(RecordNumber record) {
  PageRecord& page = impl_->Page(record);
  Rest(page, impl_->Expect(record, page, PageState::kQuarantined));
  MARU_PUBLICATION_POINT(points::kQuarantineEnded);
}

// --- Birth and death of a key.

Status Writer::Impl::GiveKey(RecordNumber record, const KeyRef& key, const Fields& fields,
                             Place place, StateWord live) {
  PageRecord& page = Page(record);
  index.Advance(IndexWriter::Pace::kInsert);
  MARU_ASSIGN_OR_RETURN(const uint64_t slot, index.Place(key.hash));
  const uint64_t text_bytes = key.name_space.size() + key.key.size();
  MARU_ASSIGN_OR_RETURN(const uint64_t text_offset, text.Allocate(text_bytes));

  StoreText(memory.Words(text_offset), key.name_space, key.key);
  MARU_PUBLICATION_POINT(points::kText);
  const layout::KeySizes sizes{static_cast<uint32_t>(key.key.size()),
                               static_cast<uint16_t>(key.name_space.size())};
  StoreField(page.hash_low, key.hash.low);
  StoreField(page.hash_high, key.hash.high);
  StoreField(page.text_offset, text_offset);
  StoreField(page.key_sizes, sizes.Pack());
  StoreField(page.length_bytes, fields.length_bytes);
  StoreField(page.checksum, fields.checksum);
  StoreField(page.extent_offset_bytes, fields.extent_offset_bytes);
  if (place == Place::kExtent) {
    StoreField(page.region_slot, fields.region.value());
    MARU_PUBLICATION_POINT(points::kExtentPlaced);
  }
  // The server's own, read by nobody beside it but for show: relaxed.
  page.last_use.store(fields.last_use, std::memory_order_relaxed);
  page.owner.store(fields.owner.value(), std::memory_order_relaxed);
  page.global_pins.store(0, std::memory_order_relaxed);
  page.hold_until_unix_ns.store(0, std::memory_order_relaxed);
  MARU_PUBLICATION_POINT(points::kFields);
  index.Insert(slot, key.hash, record);
  MARU_PUBLICATION_POINT(points::kIndexed);
  StoreWord(page, live);
  MARU_PUBLICATION_POINT(points::kLive);
  return OkStatus();
}

Status Writer::Register(RecordNumber record, const KeyRef& key, const Birth& birth) {
  const StateWord word = impl_->Expect(record, impl_->Page(record), PageState::kGranted);
  return impl_->GiveKey(record, key,
                        {.length_bytes = birth.length_bytes,
                         .checksum = birth.checksum,
                         .last_use = birth.last_use,
                         .owner = birth.owner},
                        Impl::Place::kPage, StateWord::Make(PageState::kLive, word.generation()));
}

Result<RecordNumber> Writer::RegisterExtent(const KeyRef& key, const ExtentBirth& birth) {
  // Each turn takes a number out of the free ones. A worn one is kept out of them: no page and no
  // extent can use it.
  StateWord word;
  RecordNumber record{0};
  do {
    MARU_ASSIGN_OR_RETURN(record, impl_->runs.Allocate(1));
    word = Word(impl_->Page(record));
    if (word.state() != PageState::kWorn && AtLastGeneration(word)) {
      StoreWord(impl_->Page(record), word.With(PageState::kWorn));
      MARU_PUBLICATION_POINT(points::kWorn);
    }
  } while (word.state() == PageState::kWorn || AtLastGeneration(word));
  MARU_CHECK_EQ(word.state(), PageState::kAbsent) << "record " << record;
  const Generation generation(word.generation().value() + 1);
  const Status given =
      impl_->GiveKey(record, key,
                     {.length_bytes = birth.length_bytes,
                      .last_use = birth.last_use,
                      .extent_offset_bytes = birth.offset_bytes,
                      .region = birth.region},
                     Impl::Place::kExtent, StateWord::Make(PageState::kLive, generation));
  if (given.ok()) return record;
  impl_->runs.Release(record, 1);
  return given;
}

bool Writer::ExtentRecordFree() const { return !impl_->runs.free().empty(); }
bool Writer::TextFits(uint64_t text_bytes) const { return impl_->text.Fits(text_bytes); }
std::vector<uint64_t> Writer::SparsestText(size_t count_max) const {
  return impl_->text.Sparsest(count_max);
}
void Writer::CloseText(uint64_t slab_offset_bytes) { impl_->text.Close(slab_offset_bytes); }
void Writer::OpenText(uint64_t slab_offset_bytes) { impl_->text.Open(slab_offset_bytes); }

void Writer::FreeExtent(RecordNumber record) {
  PageRecord& page = impl_->Page(record);
  const StateWord word = impl_->Expect(record, page, PageState::kCondemned);
  const bool worn = AtLastGeneration(word);
  StoreWord(page, word.With(worn ? PageState::kWorn : PageState::kAbsent));
  MARU_PUBLICATION_POINT(points::kExtentFreed);
  if (!worn) impl_->runs.Release(record, 1);
}

void Writer::Retire(RecordNumber record) {
  PageRecord& page = impl_->Page(record);
  const StateWord word = impl_->Expect(record, page, PageState::kLive);
  // Seq_cst, with the reader's seq_cst exchange of its slot and second look at this word, and with
  // LeaseAreas::Scan: either the reader meets RETIRING, or the scan meets its slot.
  const uint64_t before =
      page.state_word.exchange(word.With(PageState::kRetiring).bits(), std::memory_order_seq_cst);
  MARU_CHECK_EQ(before, word.bits()) << "record " << record << " has another writer";
  MARU_PUBLICATION_POINT(points::kRetiring);
}

void Writer::Revert(RecordNumber record) {
  PageRecord& page = impl_->Page(record);
  const StateWord word = impl_->Expect(record, page, PageState::kRetiring);
  StoreWord(page, word.With(PageState::kLive));
  MARU_PUBLICATION_POINT(points::kReverted);
}

void Writer::Condemn(RecordNumber record) {
  PageRecord& page = impl_->Page(record);
  const StateWord word = impl_->Expect(record, page, PageState::kRetiring);
  StoreWord(page, word.With(PageState::kCondemned));
  MARU_PUBLICATION_POINT(points::kCondemned);
  const Hash128 hash{page.hash_low.load(std::memory_order_relaxed),
                     page.hash_high.load(std::memory_order_relaxed)};
  impl_->index.Remove(hash, record);
  MARU_PUBLICATION_POINT(points::kUnindexed);
  const auto sizes = layout::KeySizes::Unpack(page.key_sizes.load(std::memory_order_relaxed));
  impl_->text.Free(page.text_offset.load(std::memory_order_relaxed), sizes.text_bytes());
  StoreField(page.text_offset, 0);
  MARU_PUBLICATION_POINT(points::kTextFreed);
}

void Writer::Free(RecordNumber record) {
  PageRecord& page = impl_->Page(record);
  Rest(page, impl_->Expect(record, page, PageState::kCondemned));
  MARU_PUBLICATION_POINT(points::kFreed);
}

}  // namespace maru::catalogue
