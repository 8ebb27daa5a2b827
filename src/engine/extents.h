// Keys over upstream's metadata protocol: extents of client-cut regions registered, and keys of
// every kind looked up, deleted and pinned by clients that hold no leases and name nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core.h"
#include "engine/evict.h"
#include "engine/lending.h"
#include "engine/retire.h"
#include "engine/text_room.h"
#include "wire/compat/metadata.h"

namespace maru::engine {

class Extents {
 public:
  Extents(Core* core, Retirement* retirement, Evictor* evictor, TextRoom* text_room,
          Lending* lending)
      : core_(core),
        retirement_(retirement),
        evictor_(evictor),
        text_room_(text_room),
        lending_(lending) {}

  // Keys are looked for in that namespace. A key over the limit is nowhere.
  bool Exists(const catalogue::Namespace& name_space, std::string_view key) const;

  // A hint: starts the cache miss of a look-up that comes soon.
  void Prefetch(const catalogue::Namespace& name_space, std::string_view key) const;

  // How much of registers may be done in one step.
  struct StepRoom {
    size_t overwrites = 0;  // extents that lose their keys
    size_t retires = 0;     // times that they do, each with two scans of the lease areas
  };
  // Registers entries behind those that *is_new tells of, as one after the other. False: there is
  // no room for more in this step.
  //
  // Refused, so not new: no client-cut region of the endpoint and with an owner has the id, the
  // extent does not lie in it or is empty, or there is no room for the record. Extents that it
  // overlaps lose their keys, also when its own key is there already: their bytes are gone. The
  // key's own extent stays if it begins there, else it is one of them.
  bool Register(const catalogue::Namespace& name_space,
                std::span<const wire::compat::RegisterEntry> entries, StepRoom room,
                std::vector<bool>* is_new);

  // Where the bytes are; nullopt: not there. The reader has no lease: a page stays as it is for
  // options.wire_hold_ns, and so does an extent, but for what the owner of its region does.
  std::optional<wire::compat::Location> Lookup(const catalogue::Namespace& name_space,
                                               std::string_view key);

  // Pins that name nobody: a count for each key, which ends with it and not with a server.
  bool Pin(const catalogue::Namespace& name_space, std::string_view key);
  // False: not there, or not pinned.
  bool Unpin(const catalogue::Namespace& name_space, std::string_view key);
  // To 0, however many there are.
  bool UnpinAll(const catalogue::Namespace& name_space, std::string_view key);

 private:
  bool Find(const catalogue::Namespace& name_space, std::string_view key, Core::Hit* hit) const;
  // What an entry is about, as things are now.
  struct Looked {
    const wire::compat::RegisterEntry* entry = nullptr;
    std::optional<catalogue::KeyRef> key;  // nullopt: it is none
    Lending::Lent lent;                    // without a region: it has no place
    std::string wrong;                     // and why
    std::optional<Core::Hit> there;        // where the key is already

    const Core::Hit* hit() const { return there.has_value() ? &*there : nullptr; }
  };
  Looked Look(const catalogue::Namespace& name_space,
              const wire::compat::RegisterEntry& entry) const;
  // Where the extent lies; else *why says what is wrong with it.
  Lending::Lent PlaceOf(const catalogue::Namespace& name_space,
                        const wire::compat::RegisterEntry& entry, std::string* why) const;
  // Condemns the keys whose bytes those entries have written over, from the first on as far as one
  // Retire goes. Returns how many entries overwrite nothing any more.
  size_t Overwrite(const catalogue::Namespace& name_space,
                   std::span<const wire::compat::RegisterEntry> entries, StepRoom* room);
  // Whether it is new. REQUIRES: it overwrites nothing.
  bool RegisterOne(const Looked& looked);
  void Refuse(const wire::compat::RegisterEntry& entry, std::string_view why);
  // Keys go for its text or index entry, where that helps.
  Result<RecordNumber> RegisterWithRoom(const Lending::Lent& lent, const catalogue::KeyRef& key,
                                        const catalogue::Writer::ExtentBirth& birth);
  // It is in use: the last to be evicted, when it is a page.
  void Use(const Core::Hit& hit);

  Core* core_;
  Retirement* retirement_;
  Evictor* evictor_;
  TextRoom* text_room_;
  Lending* lending_;
  uint64_t no_room_before_ns_ = 0;  // the last search found no room for any key of an extent
};

}  // namespace maru::engine
