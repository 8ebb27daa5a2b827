// What the application asks of its handler about keys: lookups, pins and deletes, one key at a time
// and in batches.

#include <algorithm>
#include <string>

#include "sim/call.h"
#include "sim/process.h"

namespace maru::sim {

namespace {

constexpr size_t kViewsMax = 12;
// Fewer than are unpinned at once: keys that are pinned for good leave nothing to evict.
constexpr size_t kPinsAtOnceMax = 2;
constexpr uint64_t kUnpinsAtOnceMax = 6;

Call::Answer AnswerOf(bool found) { return found ? Call::Answer::kFound : Call::Answer::kMissed; }

std::vector<std::string_view> ViewsOf(const std::vector<std::string>& keys) {
  return {keys.begin(), keys.end()};
}

const char* NameOfOutcome(wire::DeleteOutcome outcome) {
  switch (outcome) {
    case wire::DeleteOutcome::kDeleted: return "deleted";
    case wire::DeleteOutcome::kMissing: return "missing";
    case wire::DeleteOutcome::kPinned: return "pinned";
  }
  return "?";
}

}  // namespace

void Process::Keep(handler::View view, const std::string& key) {
  CheckBytes(view.bytes(), key);
  if (views_.size() < kViewsMax) views_.push_back({std::move(view), key});
}

bool Process::Pinned(const std::string& key) const {
  return std::find(pinned_.begin(), pinned_.end(), key) != pinned_.end();
}

void Process::Retrieve() {
  const std::string key = DrawKey(Lengths::kAny);
  Call call(world_, name_space_, {key});
  const auto verify =
      world_->options().checksums ? handler::Verify::kChecksum : handler::Verify::kNo;
  auto view = handler_->Retrieve(key, verify);
  if (!view.ok()) {
    Expect(view.status().code() != StatusCode::kDataLoss, view.status().ToString());
    world_->tally().Count("op: retrieve refused");
    return;
  }
  const bool found = static_cast<bool>(*view);
  world_->tally().Count(found ? "op: hit" : "op: miss");
  call.ExpectLookup(0, AnswerOf(found));
  if (found) Keep(*std::move(view), key);
}

void Process::BatchRetrieve() {
  const std::vector<std::string> keys = DrawKeys();
  Call call(world_, name_space_, keys);
  auto found = handler_->BatchRetrieve(ViewsOf(keys), handler::Verify::kNo);
  if (!found.ok()) {
    Expect(found.status().code() != StatusCode::kDataLoss, found.status().ToString());
    return world_->tally().Count("op: batch retrieve refused");
  }
  Expect(found->size() == keys.size(), "not one view for each key");
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool hit = static_cast<bool>((*found)[i]);
    world_->tally().Count(hit ? "op: batch hit" : "op: batch miss");
    call.ExpectLookup(i, AnswerOf(hit));
    if (hit) Keep(std::move((*found)[i]), keys[i]);
  }
}

void Process::Exists() {
  const std::string key = DrawKey(Lengths::kAny);
  Call call(world_, name_space_, {key});
  const auto exists = handler_->Exists(key);
  if (!exists.ok()) return;
  world_->tally().Count("op: exists");
  call.ExpectLookup(0, AnswerOf(*exists));
}

void Process::BatchExists() {
  const std::vector<std::string> keys = DrawKeys();
  Call call(world_, name_space_, keys);
  const auto exist = handler_->BatchExists(ViewsOf(keys));
  if (!exist.ok()) return;
  Expect(exist->size() == keys.size(), "not one answer for each key");
  for (size_t i = 0; i < keys.size(); ++i) {
    world_->tally().Count((*exist)[i] ? "op: batch exists yes" : "op: batch exists no");
    call.ExpectLookup(i, AnswerOf((*exist)[i]));
  }
}

void Process::MatchPrefix() {
  const std::vector<std::string> keys = DrawKeys();
  Call call(world_, name_space_, keys);
  const auto matched = handler_->MatchPrefix(ViewsOf(keys));
  if (!matched.ok()) return;
  Expect(*matched <= keys.size(), "a prefix that is longer than all keys");
  const char* const how_far = *matched == keys.size() ? "all" : *matched == 0 ? "none" : "some";
  world_->tally().Count(std::string("op: match prefix ") + how_far);
  for (size_t i = 0; i < *matched; ++i) call.ExpectLookup(i, Call::Answer::kFound);
  if (*matched < keys.size()) call.ExpectLookup(*matched, Call::Answer::kMissed);
}

