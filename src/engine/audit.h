// Recounts everything: pages by state against the regions, lists and counts against the records,
// what clients publish against what is granted to them, the index against the records, and on
// demand the bytes of each key against its checksum.
//
// A walk in parts: each is one step of the server, looks at a bounded number of things, and what
// comes between two parts changes nothing of what is found (docs/audit.md).
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash_stream.h"
#include "catalogue/index_census.h"
#include "engine/core.h"
#include "engine/list_census.h"
#include "engine/page_census.h"
#include "wire/messages.h"

namespace maru::engine {

class AuditRun {
 public:
  static constexpr uint32_t kOffendersMax = 64;  // told in full; the rest are counted
  static constexpr uint32_t kUncheckedMax = 64;
  static constexpr int kCountReadsMax = 8;  // of counts that change while they are read

  // A unit of work is a record looked at or a page met in a list; in those:
  static constexpr uint64_t kIndexSlotsPerWork = 256;
  static constexpr uint64_t kBytesPerWork = 4096;  // that are hashed
  static constexpr uint64_t kWorkPerClient = 16;
  static constexpr uint64_t kWorkPerRegion = 4;

  enum class Bytes : uint8_t { kLeave, kVerify };
  // REQUIRES: the core outlives this. `asker`: serial of the client that asks, 0: none does.
  AuditRun(const Core* core, Bytes bytes, uint64_t asker = 0);
  ~AuditRun();
  AuditRun(const AuditRun&) = delete;
  AuditRun& operator=(const AuditRun&) = delete;

  // Goes on by `work` units. True: everything was looked at.
  bool Step(uint64_t work);
  // At once, for tests.
  void RunToEnd() {
    while (!Step(1u << 20)) continue;
  }

  const std::vector<std::string>& offenders() const { return offenders_; }
  // The last step has left off within a page's bytes.
  bool verifying() const { return verifying_.under_way; }
  // How far it is, and what it found when it is done.
  void Reply(wire::AuditReply* reply) const;

 private:
  // What is looked at in one pool, in this order; then the clients.
  enum class Phase : uint8_t {
    kLists,
    kRecords,
    kIndex,
    kListSums,
    kRegions,
    kRuns,
    kClientRegions,
    kSums,
    kRelease,
  };
  struct PoolRun {
    std::unique_ptr<ListCensus> lists;  // until its pool is done
    std::unique_ptr<PageCensus> pages;  // until all of it is done
    std::unique_ptr<catalogue::IndexCensus> index;
  };
  // Of the phase under way; false: there is more of it, but no work left.
  bool StepPhase();
  void BeginPool();
  bool StepLists();
  bool StepRecords();
  bool StepIndex();
  bool StepListSums();
  bool StepRegions();
  bool StepRuns();
  bool StepClientRegions();
  bool StepClients();
  bool StepNamespaces();
  // Takes so many units; false: there are none left.
  bool Take(uint64_t units);

  // --- Of one record, at once.
  void CheckRecord(RecordNumber record);
  bool CheckPage(RecordNumber record, const Stock::Run& run);
  void CheckPlace(RecordNumber record, layout::StateWord word);
  void CheckOther(RecordNumber record);
  void CheckExtent(RecordNumber record, layout::PageState state);
  void CheckKey(RecordNumber record);
  void BeginVerifying(RecordNumber record);
  // False: the record's bytes are not all hashed yet.
  bool GoOnVerifying(RecordNumber record);

  // --- Sums.
  void CheckSizeLists(const Stock::SizeClass& size_class, ClassIndex index);
  void CheckClientLists(const Client& client);
  void CheckList(const std::string& what, uint64_t met, uint64_t counted);
  void CheckClientRegion(const ClientRegions::Region& region);
  void CheckPoolSums();
  void CheckSizes();
  void CheckPoolCounts();
  void CheckClient(const Client& client);
  void CheckPublished(const Client& client);

  const Stock& stock() const { return *core_->stocks[pool_]; }
  PoolRun& run() { return pools_[pool_]; }
  uint64_t WorkDone() const;
  uint64_t WorkInAll() const;
  std::string Name(RecordNumber record) const;  // "pool NAME record N: "
  std::string PoolName() const { return "pool " + stock().pool().name(); }
  void Offend(std::string what);
  void OffendAll(const std::vector<catalogue::Writer::Offender>& found);
  void Unchecked(std::string what);

  const Core* core_;
  const Bytes bytes_;
  const uint64_t asker_;
  uint64_t work_ = 0;  // left in this step
  size_t pool_ = 0;    // behind the last: the clients
  Phase phase_ = Phase::kLists;
  uint64_t cursor_ = 0;  // of the phases that need one
  bool done_ = false;
  std::optional<std::string> last_namespace_;  // of those that were compared
  // Outlive pools_.
  ClientCensus by_client_;
  NamespaceUse by_namespace_;
  std::vector<PoolRun> pools_;

  // The record whose bytes are being hashed.
  struct Verifying {
    bool under_way = false;
    layout::StateWord word;  // its life: another one is another key's
    uint64_t offset_bytes = 0, left_bytes = 0, checksum = 0;
  };
  Verifying verifying_;
  HashStream64 hash_;

  std::vector<std::string> offenders_;
  uint64_t offenders_left_out_ = 0;
  std::vector<std::string> unchecked_;
  uint64_t unchecked_left_out_ = 0;
  uint64_t keys_ = 0, keys_verified_ = 0, bytes_verified_ = 0, extents_ = 0;
};

// From the records of one pool, at once.
Engine::PoolCounts CountPages(const Stock& stock);
Engine::PoolCounts CountPages(const Stock& stock, const pool::Pool::PageRegion& region);

}  // namespace maru::engine
