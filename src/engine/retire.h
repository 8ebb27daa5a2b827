// How a key's life ends: RETIRING for a batch, one scan of the lease areas, back to LIVE or
// CONDEMNED, one more scan, FREE where nobody holds the bytes. All of it within one step, so nobody
// is answered on the base of RETIRING.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "catalogue/key.h"
#include "engine/core.h"
#include "engine/lease_scan.h"
#include "wire/messages.h"

namespace maru::engine {

enum class Cause : uint8_t {
  kDelete,     // spares what is pinned, and extents that are leased: their client reuses the room
  kEvict,      // spares what is pinned, leased or on hold: its page would not come back
  kSecondKey,  // spares nothing: the key lives on in another pool
  kOverwrite,  // spares nothing: the bytes of the extent are gone already
};

struct Target {
  enum class Fate : uint8_t { kSpared, kCondemned, kOnHold, kFreed };
  Stock* stock = nullptr;
  RecordNumber record{0};
  Fate fate = Fate::kSpared;
  bool held = false;  // leased or pinned when it was retired
};

class Retirement {
 public:
  // Condemned pages looked at in one pass, and as many extents.
  static constexpr uint32_t kReapMax = 32 * 1024;

  // Between two passes that nothing asks for: while they free next to nothing, since readers hold
  // on, the pause doubles up to the maximum.
  static constexpr uint64_t kReapPauseNs = 50'000'000;
  static constexpr uint64_t kReapPauseMaxNs = 1'000'000'000;
  // A pass that frees less than this part of what it looks at has freed next to nothing.
  static constexpr uint64_t kReapYield = 64;

  explicit Retirement(Core* core) : core_(core) {}

  // REQUIRES: each target is LIVE, none is named twice.
  void Retire(std::span<Target> targets, Cause cause);
  // Frees condemned pages that nobody holds any more. Those that were told to readers without
  // leases are not looked at before that ends. Returns how many.
  uint32_t Reap(Stock* stock);
  // The same where it is time for it: nobody announces that a lease has ended. Returns when it is
  // next, 0: no page waits.
  uint64_t ReapInTurn(Stock* stock);

  // An outcome for each key, in order.
  std::vector<wire::DeleteOutcome> DeleteKeys(const catalogue::Namespace& name_space,
                                              std::span<const std::string_view> keys);
  Status Delete(const Client& client, const wire::DeleteRequest& request, wire::DeleteReply* reply);
  Status Free(Client* client, const wire::FreeRequest& request, wire::FreeReply* reply);

 private:
  void RetireIn(Stock* stock, std::span<Target*> targets, Cause cause);
  void AddCondemned(Stock* stock, PageLists::Id list, std::vector<Target>* targets) const;
  void FreeUnheld(Stock* stock, std::span<Target*> targets);

  struct Turn {
    uint64_t next_ns = 0, pause_ns = 0;
  };

  Core* core_;
  std::array<Turn, layout::kPoolsMax> turns_;  // by pool
};

}  // namespace maru::engine
