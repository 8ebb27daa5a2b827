#include "catalogue/reader.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "base/prefetch.h"
#include "base/sequence_point.h"
#include "layout/state_word.h"

namespace maru::catalogue {

namespace {

using layout::IndexEntry;
using layout::kTextGranuleBytes;
using layout::PageRecord;
using layout::PageState;
using layout::StateWord;
using layout::TableWord;

// How often one record is read again while its state word changes underfoot.
constexpr int kRecordReadsMax = 8;
// Keys whose cache misses FindBatch overlaps.
constexpr std::size_t kBatchGroup = 32;
constexpr uint64_t kCacheLineBytes = 64;
constexpr uint64_t kTextLinesPrefetchedMax = 4;

struct Table {
  const std::atomic<uint64_t>* entries = nullptr;
  uint64_t count = 0;  // a power of two, or 0: no table
};

// The tables that a table word names: first the old one, then the current one.
struct Tables {
  uint64_t word = 0;
  std::array<Table, 2> in_order;

  // What a key is that is in neither. Without a current table nothing can be said: the server is
  // building an index and had no room for it beside the old one.
  FindVerdict absent() const {
    return in_order[1].count == 0 ? FindVerdict::kAskServer : FindVerdict::kMiss;
  }
};

Table OpenTable(const PoolView& view, uint8_t number) {
  if (number >= layout::kIndexTables) return {};
  // Acquire, with the writer's release: a descriptor is stored before a table word names it.
  const layout::TableDescriptor descriptor(
      view.root().tables[number].load(std::memory_order_acquire));
  if (!descriptor.Valid(view.bytes())) return {};
  return {view.At<std::atomic<uint64_t>>(descriptor.offset_bytes()),
          uint64_t{1} << descriptor.entries_log2()};
}

Tables OpenTables(const PoolView& view) {
  Tables tables;
  // Acquire, with the writer's seq_cst store of the table word: what a table holds when it is
  // published is seen by who reads its name.
  tables.word = view.root().table_word.load(std::memory_order_acquire);
  const TableWord word(tables.word);
  tables.in_order = {OpenTable(view, word.old_table()), OpenTable(view, word.current())};
  return tables;
}

// Seq_cst, with the writer's seq_cst store: a table is cleared only after its successor was
// published, so who has met a cleared entry sees another word here.
bool TablesUnchanged(const PoolView& view, const Tables& tables) {
  return view.root().table_word.load(std::memory_order_seq_cst) == tables.word;
}

// The 8 bytes from `at` on of the text that is `key`'s namespace followed by its key, zeros behind
// its end.
uint64_t KeyWordAcross(const KeyRef& key, std::size_t at) {
  std::array<char, kTextGranuleBytes> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t from = at + i;
    if (from < key.name_space.size()) {
      bytes[i] = key.name_space[from];
    } else if (from - key.name_space.size() < key.key.size()) {
      bytes[i] = key.key[from - key.name_space.size()];
    }
  }
  uint64_t word;
  std::memcpy(&word, bytes.data(), sizeof(word));
  return word;
}

// Its last `rest` bytes, 1 to 7 of them, as KeyWordAcross gives them.
uint64_t KeyWordLast(const KeyRef& key, std::size_t rest) {
  if (key.key.size() < kTextGranuleBytes) [[unlikely]] {
    return KeyWordAcross(key, key.name_space.size() + key.key.size() - rest);
  }
  uint64_t word;
  std::memcpy(&word, key.key.data() + key.key.size() - sizeof(word), sizeof(word));
  return word >> 8 * (kTextGranuleBytes - rest);
}

// Compares the text at an offset with namespace and key, without copying it. The hashes are equal
// already, so the texts nearly always are: no branch for each word, which lets the processor go on
// with what comes after while the lines of the text are on their way.
bool TextMatches(const PoolView& view, uint64_t text_offset, const KeyRef& key) {
  const std::size_t prefix = key.name_space.size();
  const std::size_t length = prefix + key.key.size();
  if (length == 0) return true;
  if (!IsAligned(text_offset, kTextGranuleBytes)) return false;
  if (!view.InBounds(text_offset, AlignUp(length, kTextGranuleBytes))) return false;
  const auto* word = view.At<std::atomic<uint64_t>>(text_offset);
  // Behind the text's end lies what the block held before.
  const std::size_t rest = length % kTextGranuleBytes;
  const uint64_t rest_mask = (uint64_t{1} << 8 * rest) - 1;
  const std::size_t whole = length - rest;
  // Each load is acquire, with the writer's release stores: who reads a word of a later key reads a
  // later state word afterwards.
  uint64_t different = 0;
  std::size_t at = 0;
  for (; at < prefix && at < whole; at += kTextGranuleBytes, ++word) {
    different |= word->load(std::memory_order_acquire) ^ KeyWordAcross(key, at);
  }
#pragma GCC unroll 4
  for (; at < whole; at += kTextGranuleBytes, ++word) {
    uint64_t wanted;
    std::memcpy(&wanted, key.key.data() + (at - prefix), sizeof(wanted));
    different |= word->load(std::memory_order_acquire) ^ wanted;
  }
  if (rest != 0) {
    different |= (word->load(std::memory_order_acquire) ^ KeyWordLast(key, rest)) & rest_mask;
  }
  return different == 0;
}

// What a record says about a key.
enum class Match : uint8_t {
  kOther = 0,  // not LIVE and not RETIRING, or of another key: the probe goes on
  kLive = 1,
  kRetiring = 2,
  kUnsteady = 3,  // it changed each time that it was read
};

Match CheckRecord(const PoolView& view, RecordNumber number, const KeyRef& key, Found* out) {
  const PageRecord* record = view.Record(number);
  if (record == nullptr) return Match::kOther;
  const uint64_t sizes = layout::KeySizes{static_cast<uint32_t>(key.key.size()),
                                          static_cast<uint16_t>(key.name_space.size())}
                             .Pack();
  for (int reads = 0; reads < kRecordReadsMax; ++reads) {
    // Acquire, with the writer's release store of LIVE, also the reverting one, and its exchange
    // of RETIRING: the key's text and fields are those of this life or of a later one.
    const StateWord state(record->state_word.load(std::memory_order_acquire));
    if (state.state() != PageState::kLive && state.state() != PageState::kRetiring) {
      return Match::kOther;
    }
    if (!state.Valid()) return Match::kOther;
    MARU_SEQUENCE_POINT("find:state-read");

    // Acquire, each with the writer's release store of the same word: see TextMatches.
    const bool same = record->hash_low.load(std::memory_order_acquire) == key.hash.low &&
                      record->hash_high.load(std::memory_order_acquire) == key.hash.high &&
                      record->key_sizes.load(std::memory_order_acquire) == sizes &&
                      TextMatches(view, record->text_offset.load(std::memory_order_acquire), key);
    const uint64_t length_bytes = record->length_bytes.load(std::memory_order_acquire);
    const uint64_t checksum = record->checksum.load(std::memory_order_acquire);
    MARU_SEQUENCE_POINT("find:copied");

    // Unchanged: the words above are of one life. With every store of the state word; text and
    // fields are overwritten only after CONDEMNED.
    if (record->state_word.load(std::memory_order_seq_cst) != state.bits()) continue;
    if (!same) return Match::kOther;
    *out = {number, state.generation(), length_bytes, checksum};
    return state.state() == PageState::kLive ? Match::kLive : Match::kRetiring;
  }
  return Match::kUnsteady;
}

FindVerdict VerdictOf(Match match) {
  switch (match) {
    case Match::kOther: return FindVerdict::kMiss;
    case Match::kLive: return FindVerdict::kLive;
    case Match::kRetiring: return FindVerdict::kRetiring;
    case Match::kUnsteady: return FindVerdict::kAskServer;
  }
  return FindVerdict::kAskServer;
}

// Calls check(record) for each record whose entry has the key's tag, until it returns something
// else than kOther. An empty entry ends the probe, a tombstone does not.
template <typename Check>
Match Probe(const Table& table, const Hash128& hash, const Check& check) {
  if (table.count == 0) return Match::kOther;
  uint64_t at = IndexEntry::Home(hash, table.count);
  for (uint64_t probed = 0; probed < table.count; ++probed) {
    // Acquire, with the writer's release: a moved entry is in the new table before its tombstone
    // is here, and a record is written before its entry.
    const IndexEntry entry(table.entries[at].load(std::memory_order_acquire));
    if (entry.empty()) return Match::kOther;
    if (entry.MatchesTag(hash) && !entry.tombstone()) {
      const Match match = check(entry.record());
      if (match != Match::kOther) return match;
    }
    at = (at + 1) & (table.count - 1);
  }
  return Match::kOther;
}

void PrefetchTextAt(const PoolView& view, uint64_t offset, const KeyRef& key) {
  const uint64_t length = key.name_space.size() + key.key.size();
  if (!view.InBounds(offset, length)) return;
  const uint64_t end =
      std::min(offset + length, offset + kTextLinesPrefetchedMax * kCacheLineBytes);
  for (uint64_t at = AlignDown(offset, kCacheLineBytes); at < end; at += kCacheLineBytes) {
    Prefetch(view.base() + at);
  }
}

// A look-up is three cache misses, each at an address that the one before tells: index entry,
// record, text. The text's is guessed, so that it comes with the record.
Match CheckRecordWithGuess(const PoolView& view, TextPlaces* places, RecordNumber record,
                           const KeyRef& key, Found* out) {
  const uint64_t text_bytes = key.name_space.size() + key.key.size();
  PrefetchTextAt(view, places->Guess(record, text_bytes), key);
  const Match match = CheckRecord(view, record, key, out);
  if (match == Match::kLive) {
    // Acquire as everywhere. By now it may be another life's: a hint.
    const uint64_t offset = view.Record(record)->text_offset.load(std::memory_order_acquire);
    places->Learn(record, text_bytes, offset, key.hash.low);
  }
  return match;
}

Match ProbeTables(const Tables& tables, const PoolView& view, TextPlaces* places, const KeyRef& key,
                  Found* out) {
  for (const Table& table : tables.in_order) {
    const Match match = Probe(table, key.hash, [&](RecordNumber record) {
      return CheckRecordWithGuess(view, places, record, key, out);
    });
    if (match != Match::kOther) return match;
  }
  return Match::kOther;
}

void PrefetchHomes(const Tables& tables, const Hash128& hash) {
  for (const Table& table : tables.in_order) {
    if (table.count != 0) Prefetch(table.entries + IndexEntry::Home(hash, table.count));
  }
}

void PrefetchText(const PoolView& view, const PageRecord& record, const KeyRef& key) {
  // A hint: what is read here is read again and checked. Acquire as everywhere.
  PrefetchTextAt(view, record.text_offset.load(std::memory_order_acquire), key);
}

}  // namespace

