// Grants that lie idle in clients' hands: asking for them back. The wish stands in the client's own
// lease area, where its handler finds it at its next store or idle tick; no message is sent and
// nobody waits.
#pragma once

#include <cstdint>

#include "engine/core.h"

namespace maru::engine {

class Recall {
 public:
  explicit Recall(Core* core) : core_(core) {}

  // Asks clients for so many pages of that size in all, in the order in which they attached, each
  // for no more than it says are free in its hands; takes back what was asked of them before.
  // Returns how many pages were asked for.
  uint64_t Ask(uint64_t page_bytes, uint64_t pages);
  // The client has given back so many.
  void Returned(Client* client, uint64_t pages);

 private:
  void Set(Client* client, uint64_t pages);
  uint64_t GrantedOfSize(const Client& client, uint64_t page_bytes) const;

  Core* core_;
};

}  // namespace maru::engine
