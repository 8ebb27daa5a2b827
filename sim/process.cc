#include "sim/process.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "sim/call.h"

namespace maru::sim {

namespace {

// Within the quarantine, which begins when the server learns of the death: later than that.
constexpr uint64_t kLateWriteNs = 900'000'000;
constexpr uint64_t kUsualKeyBytes = 42'000;  // three to a slab
constexpr uint64_t kRareKeyBytesMin = 60;
constexpr uint64_t kRareKeyBytesMax = 60'000;

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

std::string Process::DrawKey(Lengths lengths) {
  if (!world_->options().long_keys) {
    return "key-" + std::to_string(world_->chance().Below(kKeys));
  }
  uint64_t number = 0;
  switch (lengths) {
    case Lengths::kAny: number = world_->chance().Below(kUsualKeys + kRareKeys); break;
    case Lengths::kUsual: number = world_->chance().Below(kUsualKeys); break;
    case Lengths::kRare: number = kUsualKeys + world_->chance().Below(kRareKeys); break;
  }
  uint64_t length_bytes = kUsualKeyBytes;
  if (number >= kUsualKeys) {
    length_bytes = kRareKeyBytesMin;
    for (uint64_t i = kUsualKeys; i < number; ++i) length_bytes += length_bytes * 3 / 5;
  }
  std::string key = "key-" + std::to_string(number);
  key.resize(std::min(length_bytes, kRareKeyBytesMax), '.');
  return key;
}

bool Process::Keeps() const { return world_->options().long_keys && !world_->Happens(100); }

std::vector<std::string> Process::DrawKeys() {
  std::vector<std::string> keys;
  for (uint64_t i = 0, n = 1 + world_->chance().Below(kBatchMax); i < n; ++i) {
    keys.push_back(DrawKey(Lengths::kAny));
  }
  return keys;
}

std::string Process::NameOf(const std::string& key) { return key.substr(0, key.find('.')); }

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
  Expect(bytes.size() == kLength,
         "view of " + NameOf(key) + " has " + std::to_string(bytes.size()));
  Expect(std::memcmp(bytes.data(), content.data(), kLength) == 0,
         "view of " + NameOf(key) +
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
  const std::string key = DrawKey(Lengths::kUsual);
  Trace("stores", draft.page);
  Write(draft.page, Content(name_space_ + key));
  Call call(world_, name_space_, {key});
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
  if (*stored) call.ExpectStored(0);
}

void Process::BatchStore() {
  std::vector<handler::Handler::StoreItem> items;
  std::vector<Draft> batch;
  std::vector<std::string> keys;
  keys.reserve(8);
  const size_t count = std::min<size_t>(drafts_.size(), 1 + world_->chance().Below(4));
  if (count == 0) return Alloc();
  // Where key text has run out, each needs a slab of its own.
  const Lengths lengths = world_->Happens(400) ? Lengths::kRare : Lengths::kUsual;
  for (size_t i = 0; i < count; ++i) {
    // The same key twice in one batch is a duplicate like any other.
    keys.push_back(i > 0 && world_->Happens(200) ? keys[0] : DrawKey(lengths));
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
  Call call(world_, name_space_, keys);
  const auto stored = handler_->BatchStore(items);
  for (size_t i = 0; i < count; ++i) Consumed(batch[i], Content(name_space_ + keys[i]));
  if (!stored.ok()) {
    world_->tally().Count("op: batch store refused");
    for (size_t i = 0; i < count; ++i) handler_->Free(items[i].page).ok();
    return;
  }
  Expect(stored->size() == items.size(), "not one answer for each item");
  if (items.size() > count) Expect(!stored->back(), "a handle was stored twice");
  for (size_t i = 0; i < count; ++i) {
    consumed_.push_back(items[i].page);
    world_->tally().Count((*stored)[i] ? "op: batch store true" : "op: batch store false");
    if ((*stored)[i]) call.ExpectStored(i);
  }
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
  const auto stored = handler_->Store(DrawKey(Lengths::kAny), page, kLength);
  Expect(!stored.ok(), "a handle that is over was stored");
  world_->tally().Count("op: store twice");
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
  switch (world_->chance().Below(32)) {
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
    case 19: return Keeps() ? Store() : Delete();
    case 20:
    case 21: return DropView();
    case 22: return world_->Happens(300) ? Misuse() : Background();
    case 23:
    case 24: return Audit();
    case 25: return LetGo();
    case 26: return BatchExists();
    case 27: return MatchPrefix();
    case 28: return BatchPin();
    case 29: return BatchUnpin();
    case 30: return Keeps() ? BatchStore() : BatchDelete();
    default: return Reconnect();
  }
}

}  // namespace maru::sim
