#include "os/resolve.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "base/testing.h"

namespace maru::os {
namespace {

constexpr uint32_t kLongMs = 60'000;

std::vector<std::string> Texts(const std::vector<TcpAddress>& addresses) {
  std::vector<std::string> texts;
  for (const TcpAddress& address : addresses) texts.push_back(address.ToString());
  return texts;
}

Result<std::vector<std::string>> NeverAsked(const std::string& host) {
  ADD_FAILURE() << host << " was looked up";
  return std::vector<std::string>();
}

// Answers when the test says so.
class Gate {
 public:
  internal::LookUp look_up() {
    return [this](const std::string&) -> Result<std::vector<std::string>> {
      std::unique_lock lock(mutex_);
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
      --waiting_;
      changed_.notify_all();
      return std::vector<std::string>{"127.0.0.9"};
    };
  }
  void AwaitWaiting(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == count; });
  }
  void Open() {
    std::unique_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return waiting_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST(HostPort, ReadsNamesAndNumbers) {
  for (const char* text :
       {"localhost:5555", "node-7.cluster_a:1", "127.0.0.1:65535", "[::1]:5555"}) {
    ASSERT_OK_AND_ASSIGN(const HostPort parsed, HostPort::Parse(text));
    EXPECT_EQ(parsed.ToString(), text);
  }
  EXPECT_EQ(HostPort::Parse("[fe80::1]:5555")->host, "fe80::1");
}

TEST(HostPort, RefusesAnythingElse) {
  for (const std::string text :
       {"", ":", ":5555", "host", "host:", "host:0", "host:65536", "host:-1", "host:1x", "host:1:2",
        "::1:80", "[::1]", "[host]:1", "*:5555", "a b:1", "-a:1", "a/b:1", "host:1/"}) {
    EXPECT_CODE(HostPort::Parse(text), kInvalidArgument) << text;
  }
  EXPECT_OK(HostPort::Parse(std::string(kHostNameBytesMax, 'h') + ":1"));
  EXPECT_CODE(HostPort::Parse(std::string(kHostNameBytesMax + 1, 'h') + ":1"), kInvalidArgument);
}

TEST(Resolve, NumbersAndLocalhostAskNobody) {
  const auto texts = [](const std::string& host) {
    return Texts(*internal::ResolveWith(&NeverAsked, {host, 5555}, Deadline::After(0)));
  };
  EXPECT_EQ(texts("localhost"), (std::vector<std::string>{"127.0.0.1:5555", "[::1]:5555"}));
  EXPECT_EQ(texts("127.0.0.3"), (std::vector<std::string>{"127.0.0.3:5555"}));
  EXPECT_EQ(texts("::1"), (std::vector<std::string>{"[::1]:5555"}));
}

TEST(Resolve, NamesAreLookedUp) {
  const internal::LookUp look_up = [](const std::string& host) -> Result<std::vector<std::string>> {
    if (host != "node") return Unavailable("no " + host);
    return std::vector<std::string>{"fe80::1%eth0", "::1", "10.0.0.1"};
  };
  const Deadline deadline = Deadline::After(kLongMs);
  EXPECT_EQ(Texts(*internal::ResolveWith(look_up, {"node", 1}, deadline)),
            (std::vector<std::string>{"[::1]:1", "10.0.0.1:1"}));
  EXPECT_EQ(internal::ResolveWith(look_up, {"other", 1}, deadline).status().message(), "no other");
  const internal::LookUp none = [](const std::string&) { return std::vector<std::string>(); };
  EXPECT_CODE(internal::ResolveWith(none, {"node", 1}, deadline), kUnavailable);
}

// A label of 64 bytes is no name of DNS: the C library says so, and asks no server.
TEST(Resolve, TheSystemKnowsNoInvalidName) {
  const std::string name(64, 'n');
  const auto unknown = Resolve({name, 1}, Deadline::After(kLongMs));
  EXPECT_CODE(unknown, kUnavailable);
  EXPECT_NE(unknown.status().message().find(name), std::string::npos);
}

TEST(Resolve, AnAnswerThatDoesNotComeCostsTheTimeAndNoMore) {
  Gate gate;
  for (int i = 1; i <= kLookUpsMax; ++i) {
    EXPECT_CODE(internal::ResolveWith(gate.look_up(), {"node", 1}, Deadline::After(1)),
                kDeadlineExceeded);
    gate.AwaitWaiting(i);
  }
  const auto refused = internal::ResolveWith(gate.look_up(), {"node", 1}, Deadline::After(kLongMs));
  EXPECT_CODE(refused, kUnavailable);
  EXPECT_NE(refused.status().message().find("8 others"), std::string::npos);
  gate.Open();
}

}  // namespace
}  // namespace maru::os
