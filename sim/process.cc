#include "sim/process.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/check.h"

namespace maru::sim {

namespace {

// Within the quarantine, which begins when the server learns of the death: later than that.
constexpr uint64_t kLateWriteNs = 900'000'000;

}  // namespace

Process::Process(World* world, uint32_t pid, std::string name_space)
    : world_(world),
      pid_(pid),
      name_space_(std::move(name_space)),
      page_bytes_(world->options().other_page_bytes != 0 && pid % 2 == 0
                      ? world->options().other_page_bytes
                      : world->options().page_bytes),
      link_(world, pid) {
  handler::HandlerOptions options;
  options.label = "instance " + std::to_string(pid % 3);  // labels repeat
  options.name_space = name_space_;
  options.page_bytes = page_bytes_;
  options.hand_pages_max = 6;
  if (world->Happens(300)) options.budget_bytes = 12 * options.page_bytes;
  handler_ = std::make_unique<handler::Handler>(options, &link_, &world->clock());
  handler_->Connect().ok();  // a lost attach is tried again later
}

Process::~Process() {
  if (alive_) Kill();
}

void Process::Kill() {
  alive_ = false;
  for (const Draft& draft : drafts_) {
    if (world_->Happens(300))
      world_->WriteLate(draft.page.data, world_->chance().Below(kLateWriteNs));
  }
  link_.Die();
  views_.clear();
  lingering_.clear();
  handler_.reset();
}

void Process::CloseOrderly() {
  const bool views_first = world_->Happens(500);
  link_.SetFaults(false);
  if (views_first) views_.clear();
  drafts_.clear();  // close ends the application's write access
  handler_->Close();
  CheckMemory();
  views_.clear();
  lingering_.clear();
  alive_ = false;
  link_.Die();
  handler_.reset();
}

void Process::Expect(bool held, const std::string& what) const {
  if (!held) throw Violation("process " + std::to_string(pid_) + ": " + what);
}

std::string Process::DrawKey() { return "key-" + std::to_string(world_->chance().Below(kKeys)); }

std::string Process::Content(const std::string& key) {
  std::string content;
  while (content.size() < kLength) content += key + "|";
  content.resize(kLength);
  return content;
}

void Process::Write(const handler::PageHandle& page, const std::string& content) const {
  std::memcpy(page.data, content.data(), content.size());
}

void Process::CheckBytes(std::span<const std::byte> bytes, const std::string& key) const {
  const std::string content = Content(name_space_ + key);
  Expect(bytes.size() == kLength, "view of " + key + " has " + std::to_string(bytes.size()));
  Expect(std::memcmp(bytes.data(), content.data(), kLength) == 0,
         "view of " + key +
             " has other bytes: " + std::string(reinterpret_cast<const char*>(bytes.data()), 24));
}

void Process::CheckMemory() const {
  for (const Held& held : views_) CheckBytes(held.view.bytes(), held.key);
  for (const Draft& draft : drafts_) {
    uint64_t mark = 0;
    std::memcpy(&mark, draft.page.data, sizeof(mark));
    Expect(mark == draft.mark, "somebody wrote to a page that is granted to this process");
  }
  for (const Lingering& memory : lingering_) {
    Expect(std::memcmp(memory.data, memory.bytes.data(), memory.bytes.size()) == 0,
           "somebody wrote to memory that this process holds on to");
  }
}

void Process::Trace(const char* what, const handler::PageHandle& page) const {
  if (!world_->tally().trace) return;
  std::printf("  process %u %s record %u generation %u\n", pid_, what, page.page.record.value(),
              page.page.generation.value());
}

void Process::Alloc() {
  if (drafts_.size() >= 5) return Free();
  auto page = handler_->Alloc(kLength + world_->chance().Below(page_bytes_ - kLength + 1));
  if (!page.ok()) {
    world_->tally().Count("op: alloc refused");
    return;
  }
  world_->tally().Count("op: alloc");
  Trace("allocs", *page);
  Draft draft{*page, world_->chance()()};
  std::memcpy(draft.page.data, &draft.mark, sizeof(draft.mark));
  if (world_->Happens(250)) {
    auto hold = handler_->HoldOn(draft.page);
    // Its life may be over already: alloc may talk to the server, which may begin anew with this.
    if (hold.ok()) {
      draft.hold = *std::move(hold);
      world_->tally().Count("op: hold on a page");
    }
  }
  drafts_.push_back(draft);
}

void Process::Store() {
  if (drafts_.empty()) return Alloc();
  const size_t at = world_->chance().Below(drafts_.size());
  const Draft draft = drafts_[at];
  drafts_.erase(drafts_.begin() + static_cast<ptrdiff_t>(at));
  const std::string key = DrawKey();
  Trace("stores", draft.page);
  Write(draft.page, Content(name_space_ + key));
  const uint64_t steps = world_->steps_taken;
  const auto stored = handler_->Store(key, draft.page, kLength);
  Consumed(draft, Content(name_space_ + key));
  if (!stored.ok()) {
    world_->tally().Count("op: store refused");
    // Nothing was consumed, or the life was over already: either way it is not used again here.
    if (stored.status().code() == StatusCode::kUnavailable) handler_->Free(draft.page).ok();
    return;
  }
  world_->tally().Count(*stored ? "op: store true" : "op: store false");
  consumed_.push_back(draft.page);
  const auto truth = world_->Scan(name_space_, key);
  if (*stored && world_->steps_taken <= steps + 1) {
    Expect(truth.size() == 1,
           "stored " + key + " but it is there " + std::to_string(truth.size()) + " times");
  }
}

void Process::BatchStore() {
  std::vector<handler::Handler::StoreItem> items;
  std::vector<Draft> batch;
  std::vector<std::string> keys;
  keys.reserve(8);
  const size_t count = std::min<size_t>(drafts_.size(), 1 + world_->chance().Below(4));
  if (count == 0) return Alloc();
  for (size_t i = 0; i < count; ++i) {
    // The same key twice in one batch is a duplicate like any other.
    keys.push_back(i > 0 && world_->Happens(200) ? keys[0] : DrawKey());
    const Draft draft = drafts_.back();
    drafts_.pop_back();
    Trace("stores in a batch", draft.page);
    Write(draft.page, Content(name_space_ + keys.back()));
    items.push_back({keys.back(), draft.page, kLength});
    batch.push_back(draft);
  }
  if (!consumed_.empty() && world_->Happens(100)) {
    items.push_back({keys[0], consumed_.back(), kLength});
  }
  const auto stored = handler_->BatchStore(items);
  for (size_t i = 0; i < count; ++i) Consumed(batch[i], Content(name_space_ + keys[i]));
  if (!stored.ok()) {
    world_->tally().Count("op: batch store refused");
    for (size_t i = 0; i < count; ++i) handler_->Free(items[i].page).ok();
    return;
  }
  world_->tally().Count("op: batch store");
  Expect(stored->size() == items.size(), "not one answer for each item");
  if (items.size() > count) Expect(!stored->back(), "a handle was stored twice");
  for (size_t i = 0; i < count; ++i) consumed_.push_back(items[i].page);
}

void Process::Free() {
  if (drafts_.empty()) return;
  const Draft draft = drafts_.back();
  drafts_.pop_back();
  Trace("frees", draft.page);
  handler_->Free(draft.page).ok();
  Consumed(draft, {reinterpret_cast<const char*>(&draft.mark), sizeof(draft.mark)});
  world_->tally().Count("op: free");
  if (world_->Happens(300)) {
    Expect(!handler_->Free(draft.page).ok(), "a page was freed twice");
    world_->tally().Count("op: free twice");
  }
}

void Process::FreeStored() {
  if (consumed_.empty()) return;
  const size_t at = world_->chance().Below(consumed_.size());
  const handler::PageHandle page = consumed_[at];
  consumed_.erase(consumed_.begin() + static_cast<ptrdiff_t>(at));
  const Status freed = handler_->Free(page);
  world_->tally().Count(freed.ok() ? "op: free of stored" : "op: free of stored refused");
}

void Process::Misuse() {
  if (consumed_.empty()) return;
  const handler::PageHandle page = consumed_[world_->chance().Below(consumed_.size())];
  const auto stored = handler_->Store(DrawKey(), page, kLength);
  Expect(!stored.ok(), "a handle that is over was stored");
  world_->tally().Count("op: store twice");
}

void Process::Retrieve() {
  const std::string key = DrawKey();
  const auto before = world_->Scan(name_space_, key);
  const uint64_t steps = world_->steps_taken;
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
  const auto after = world_->Scan(name_space_, key);
  if (!before.empty() && !after.empty() && before[0].page == after[0].page) {
    Expect(found, key + " was there for the whole call and was missed");
  }
  if (world_->steps_taken == steps && before.empty()) {
    Expect(!found, key + " was not there and was found");
  }
  if (!found) return;
  CheckBytes(view->bytes(), key);
  if (views_.size() < 12) views_.push_back({std::move(*view), key});
}

void Process::BatchRetrieve() {
  std::vector<std::string> keys;
  for (uint64_t i = 0, n = 1 + world_->chance().Below(6); i < n; ++i) keys.push_back(DrawKey());
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  auto found = handler_->BatchRetrieve(views, handler::Verify::kNo);
  if (!found.ok()) return;
  world_->tally().Count("op: batch retrieve");
  Expect(found->size() == keys.size(), "not one view for each key");
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!(*found)[i]) continue;
    CheckBytes((*found)[i].bytes(), keys[i]);
    if (views_.size() < 12) views_.push_back({std::move((*found)[i]), keys[i]});
  }
}

