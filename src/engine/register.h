// Stores: a granted page becomes its key's. Entry by entry, in order; what one entry is answered
// does not change what another is.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core.h"
#include "engine/evict.h"
#include "engine/grant.h"
#include "engine/text_room.h"
#include "wire/messages.h"

namespace maru::engine {

class Registration {
 public:
  Registration(Core* core, Evictor* evictor, TextRoom* text_room, Granting* granting)
      : core_(core), evictor_(evictor), text_room_(text_room), granting_(granting) {}

  Status Register(Client* client, const wire::RegisterRequest& request, wire::RegisterReply* reply);

 private:
  struct Use {  // of a key, by this request
    Stock* stock = nullptr;
    RecordNumber record{0};
  };

  // Batches that go by age for a key that finds no room, and for all keys of a request: where texts
  // have much the same length, the first of them leaves a block of the right size.
  static constexpr int kEvictRoundsPerKey = 4;
  static constexpr int kEvictRoundsMax = 64;
  // Slabs of text that are emptied for one request, for those of other lengths.
  static constexpr int kTextSlabsMax = 4;
  // Parts of the index's growth into room that has just come.
  static constexpr int kGrowthPartsMax = 16;
  // Entries whose keys are hashed and looked for ahead, so that their cache misses overlap.
  static constexpr size_t kAhead = 16;

  catalogue::KeyRef Prepare(const Client& client, const wire::RegisterEntry& entry);
  wire::RegisterReply::Item RegisterOne(Client* client, const wire::RegisterEntry& entry,
                                        const catalogue::KeyRef& key, std::vector<Use>* uses);
  // Once more, with regions gone that nobody uses, then with as many keys gone as it takes, within
  // the named bounds. `registered`: why it is not, and so the answer where nothing may go.
  // Unavailable: no key of this pool goes yet, since another has a page that can have this one. Its
  // client looks there, and where that page has gone to others by then, asks for this one again.
  Status RegisterWithRoom(Status registered, Client* client, Stock* stock, RecordNumber record,
                          const catalogue::KeyRef& key, const catalogue::Writer::Birth& birth);
  // The same where keys of that pool go.
  Status RegisterInTurn(Status registered, Client* client, Stock* stock, RecordNumber record,
                        const catalogue::KeyRef& key, const catalogue::Writer::Birth& birth);
  // Into room that has just come, for which the index may have to grow first.
  static Status RegisterGrowing(Client* client, Stock* stock, RecordNumber record,
                                const catalogue::KeyRef& key,
                                const catalogue::Writer::Birth& birth);
  // The reply says that a key was rejected and not why; the log does, but not each time.
  static constexpr uint64_t kRejectionLogNs = 10'000'000'000;
  void WarnOfRejection(const Stock& stock, const Status& why);
  // For a page that is not granted to the client in that life.
  wire::RegisterReply::Item AnswerStale(const Client& client, const wire::RegisterEntry& entry);
  // Duplicate or rejected: the page stays with its client.
  wire::RegisterReply::Item AnswerStays(Client* client, Stock* stock, RecordNumber record,
                                        wire::RegisterOutcome outcome);

  Core* core_;
  Evictor* evictor_;
  TextRoom* text_room_;
  Granting* granting_;
  int evict_rounds_left_ = 0;  // of the request under way
  int text_slabs_left_ = 0;
  // The pool that was found full last by this request: what nobody uses there is freed, and whether
  // another one has a page is looked for, once.
  struct Full {
    const Stock* stock = nullptr;
    bool page_beside = false;
  };
  Full full_;
  uint64_t next_rejection_log_ns_ = 0;
};

}  // namespace maru::engine
