// Recounts everything: pages by state against the regions, lists and counts against the records,
// what clients publish against what is granted to them, the index against the records, and on
// demand the bytes of each key against its checksum.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core.h"
#include "wire/messages.h"

namespace maru::engine {

class AuditRun {
 public:
  static constexpr uint32_t kOffendersMax = 64;  // told in full; the rest are counted
  static constexpr uint32_t kUncheckedMax = 64;
  static constexpr int kCountReadsMax = 8;  // of counts that change while they are read

  explicit AuditRun(const Core* core) : core_(core) {}

  enum class Bytes : uint8_t { kLeave, kVerify };
  void Run(Bytes bytes);

  const std::vector<std::string>& offenders() const { return offenders_; }
  void Reply(wire::AuditReply* reply) const;

 private:
  // Which list a page was met in.
  enum class Place : uint8_t { kNone, kFree, kGranted, kQuarantined, kCondemned, kLive };

  void CheckPool(const Stock& stock);
  void CheckRecords(const Stock& stock);
  void CheckExtents(const Stock& stock);
  void CheckClientRegion(const Stock& stock, const ClientRegions::Region& region);
  void CheckPage(const Stock& stock, RecordNumber record, Place place);
  void CheckKey(const Stock& stock, RecordNumber record);
  void CheckLists(const Stock& stock);
  void CheckCounts(const Stock& stock);
  void CheckClients();
  void CheckPublished(const Client& client);
  void CheckIndex(const Stock& stock);
  void VerifyBytes(const Stock& stock, RecordNumber record);
  // Walks a list and notes where its pages are. Returns how many it has.
  uint64_t Walk(const Stock& stock, PageLists::Id list, Place place);
  void WalkLive(const Stock& stock, PageLists::Id list);

  // "pool NAME record N: "
  std::string Name(const Stock& stock, RecordNumber record) const;
  void Offend(std::string what);

  const Core* core_;
  Bytes bytes_ = Bytes::kLeave;
  std::vector<std::string> offenders_;
  uint64_t offenders_left_out_ = 0;
  std::vector<std::string> unchecked_;
  uint64_t unchecked_left_out_ = 0;
  Engine::PoolCounts counts_;  // of the pool under way, from the records
  uint64_t keys_ = 0, keys_verified_ = 0, extents_ = 0;
  std::vector<Place> places_;  // by record, of the pool under way
};

// From the records of one pool.
Engine::PoolCounts CountPages(const Stock& stock);

}  // namespace maru::engine
