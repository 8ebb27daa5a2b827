#include "sim/call.h"

#include <algorithm>
#include <utility>

namespace maru::sim {

namespace {

constexpr size_t kNameBytesMax = 32;  // of a key, in what is said of it

}  // namespace

Call::Call(World* world, std::string name_space, std::vector<std::string> keys)
    : world_(world),
      name_space_(std::move(name_space)),
      keys_(std::move(keys)),
      steps_before_(world->steps_taken),
      before_(world->Scan(name_space_, keys_)) {}

void Call::LookAgain() {
  if (std::exchange(looked_again_, true)) return;
  steps_ = world_->steps_taken - steps_before_;
  after_ = world_->Scan(name_space_, keys_);
}

void Call::Expect(bool held, size_t key, std::string_view what) const {
  if (held) return;
  throw Violation("key " + std::to_string(key + 1) + " of " + std::to_string(keys_.size()) + ", " +
                  keys_[key].substr(0, kNameBytesMax) + ": " + std::string(what) + "; there " +
                  std::to_string(before_[key].size()) + " times before and " +
                  std::to_string(after_[key].size()) + " times after");
}

bool Call::ThereThroughout(size_t key) const {
  return !before_[key].empty() && !after_[key].empty() &&
         before_[key][0].page == after_[key][0].page;
}

bool Call::RepeatsEarlier(size_t key) const {
  const auto at = keys_.begin() + static_cast<ptrdiff_t>(key);
  return std::find(keys_.begin(), at, keys_[key]) != at;
}

void Call::ExpectStored(size_t key) {
  LookAgain();
  if (steps_ <= 1) Expect(after_[key].size() == 1, key, "stored");
}

void Call::ExpectLookup(size_t key, Answer answer) {
  LookAgain();
  const bool found = answer == Answer::kFound;
  if (ThereThroughout(key)) Expect(found, key, "missed");
  if (steps_ == 0) Expect(found == !before_[key].empty(), key, found ? "found" : "missed");
}

void Call::ExpectDelete(size_t key, wire::DeleteOutcome outcome) {
  LookAgain();
  const bool alone = steps_ <= 1;
  switch (outcome) {
    case wire::DeleteOutcome::kDeleted:
      Expect(!ThereThroughout(key), key, "deleted");
      if (alone) Expect(!before_[key].empty() && after_[key].empty(), key, "deleted");
      return;
    case wire::DeleteOutcome::kMissing:
      Expect(!ThereThroughout(key), key, "nothing to delete");
      // The earlier one of the same call may have taken it.
      if (alone && !RepeatsEarlier(key)) Expect(before_[key].empty(), key, "nothing to delete");
      return;
    case wire::DeleteOutcome::kPinned:
      if (alone) Expect(ThereThroughout(key), key, "pinned, so not deleted");
      return;
  }
  Expect(false, key, "no outcome of a delete");
}

void Call::ExpectThereBefore(size_t key) {
  LookAgain();
  Expect(!before_[key].empty(), key, "pinned, yet gone");
}

void Call::ExpectThereAfter(size_t key) {
  LookAgain();
  Expect(!after_[key].empty(), key, "pinned, yet gone");
}

}  // namespace maru::sim
