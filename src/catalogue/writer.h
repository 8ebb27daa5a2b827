// The only code that changes a catalogue: the transitions of a page's state machine, its key text
// and its index entry. One Writer for each pool, in the server, single-threaded; readers in any
// number of processes read beside it (docs/memory_model.md).
//
// Every store that publishes something is followed by a publication point (base/sequence_point.h):
// a crash there must leave a catalogue that Recover() brings back with nothing lost.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "catalogue/key.h"
#include "catalogue/space.h"
#include "catalogue/view.h"
#include "layout/geometry.h"
#include "layout/state_word.h"
#include "maru/result.h"

namespace maru::catalogue {

// What to do with a record that no server leaves behind, also when it is killed.
enum class Damage : uint8_t {
  kRefuse = 0,  // DataLoss names it; the pool is left as it is
  kDrop = 1,    // its page becomes FREE: a pool of an earlier boot that was not closed cleanly
};

struct RecoverySummary {
  uint64_t live = 0;     // with those that were reverted, and the extents among them
  uint64_t extents = 0;  // live in client-cut regions
  uint64_t granted = 0;
  uint64_t reverted = 0;  // RETIRING found and made LIVE again
  uint64_t condemned = 0;
  uint64_t quarantined = 0;
  uint64_t dropped = 0;  // under Damage::kDrop
  uint64_t index_entries = 0;
  uint64_t owner_high = 0;  // the highest client id in a record with a key
};

class IndexCensus;  // index_census.h

class Writer {
 public:
  // REQUIRES: base is the pool mapped read-write, of a valid superblock; the server's lock is held;
  // `space` outlives the writer.
  // Recover: every RETIRING back to LIVE, text room found from the records, a fresh index built in
  // room outside both tables of the table word and published with one store. When a full pool has
  // no such room, the table word names no table meanwhile and readers ask the server.
  // DataLoss names the record, region slot, chunk or table that no server leaves behind;
  // ResourceExhausted: no room at all for an index.
  struct Options {
    Damage damage = Damage::kRefuse;
    // log2 of the entries of the smallest index table, kIndexEntriesLog2Min to ...Max.
    uint32_t index_entries_log2_min = layout::kIndexEntriesLog2Unit;
  };
  static Result<std::unique_ptr<Writer>> Open(std::byte* base, uint64_t bytes, SpaceSource* space,
                                              RecoverySummary* summary, const Options& options);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  const PoolView& view() const;

  // Records for a region of `count` pages: a run of consecutive numbers, carved chunk by chunk.
  // Their generations go on from where they were. REQUIRES: count > 0
  Result<RecordNumber> AllocateRecords(uint32_t count);
  // The same a chunk at a time, for a region that gets its pages little by little: how many there
  // are to begin with, at most `count`; then those from `next` on, 0: somebody else has that one.
  struct RecordRun {
    RecordNumber first{0};
    uint32_t count = 0;
  };
  Result<RecordRun> AllocateSomeRecords(uint32_t count);
  Result<uint32_t> ExtendRecords(RecordNumber next, uint32_t count);
  // REQUIRES: the run was allocated and never bound since.
  void DropRecords(RecordNumber first, uint32_t count);
  // Cuts: makes the run's records FREE pages of that region; WORN ones stay WORN. A record that was
  // never used starts with generation 1 (0 is no generation of a page), its first grant makes it 2.
  // REQUIRES: the run was allocated and is not in use.
  void BindRecords(RecordNumber first, uint32_t count, RegionSlot region);
  // REQUIRES: all pages of the run are FREE or WORN. Their records become ABSENT (WORN stays).
  void ReleaseRecords(RecordNumber first, uint32_t count);

  // ABSENT with generation 0 for a number that has no record.
  layout::StateWord State(RecordNumber record) const;

  // --- Transitions. REQUIRES: the record is in the state named; CHECKed. Where a page would become
  // FREE at its last generation it becomes WORN.

  // FREE or QUARANTINED -> GRANTED(client), generation + 1. False: the page is at its last
  // generation and became WORN instead.
  bool Grant(RecordNumber record, ClientSlot client, Generation* generation);
  // GRANTED -> GRANTED, generation + 1 (duplicate, rejected, settle). False: WORN, no grant. The
  // client may still write there: it is the record's owner then. A page that becomes WORN in
  // nobody's hands has none.
  bool Renew(RecordNumber record, ClientId client, Generation* generation);
  // GRANTED -> FREE.
  void GiveBack(RecordNumber record);
  // GRANTED -> QUARANTINED; QUARANTINED -> FREE.
  void Quarantine(RecordNumber record);
  void EndQuarantine(RecordNumber record);

