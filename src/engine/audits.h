// The audits that clients have under way. Each belongs to a client's connection and ends with it; a
// client that leaves one lying is in nobody's way for long.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "engine/audit.h"
#include "engine/core.h"
#include "wire/messages.h"

namespace maru::engine {

class Audits {
 public:
  // Under way at a time: each makes every change of a page a little slower and takes 4 bytes of
  // heap for each record of the pool it is at.
  static constexpr size_t kAuditsMax = 4;
  // One that was left lying for so long ends: its client begins it again.
  static constexpr uint64_t kIdleNs = 60'000'000'000;

  explicit Audits(Core* core) : core_(core) {}

  // Begins one, or goes on with it by one step. NotFound: the client has none of that number;
  // ResourceExhausted: there are kAuditsMax of others.
  Status Ask(const Client& client, const wire::AuditRequest& request, wire::AuditReply* reply);
  // The client's connection is closed.
  void EndOf(const Client& client);
  // Those of clients that are gone, and those left lying.
  void EndOver();

 private:
  struct UnderWay {
    uint64_t client = 0;  // serial
    uint64_t asked_ns = 0;
    std::unique_ptr<AuditRun> run;
  };
  Core* core_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, UnderWay> under_way_;  // by number
};

}  // namespace maru::engine