void Process::Exists() {
  const std::string key = DrawKey();
  const auto before = world_->Scan(name_space_, key);
  const uint64_t steps = world_->steps_taken;
  const auto exists = handler_->Exists(key);
  if (!exists.ok()) return;
  world_->tally().Count("op: exists");
  const auto after = world_->Scan(name_space_, key);
  if (!before.empty() && !after.empty() && before[0].page == after[0].page) {
    Expect(*exists, key + " was there for the whole call and exists said no");
  }
  if (world_->steps_taken == steps) Expect(*exists == !before.empty(), "exists of " + key);
}

void Process::Pin() {
  const std::string key = DrawKey();
  const auto pinned = handler_->Pin(key);
  if (!pinned.ok()) return;
  world_->tally().Count(*pinned ? "op: pin" : "op: pin of a missing key");
  if (*pinned) pinned_.push_back(key);
}

void Process::Unpin() {
  if (pinned_.empty()) return;
  const std::string key = pinned_.back();
  pinned_.pop_back();
  const auto truth = world_->Scan(name_space_, key);
  const uint64_t changes = handler_->epoch_changes();
  const auto unpinned = handler_->Unpin(key);
  if (!unpinned.ok() || changes != 0) return;
  world_->tally().Count("op: unpin");
  Expect(!truth.empty(), "the pinned key " + key + " is gone");
  Expect(*unpinned, "unpin of the pinned key " + key);
}

