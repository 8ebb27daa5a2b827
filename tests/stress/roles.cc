// What a reader and a writer of the stress test do, each in a process of its own.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "board.h"
#include "maru/client.h"

namespace maru::stress {

namespace {

Result<std::unique_ptr<Client>> Connect(const Role& role, const char* label) {
  ClientOptions options;
  options.server_url = role.socket;
  options.label = label;
  options.page_bytes = kPageBytes;
  options.hand_bytes_max = 64 * kPageBytes;
  options.timeout_ms = 600'000;  // a machine under load is no failure
  return Client::Connect(options);
}

class Reader {
 public:
  Reader(const Role& role, Client* client) : role_(role), client_(client), random_(role.seed) {}

  std::string Run() {
    while (wrong_.empty() && Get(role_.board->stop_reading) == 0) {
      const uint64_t drawn = random_.Below(16);
      if (drawn == 0) {
        PinOne();
      } else if (drawn < 4) {
        ReadOne();
      } else {
        ReadBatch();
      }
    }
    for (Held& held : held_) JudgeLate(held);
    return wrong_;
  }

 private:
  static constexpr size_t kHeld = 64;
  static constexpr size_t kBatch = 32;
  struct Held {
    View view;
    uint64_t key = 0;
  };

  void Wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }
  template <typename T>
  bool Ok(const Result<T>& result) {
    if (!result.ok()) Wrong(result.status().ToString());
    return result.ok();
  }

  void Take(View view, uint64_t key) {
    if (!view) return Count(role_.board->missed);
    const std::string fault = Judge(key, view.bytes());
    if (!fault.empty()) return Wrong(KeyOf(key) + ": " + fault);
    if (++unreported_ == kReport) Report();
    // Some are held while their keys are deleted and stored anew.
    if (!random_.OneIn(4)) return;
    Held& place = held_[random_.Below(kHeld)];
    JudgeLate(place);
    place = {std::move(view), key};
  }
  void JudgeLate(Held& held) {
    if (!held.view) return;
    const std::string fault = Judge(held.key, held.view.bytes());
    if (!fault.empty()) return Wrong(KeyOf(held.key) + " while it was held: " + fault);
    Count(role_.board->verified_late);
  }
  void Report() {
    const uint64_t before = role_.board->verified.fetch_add(unreported_, std::memory_order_relaxed);
    unreported_ = 0;
    if (before / role_.reads_per_byte == (before + kReport) / role_.reads_per_byte) return;
    const char byte = 'r';
    if (::write(role_.progress, &byte, 1) != 1) Wrong("nobody waits for progress");
  }

  void ReadOne() {
    const uint64_t key = random_.Below(kKeys);
    Result<View> view = client_->Retrieve(KeyOf(key));
    if (Ok(view)) Take(std::move(*view), key);
  }
  void ReadBatch() {
    std::array<uint64_t, kBatch> numbers;
    std::array<std::string, kBatch> keys;
    for (size_t i = 0; i < kBatch; ++i) {
      numbers[i] = random_.Below(kKeys);
      keys[i] = KeyOf(numbers[i]);
    }
    const std::vector<std::string_view> texts(keys.begin(), keys.end());
    Result<std::vector<View>> views = client_->BatchRetrieve(texts);
    if (!Ok(views)) return;
    for (size_t i = 0; i < kBatch; ++i) Take(std::move((*views)[i]), numbers[i]);
  }
  // While it is pinned a key stays, whoever deletes it.
  void PinOne() {
    const uint64_t number = random_.Below(kKeys);
    const std::string key = KeyOf(number);
    const Result<bool> pinned = client_->Pin(key);
    if (!Ok(pinned) || !*pinned) return;
    Count(role_.board->pinned);
    const Result<Deleted> deleted = client_->Delete(key);
    if (Ok(deleted) && *deleted != Deleted::kPinned) Wrong(key + " is pinned and was deleted");
    Result<View> view = client_->Retrieve(key);
    if (Ok(view) && !*view) Wrong(key + " is pinned and is not there");
    if (view.ok()) Take(std::move(*view), number);
    const Result<bool> unpinned = client_->Unpin(key);
    if (Ok(unpinned) && !*unpinned) Wrong(key + " was pinned and has no pin");
  }

  static constexpr uint64_t kReport = 256;
  const Role& role_;
  Client* const client_;
  Random random_;
  std::array<Held, kHeld> held_;
  uint64_t unreported_ = 0;
  std::string wrong_;
};

// One turn of a writer: stores some keys, deletes some.
Status WriteTurn(Client& client, Board& board, Random& random) {
  constexpr size_t kBatch = 32;
  std::vector<std::string> keys;
  std::vector<Page> pages;
  const uint64_t count = random.Between(1, kBatch);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t key = random.Below(kKeys);
    const uint64_t store = board.stores.fetch_add(1, std::memory_order_relaxed) + 1;
    MARU_ASSIGN_OR_RETURN(Page page, client.Alloc(WordsOf(store) * 8));
    // First what is no key's, so that whoever still reads the page's last life sees it.
    std::fill(page.bytes().begin(), page.bytes().end(), std::byte{0xEE});
    Fill(key, store, reinterpret_cast<uint64_t*>(page.data()));
    if (random.OneIn(32)) continue;  // goes back unstored
    keys.push_back(KeyOf(key));
    pages.push_back(std::move(page));
  }
  std::vector<std::string_view> texts(keys.begin(), keys.end());
  MARU_ASSIGN_OR_RETURN(const std::vector<bool> stored, client.BatchStore(texts, pages));
  Count(board.stored, stored.size());
  if (std::count(stored.begin(), stored.end(), true) != static_cast<ptrdiff_t>(keys.size())) {
    return Internal("a store answered False");
  }
  for (std::string& key : keys) key = KeyOf(random.Below(kKeys));
  texts.assign(keys.begin(), keys.end());
  MARU_ASSIGN_OR_RETURN(const std::vector<Deleted> outcomes, client.BatchDelete(texts));
  Count(board.deleted,
        static_cast<uint64_t>(std::count(outcomes.begin(), outcomes.end(), Deleted::kDeleted)));
  return OkStatus();
}

}  // namespace

std::string RunReader(const Role& role) {
  const auto client = Connect(role, "reader");
  if (!client.ok()) return client.status().ToString();
  return Reader(role, client->get()).Run();
}

std::string RunWriter(const Role& role) {
  const auto client = Connect(role, "writer");
  if (!client.ok()) return client.status().ToString();
  Random random(role.seed);
  Status status;
  while (status.ok() && Get(role.board->stop_writing) == 0) {
    status = WriteTurn(**client, *role.board, random);
  }
  return status.ok() ? "" : status.ToString();
}

}  // namespace maru::stress