void Process::Pin() {
  const std::string key = DrawKey(Lengths::kAny);
  Call call(world_, name_space_, {key});
  const auto pinned = handler_->Pin(key);
  if (!pinned.ok()) return;
  world_->tally().Count(*pinned ? "op: pin" : "op: pin of a missing key");
  call.ExpectLookup(0, AnswerOf(*pinned));
  if (!*pinned) return;
  if (KnowsPins()) call.ExpectThereAfter(0);
  pinned_.push_back(key);
}

void Process::BatchPin() {
  std::vector<std::string> keys = DrawKeys();
  if (keys.size() > kPinsAtOnceMax) keys.resize(kPinsAtOnceMax);
  Call call(world_, name_space_, keys);
  const auto pinned = handler_->BatchPin(ViewsOf(keys));
  if (!pinned.ok()) return;
  Expect(pinned->size() == keys.size(), "not one answer for each key");
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool held = (*pinned)[i];
    world_->tally().Count(held ? "op: batch pin" : "op: batch pin of a missing key");
    call.ExpectLookup(i, AnswerOf(held));
    if (!held) continue;
    if (KnowsPins()) call.ExpectThereAfter(i);
    pinned_.push_back(keys[i]);
  }
}

void Process::Unpin() {
  if (pinned_.empty()) return;
  const std::string key = pinned_.back();
  Call call(world_, name_space_, {key});
  const bool known = KnowsPins();
  const auto unpinned = handler_->Unpin(key);
  if (!unpinned.ok()) return;  // it is as it was
  pinned_.pop_back();
  if (!known) return;
  world_->tally().Count("op: unpin");
  call.ExpectThereBefore(0);
  Expect(*unpinned, "unpin of the pinned key " + NameOf(key));
}

void Process::BatchUnpin() {
  const size_t ours = std::min<size_t>(pinned_.size(), world_->chance().Below(kUnpinsAtOnceMax));
  std::vector<std::string> keys(pinned_.end() - static_cast<ptrdiff_t>(ours), pinned_.end());
  std::string other = DrawKey(Lengths::kAny);
  if (!Pinned(other)) keys.push_back(std::move(other));
  Call call(world_, name_space_, keys);
  const bool known = KnowsPins();
  const auto unpinned = handler_->BatchUnpin(ViewsOf(keys));
  if (!unpinned.ok()) return;  // all are as they were
  pinned_.resize(pinned_.size() - ours);
  Expect(unpinned->size() == keys.size(), "not one answer for each key");
  if (!known) return;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i < ours) {
      world_->tally().Count("op: batch unpin");
      call.ExpectThereBefore(i);
      Expect((*unpinned)[i], "unpin of the pinned key " + NameOf(keys[i]));
    } else {
      world_->tally().Count("op: batch unpin of a key not pinned");
      Expect(!(*unpinned)[i],
             "unpin of " + NameOf(keys[i]) + ", which this process has not pinned");
    }
  }
}

void Process::Delete() {
  const std::string key = DrawKey(Lengths::kAny);
  const bool pinned_here = KnowsPins() && Pinned(key);
  Call call(world_, name_space_, {key});
  const auto outcome = handler_->Delete(key);
  if (!outcome.ok()) return world_->tally().Count("op: delete refused");
  world_->tally().Count(std::string("op: delete ") + NameOfOutcome(*outcome));
  call.ExpectDelete(0, *outcome);
  if (pinned_here) Expect(*outcome == wire::DeleteOutcome::kPinned, "a pinned key was deleted");
}

void Process::BatchDelete() {
  std::vector<std::string> keys = DrawKeys();
  std::vector<bool> pinned_here;
  for (const std::string& key : keys) pinned_here.push_back(KnowsPins() && Pinned(key));
  Call call(world_, name_space_, keys);
  const auto outcomes = handler_->BatchDelete(ViewsOf(keys));
  if (!outcomes.ok()) return world_->tally().Count("op: batch delete refused");
  Expect(outcomes->size() == keys.size(), "not one outcome for each key");
  for (size_t i = 0; i < keys.size(); ++i) {
    const wire::DeleteOutcome outcome = (*outcomes)[i];
    world_->tally().Count(std::string("op: batch delete ") + NameOfOutcome(outcome));
    call.ExpectDelete(i, outcome);
    if (pinned_here[i]) Expect(outcome == wire::DeleteOutcome::kPinned, "a pinned key was deleted");
  }
}

}  // namespace maru::sim
