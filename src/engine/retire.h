// How a key's life ends: RETIRING for a batch, one scan of the lease areas, back to LIVE or
// CONDEMNED, one more scan, FREE where nobody holds the bytes. All of it within one step, so nobody
// is answered on the base of RETIRING.
#pragma once

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

  explicit Retirement(Core* core) : core_(core) {}

  // REQUIRES: each target is LIVE, none is named twice.
  void Retire(std::span<Target> targets, Cause cause);
  // Frees condemned pages that nobody holds any more. Those that were told to readers without
  // leases are not looked at before that ends. Returns how many.
  uint32_t Reap(Stock* stock);

  // An outcome for each key, in order.
  std::vector<wire::DeleteOutcome> DeleteKeys(const catalogue::Namespace& name_space,
                                              std::span<const std::string_view> keys);
  Status Delete(const Client& client, const wire::DeleteRequest& request, wire::DeleteReply* reply);
  Status Free(Client* client, const wire::FreeRequest& request, wire::FreeReply* reply);

 private:
  void RetireIn(Stock* stock, std::span<Target*> targets, Cause cause);
  void AddCondemned(Stock* stock, PageLists::Id list, std::vector<Target>* targets) const;
  void FreeUnheld(Stock* stock, std::span<Target*> targets);

  Core* core_;
};

}  // namespace maru::engine