void Process::Delete() {
  const std::string key = DrawKey();
  const bool pinned_here = handler_->epoch_changes() == 0 &&
                           std::find(pinned_.begin(), pinned_.end(), key) != pinned_.end();
  const auto outcome = handler_->Delete(key);
  if (!outcome.ok()) {
    world_->tally().Count("op: delete refused");
    return;
  }
  static constexpr const char* kNames[] = {"?", "deleted", "missing", "pinned"};
  world_->tally().Count(std::string("op: delete ") + kNames[static_cast<size_t>(*outcome)]);
  if (pinned_here) Expect(*outcome == wire::DeleteOutcome::kPinned, "a pinned key was deleted");
}

void Process::DropView() {
  if (views_.empty()) return;
  const size_t at = world_->chance().Below(views_.size());
  views_.erase(views_.begin() + static_cast<ptrdiff_t>(at));
  world_->tally().Count("op: view dropped");
}

void Process::Consumed(const Draft& draft, std::string bytes) {
  if (draft.hold == nullptr) return;
  lingering_.push_back({draft.hold, draft.page.data, std::move(bytes)});
  if (lingering_.size() > 4) LetGo();
}

void Process::LetGo() {
  if (lingering_.empty()) return;
  const size_t at = world_->chance().Below(lingering_.size());
  handler_->LetGo(std::move(lingering_[at].hold));
  lingering_.erase(lingering_.begin() + static_cast<ptrdiff_t>(at));
  world_->tally().Count("op: let go");
}

void Process::Background() {
  handler_->Tick();
  world_->tally().Count("op: background");
}

void Process::Audit() {
  wire::Reply reply;
  const Status asked = handler_->Ask(wire::AuditRequest{false, audit_}, &reply);
  const auto* const step = std::get_if<wire::AuditReply>(&reply);
  if (!asked.ok() || step == nullptr) {
    // The connection or the server has started anew, and takes its audits with it.
    world_->tally().Count("op: audit refused");
    audit_ = 0;
    return;
  }
  audit_ = step->audit;
  if (audit_ != 0) return world_->tally().Count("op: audit step");
  Expect(step->clean, "an audit beside others' steps finds: " + step->json);
  world_->tally().Count("op: audit clean");
}

void Process::Reconnect() {
  if (world_->Happens(300)) link_.Disconnect();  // the road breaks: the client is detached
  handler_->Connect().ok();
  world_->tally().Count("op: reconnect");
}

void Process::Act() {
  ++world_->steps_taken;
  if (world_->tally().trace) std::printf("  process %u acts\n", pid_);
  if (consumed_.size() > 8) consumed_.erase(consumed_.begin());
  switch (world_->chance().Below(27)) {
    case 0:
    case 1:
    case 2:
    case 3: return Alloc();
    case 4:
    case 5:
    case 6: return Store();
    case 7:
    case 8: return BatchStore();
    case 9: return Free();
    case 10: return FreeStored();
    case 11:
    case 12:
    case 13: return Retrieve();
    case 14: return BatchRetrieve();
    case 15:
    case 16: return Exists();
    case 17: return Pin();
    case 18: return Unpin();
    case 19: return Delete();
    case 20:
    case 21: return DropView();
    case 22: return world_->Happens(300) ? Misuse() : Background();
    case 23:
    case 24: return Audit();
    case 25: return LetGo();
    default: return Reconnect();
  }
}

}  // namespace maru::sim
