// Stores: a granted page becomes its key's. Entry by entry, in order; what one entry is answered
// does not change what another is.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core.h"
#include "engine/evict.h"
#include "engine/grant.h"
#include "wire/messages.h"

namespace maru::engine {

class Registration {
 public:
  Registration(Core* core, Evictor* evictor, Granting* granting)
      : core_(core), evictor_(evictor), granting_(granting) {}

  Status Register(Client* client, const wire::RegisterRequest& request, wire::RegisterReply* reply);

 private:
  struct Use {  // of a key, by this request
    Stock* stock = nullptr;
    RecordNumber record{0};
  };

  // Batches that may go for the keys of one request that find no room: all keys of a slab of the
  // shortest texts, and as many beside.
  static constexpr int kEvictRoundsMax = 512;
  // Entries whose keys are hashed and looked for ahead, so that their cache misses overlap.
  static constexpr size_t kAhead = 16;

  catalogue::KeyRef Prepare(const Client& client, const wire::RegisterEntry& entry);
  wire::RegisterReply::Item RegisterOne(Client* client, const wire::RegisterEntry& entry,
                                        const catalogue::KeyRef& key, std::vector<Use>* uses);
  // For a page that is not granted to the client in that life.
  wire::RegisterReply::Item AnswerStale(const Client& client, const wire::RegisterEntry& entry);
  // Duplicate or rejected: the page stays with its client.
  wire::RegisterReply::Item AnswerStays(Client* client, Stock* stock, RecordNumber record,
                                        wire::RegisterOutcome outcome);

  Core* core_;
  Evictor* evictor_;
  Granting* granting_;
  int evict_rounds_left_ = 0;  // of the request under way
};

}  // namespace maru::engine
