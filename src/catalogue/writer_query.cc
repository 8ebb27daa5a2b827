// The parts of Writer that change no state: look-ups, the server's own fields, figures.
#include "base/check.h"
#include "catalogue/key_text.h"
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

bool Keyed(StateWord word) {
  return word.state() == PageState::kLive || word.state() == PageState::kRetiring;
}

}  // namespace

bool Writer::Lookup(const KeyRef& key, Hit* out) const {
  return impl_->index.FindMatch(key.hash, [&](RecordNumber record) {
    const PageRecord& page = impl_->Page(record);
    const StateWord word = Word(page);
    if (!Keyed(word) || !SameText(impl_->memory, page, key)) return false;
    *out = {record, word};
    return true;
  });
}

Writer::StoredKey Writer::KeyOf(RecordNumber record) const {
  const PageRecord& page = impl_->Page(record);
  MARU_CHECK(Keyed(Word(page))) << "record " << record << " has no key";
  const TextParts text = TextOf(impl_->memory, page);
  return {text.name_space, text.key};
}

std::optional<Writer::StoredKey> Writer::ReadKey(RecordNumber record) const {
  const PageRecord& page = impl_->Page(record);
  const uint64_t packed = page.key_sizes.load(std::memory_order_relaxed);
  if (!Keyed(Word(page)) || !layout::KeySizes::Valid(packed)) return std::nullopt;
  const uint64_t text_bytes = layout::KeySizes::Unpack(packed).text_bytes();
  if (!impl_->text.Holds(page.text_offset.load(std::memory_order_relaxed), text_bytes)) {
    return std::nullopt;
  }
  const TextParts text = TextOf(impl_->memory, page);
  return StoredKey{text.name_space, text.key};
}

void Writer::SetLastUse(RecordNumber record, uint64_t tick) {
  impl_->Page(record).last_use.store(tick, std::memory_order_relaxed);
}

void Writer::SetGlobalPins(RecordNumber record, uint64_t pins) {
  PageRecord& page = impl_->Page(record);
  MARU_CHECK(Keyed(Word(page))) << "record " << record << " has no key";
  page.global_pins.store(pins, std::memory_order_relaxed);
}

void Writer::SetHoldUntil(RecordNumber record, uint64_t unix_ns) {
  PageRecord& page = impl_->Page(record);
  const StateWord word = Word(page);
  MARU_CHECK(Keyed(word) || word.state() == PageState::kCondemned)
      << "record " << record << " has and had no key";
  page.hold_until_unix_ns.store(unix_ns, std::memory_order_relaxed);
}

void Writer::Prefetch(const KeyRef& key) const { impl_->index.Prefetch(key.hash); }

bool Writer::AdvanceGrowth() { return impl_->index.Advance(IndexWriter::Pace::kIdle); }

uint64_t Writer::index_slots() const {
  return impl_->index.current().capacity() + impl_->index.old().capacity();
}

bool Writer::carving() const { return impl_->index.carving(); }

Writer::Usage Writer::usage() const {
  const IndexTable& current = impl_->index.current();
  const IndexTable& old = impl_->index.old();
  Usage usage;
  usage.records_bytes = impl_->runs.chunk_bytes();
  usage.text_bytes = impl_->text.region_bytes();
  usage.text_bytes_used = impl_->text.used_bytes();
  usage.index_bytes = impl_->index.bytes();
  usage.index_entries = current.entries() + old.entries();
  usage.index_capacity = current.capacity();
  usage.tombstones = current.tombstones();
  usage.heap_bytes = sizeof(Impl) + impl_->runs.heap_bytes() + impl_->text.heap_bytes() +
                     impl_->index.heap_bytes();
  usage.growing = impl_->index.growing();
  return usage;
}

}  // namespace maru::catalogue