FindVerdict Reader::Find(const KeyRef& key, Found* out) const {
  for (int tries = 0; tries < kRetriesMax; ++tries) {
    const Tables tables = OpenTables(view_);
    const Match match = ProbeTables(tables, view_, places_.get(), key, out);
    if (match != Match::kOther) return VerdictOf(match);
    MARU_SEQUENCE_POINT("find:probed");
    if (TablesUnchanged(view_, tables)) return tables.absent();
  }
  return FindVerdict::kAskServer;
}

void Reader::FindBatch(std::span<const KeyRef> keys, std::span<FindVerdict> verdicts,
                       std::span<Found> found) const {
  MARU_CHECK_EQ(keys.size(), verdicts.size());
  MARU_CHECK_EQ(keys.size(), found.size());
  for (std::size_t begin = 0; begin < keys.size(); begin += kBatchGroup) {
    const std::size_t count = std::min(kBatchGroup, keys.size() - begin);
    FindGroup(keys.subspan(begin, count), verdicts.subspan(begin, count),
              found.subspan(begin, count));
  }
}

// Three passes, each of which starts the cache misses of the next; the answers come from the same
// checks in the same order as Find's.
void Reader::FindGroup(std::span<const KeyRef> keys, std::span<FindVerdict> verdicts,
                       std::span<Found> found) const {
  const Tables tables = OpenTables(view_);
  for (const KeyRef& key : keys) PrefetchHomes(tables, key.hash);

  // The first record with the key's tag; 0: none.
  std::array<RecordNumber, kBatchGroup> candidates{};
  std::array<const PageRecord*, kBatchGroup> records{};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (const Table& table : tables.in_order) {
      Probe(table, keys[i].hash, [&](RecordNumber record) {
        candidates[i] = record;
        return record == RecordNumber(0) ? Match::kOther : Match::kLive;
      });
      if (candidates[i] != RecordNumber(0)) break;
    }
    if (candidates[i] == RecordNumber(0)) continue;
    records[i] = view_.Record(candidates[i]);
    if (records[i] != nullptr) Prefetch(records[i]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (records[i] != nullptr) PrefetchText(view_, *records[i], keys[i]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (candidates[i] == RecordNumber(0)) {
      verdicts[i] = tables.absent();
      continue;
    }
    const Match match = CheckRecord(view_, candidates[i], keys[i], &found[i]);
    verdicts[i] = match == Match::kOther ? Find(keys[i], &found[i]) : VerdictOf(match);
  }

  MARU_SEQUENCE_POINT("find:probed");
  if (TablesUnchanged(view_, tables)) return;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (verdicts[i] == tables.absent()) verdicts[i] = Find(keys[i], &found[i]);
  }
}

}  // namespace maru::catalogue
