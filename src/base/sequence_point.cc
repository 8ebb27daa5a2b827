#include "base/sequence_point.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace maru {

std::atomic<int> internal::installed_hooks{0};

namespace {

struct Entry {
  int id;
  std::string name;  // empty: every point
  AnyPointHook hook;
};

struct Registry {
  std::mutex mutex;
  int next_id = 1;             // guarded by mutex
  std::vector<Entry> entries;  // guarded by mutex
};

// Never destroyed: threads may pass points while the process exits.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

int Install(std::string_view name, AnyPointHook hook) {
  Registry& state = registry();
  const std::lock_guard lock(state.mutex);
  MARU_CHECK_LT(state.entries.size(), kPointHooksMax);
  const int id = state.next_id++;
  state.entries.push_back({id, std::string(name), std::move(hook)});
  internal::installed_hooks.fetch_add(1, std::memory_order_relaxed);
  return id;
}

}  // namespace

void internal::RunHooks(std::string_view name) {
  // Copied, so that a hook runs without the lock and may install or remove hooks itself.
  std::vector<AnyPointHook> hooks;
  {
    Registry& state = registry();
    const std::lock_guard lock(state.mutex);
    for (const Entry& entry : state.entries) {
      if (entry.name.empty() || entry.name == name) hooks.push_back(entry.hook);
    }
  }
  for (const AnyPointHook& hook : hooks) hook(name);
}

ScopedHook::ScopedHook(std::string_view name, PointHook hook)
    : id_(Install(name, [hook = std::move(hook)](std::string_view) { hook(); })) {
  MARU_CHECK(!name.empty());
}

ScopedHook::ScopedHook(AnyPointHook hook) : id_(Install("", std::move(hook))) {}

ScopedHook::~ScopedHook() {
  Registry& state = registry();
  const std::lock_guard lock(state.mutex);
  std::erase_if(state.entries, [this](const Entry& entry) { return entry.id == id_; });
  internal::installed_hooks.fetch_sub(1, std::memory_order_relaxed);
}

struct SequenceGate::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool arrived = false;  // guarded by mutex
  bool open = false;     // guarded by mutex
};

SequenceGate::SequenceGate(std::string_view name)
    : state_(std::make_shared<State>()), hook_(name, [state = state_] {
        std::unique_lock lock(state->mutex);
        if (std::exchange(state->arrived, true)) return;
        state->changed.notify_all();
        state->changed.wait(lock, [&] { return state->open; });
      }) {}

SequenceGate::~SequenceGate() { Open(); }

void SequenceGate::AwaitArrival() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->arrived; });
}

void SequenceGate::Open() {
  const std::lock_guard lock(state_->mutex);
  state_->open = true;
  state_->changed.notify_all();
}

}  // namespace maru