  struct Birth {
    uint64_t length_bytes = 0;
    uint64_t checksum = 0;
    ClientId owner{0};
    uint64_t last_use = 0;
  };
  // GRANTED -> LIVE(key): text and fields first, index entry, LIVE last. ResourceExhausted when
  // there is no room for text or index: the page is as it was. REQUIRES: Lookup(key) found nothing.
  Status Register(RecordNumber record, const KeyRef& key, const Birth& birth);

  // LIVE -> RETIRING (seq_cst exchange); RETIRING -> LIVE (release), same generation.
  void Retire(RecordNumber record);
  void Revert(RecordNumber record);
  // RETIRING -> CONDEMNED: out of the index, its text free again.
  void Condemn(RecordNumber record);
  // CONDEMNED -> FREE. REQUIRES: a scan that began after Condemn found no lease on it.
  void Free(RecordNumber record);

  // --- Extents: keys in client-cut regions. Retire, Revert and Condemn are those of pages.
  struct ExtentBirth {
    RegionSlot region{0};
    uint64_t offset_bytes = 0;  // within the region
    uint64_t length_bytes = 0;
    uint64_t last_use = 0;
  };
  // ABSENT -> LIVE(key), generation + 1, for a record of its own: the lowest free number.
  // ResourceExhausted when there is no room for record, text or index: nothing has changed.
  // REQUIRES: Lookup(key) found nothing; the extent lies in that region and overlaps no other that
  // is LIVE.
  Result<RecordNumber> RegisterExtent(const KeyRef& key, const ExtentBirth& birth);
  // A number for an extent's record is free without more room: what was refused before lacked room
  // for text or index.
  bool ExtentRecordFree() const;
  // CONDEMNED -> ABSENT; the number is free again. At the last generation WORN, and it is not.
  // REQUIRES: as Free; the record is an extent's.
  void FreeExtent(RecordNumber record);

  // --- Room for key text, see TextSlabs: whether a text finds a block; slabs of
  // layout::kTextSlabBytes by offset, those with the fewest texts first.
  bool TextFits(uint64_t text_bytes) const;
  std::vector<uint64_t> SparsestText(size_t count_max) const;
  void CloseText(uint64_t slab_offset_bytes);
  void OpenText(uint64_t slab_offset_bytes);

  // --- Lookup for the server itself: LIVE or RETIRING under that key.
  struct Hit {
    RecordNumber record{0};
    layout::StateWord state;
  };
  bool Lookup(const KeyRef& key, Hit* out) const;
  // Reads the key of a LIVE or RETIRING record.
  struct StoredKey {
    std::string_view name_space;
    std::string_view key;
  };
  StoredKey KeyOf(RecordNumber record) const;
  // The same of a record that may be damaged: nullopt when its text lies nowhere.
  std::optional<StoredKey> ReadKey(RecordNumber record) const;
  void SetLastUse(RecordNumber record, uint64_t tick);
  // Of a LIVE or RETIRING record, a hold of a CONDEMNED one as well; both start at 0 with each
  // registration.
  void SetGlobalPins(RecordNumber record, uint64_t pins);
  void SetHoldUntil(RecordNumber record, uint64_t unix_ns);
  // A hint: starts the cache miss of a Lookup or Register that comes soon.
  void Prefetch(const KeyRef& key) const;

  // Moves a bounded number of entries while the index grows; called by Register too. True: more to
  // do.
  bool AdvanceGrowth();
  uint64_t index_slots() const;  // of the tables in service
  // A step of growth now brings memory in, which costs as much as a hundred other steps.
  bool carving() const;

  struct Usage {
    uint64_t records_bytes = 0, text_bytes = 0, text_bytes_used = 0, index_bytes = 0;
    uint64_t index_entries = 0, index_capacity = 0, tombstones = 0, heap_bytes = 0;
    bool growing = false;
  };
  Usage usage() const;

  struct Offender {
    RecordNumber record{0};
    std::string what;
  };
  // Whether the record's text, hash and index entry agree; appends what does not.
  enum class KeyState : uint8_t {
    kNone,   // it has no key
    kSound,  // it has one that can be read
    kTorn,   // it has one, but its text lies nowhere
  };
  KeyState CheckRecord(RecordNumber record, std::vector<Offender>* offenders) const;
  // Looks at the slots of the index, a part at a time. The writer outlives it.
  std::unique_ptr<IndexCensus> CountIndex() const;
  // Both of them for everything at once; appends what does not agree, at most `offenders_max`.
  // Returns how many there are.
  uint64_t CheckIndex(std::vector<Offender>* offenders, uint32_t offenders_max) const;

 private:
  class Impl;
  explicit Writer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace maru::catalogue
