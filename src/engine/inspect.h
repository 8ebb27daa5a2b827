// What the engine shows of itself, for people and tools. Each view is paged, so that no step reads
// or answers more than a bounded part.
#pragma once

#include <cstdint>

#include "engine/core.h"
#include "engine/json.h"
#include "wire/messages.h"

namespace maru::engine {

class Inspection {
 public:
  static constexpr uint32_t kClientsPerPage = 32;
  // As many as one answer holds, whatever bytes the clients' names have.
  static constexpr uint32_t kRegionsPerPage = 32;
  static constexpr uint32_t kCondemnedPerPage = 32;
  static constexpr uint32_t kHoldersPerPage = 8;          // of one condemned page
  static constexpr uint32_t kPageSizesShown = 16;         // of one pool
  static constexpr uint32_t kRecordsPerStep = 16 * 1024;  // looked at for one answer
  static constexpr uint32_t kKeysPerList = 1024;

  explicit Inspection(Core* core) : core_(core) {}

  Status Inspect(const wire::InspectRequest& request, wire::InspectReply* reply) const;
  // In the order of the records; keys that come and go meanwhile may be missed.
  Status List(const Client& client, const wire::ListRequest& request, wire::ListReply* reply) const;

 private:
  std::string Summary() const;
  void PoolSummary(const Stock& stock, JsonWriter* json) const;
  void CounterSummary(JsonWriter* json) const;
  std::string ClientsPage(uint64_t cursor, uint64_t* next) const;
  void ClientEntry(const Client& client, JsonWriter* json) const;
  void PageRegion(const Stock& stock, const pool::Pool::PageRegion& region, JsonWriter* json) const;
  void ClientRegion(const Stock& stock, const ClientRegions::Region& region,
                    JsonWriter* json) const;
  std::string RegionsPage(uint64_t cursor, uint64_t* next) const;
  std::string CondemnedPage(uint64_t cursor, uint64_t* next) const;

  Core* core_;
};

}  // namespace maru::engine
