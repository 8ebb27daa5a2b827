#include "net/event_loop.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace maru::net {

namespace {
constexpr int32_t kWaitMsMax = 60'000;
}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::Create(const Clock* clock) {
  MARU_ASSIGN_OR_RETURN(os::Poller poller, os::Poller::Create());
  MARU_ASSIGN_OR_RETURN(os::WakeFd wake, os::WakeFd::Create());
  std::unique_ptr<EventLoop> loop(new EventLoop(clock, std::move(poller), std::move(wake)));
  EventLoop* const self = loop.get();
  MARU_RETURN_IF_ERROR(
      loop->Watch(loop->wake_.fd(), os::Interest::kRead, [self](const os::ReadyEvent&) {
        self->wake_.Drain();
        self->stopping_ = true;
      }));
  return loop;
}

Status EventLoop::Watch(int fd, os::Interest interest, Callback callback) {
  MARU_CHECK(!tokens_.contains(fd)) << "descriptor " << fd << " is watched already";
  const uint64_t token = next_token_++;
  MARU_RETURN_IF_ERROR(poller_.Add(fd, interest, token));
  tokens_[fd] = token;
  watched_[token] = std::make_shared<Watched>(Watched{fd, std::move(callback)});
  return OkStatus();
}

Status EventLoop::Change(int fd, os::Interest interest) {
  const auto at = tokens_.find(fd);
  MARU_CHECK(at != tokens_.end()) << "descriptor " << fd << " is not watched";
  return poller_.Change(fd, interest, at->second);
}

void EventLoop::Unwatch(int fd) {
  const auto at = tokens_.find(fd);
  if (at == tokens_.end()) return;
  MARU_CHECK_OK(poller_.Remove(fd));
  watched_.erase(at->second);
  tokens_.erase(at);
}

void EventLoop::CallAt(uint64_t time_ns, std::function<void()> callback) {
  call_at_ns_ = time_ns;
  timed_call_ = std::move(callback);
}

uint64_t EventLoop::CallInTurn(std::function<void()> callback) {
  turns_.push_back({next_turn_, std::move(callback)});
  return next_turn_++;
}

void EventLoop::ForgetTurn(uint64_t number) {
  const auto at = std::ranges::find(turns_, number, &Turn::number);
  MARU_CHECK(at != turns_.end()) << "turn " << number << " is asked for by none";
  turns_.erase(at);
}

void EventLoop::CallNextInTurn() {
  if (turns_.empty() || stopping_) return;
  const Turn turn = std::move(turns_.front());
  turns_.pop_front();
  turn.callback();
}

int32_t EventLoop::WaitMs() const {
  if (!turns_.empty()) return 0;
  if (call_at_ns_ == 0) return -1;
  const int64_t left = static_cast<int64_t>(call_at_ns_) - clock_->Now();
  if (left <= 0) return 0;
  // Rounded up: waking before the time is due would only mean to wait again.
  return static_cast<int32_t>(
      std::min<int64_t>((left + kNanosPerMilli - 1) / kNanosPerMilli, kWaitMsMax));
}

void EventLoop::CallWhenDue() {
  if (call_at_ns_ == 0 || clock_->Now() < static_cast<int64_t>(call_at_ns_)) return;
  call_at_ns_ = 0;
  const std::function<void()> call = std::move(timed_call_);
  call();
}

Status EventLoop::Run() {
  std::array<os::ReadyEvent, os::kReadyEventsMax> events;
  while (!stopping_) {
    MARU_ASSIGN_OR_RETURN(const size_t count, poller_.Wait(events, WaitMs()));
    for (size_t i = 0; i < count && !stopping_; ++i) {
      const auto at = watched_.find(events[i].token);
      if (at == watched_.end()) continue;
      const std::shared_ptr<Watched> watched = at->second;  // it may unwatch itself
      watched->callback(events[i]);
    }
    CallWhenDue();
    CallNextInTurn();
  }
  return OkStatus();
}

void EventLoop::Stop() { wake_.Notify(); }

}  // namespace maru::net
