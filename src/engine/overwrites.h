// The keys whose bytes several registers have written over, collected so that all of them go in one
// Retire: its scans read every lease slot, however few keys they are for.
//
// It stands for registering one after the other, so it ends before an entry that depends on what an
// earlier one of it does: whose place shares bytes with the place of that one, or which takes the
// extent of a key that that one finds there.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/core.h"
#include "engine/lending.h"
#include "engine/retire.h"
#include "wire/compat/metadata.h"

namespace maru::engine {

class Overwrites {
 public:
  explicit Overwrites(size_t targets_max) : left_(targets_max) {}

  enum class Taken : uint8_t {
    kAll,
    kSome,   // it overwrites more than is left; nothing can follow
    kLater,  // nothing of it, nor of what comes behind it
  };
  // `lent`: where its place is; without a region it has none, and nothing is overwritten. `there`:
  // where its key is, nullptr: nowhere. That extent stays if it begins where the entry does.
  // REQUIRES: the entry fits the region; each one before it was taken whole; nothing changed since.
  Taken Add(const Lending::Lent& lent, const wire::compat::RegisterEntry& entry,
            const Core::Hit* there);

  // Whether it overwrites nothing at all: then it needs no part of this.
  static bool None(const Lending::Lent& lent, const wire::compat::RegisterEntry& entry,
                   const Core::Hit* there);

  // Each once.
  std::vector<Target>& targets() { return targets_; }

 private:
  using Record = std::pair<const Stock*, RecordNumber>;
  struct Place {
    const ClientRegions::Region* region = nullptr;
    uint64_t begin = 0;
    auto operator<=>(const Place&) const = default;
  };
  bool OverlapsAPlace(const Place& place, uint64_t end) const;
  // False: it takes an extent of `found_`.
  bool Collect(const Lending::Lent& lent, const wire::compat::RegisterEntry& entry,
               const Core::Hit* kept, std::vector<RecordNumber>* records) const;

  size_t left_;
  std::vector<Target> targets_;
  std::set<Record> taken_;            // of targets_
  std::set<Record> found_;            // the keys of entries, where they are
  std::map<Place, uint64_t> places_;  // of entries, with their ends
};

}  // namespace maru::engine
