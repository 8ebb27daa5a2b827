#include "net/compat/resource_manager_endpoint.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/test_log.h"
#include "base/testing.h"
#include "net/compat/test_loop.h"
#include "os/event.h"
#include "os/test_host.h"
#include "os/unique_fd.h"
#include "wire/compat/resource_manager_codec.h"

namespace maru::net::compat {
namespace {

using wire::compat::kRmHeaderBytes;
using wire::compat::kRmMagic;
using wire::compat::kRmVersion;
using wire::compat::RmStatus;
using Bytes = std::vector<std::byte>;

template <typename T>
void Put(Bytes& out, T value) {
  out.resize(out.size() + sizeof(T));
  StoreLittle(&out[out.size() - sizeof(T)], value);
}

Bytes Request(uint16_t type, const Bytes& payload) {
  Bytes out;
  Put(out, kRmMagic);
  Put(out, kRmVersion);
  Put(out, type);
  Put(out, static_cast<uint32_t>(payload.size()));
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

Bytes Stats() { return Request(5, {}); }

Bytes Alloc(std::string_view client, uint64_t request_id, uint64_t bytes = 4096) {
  Bytes payload;
  Put(payload, bytes);
  Put(payload, uint64_t{0});
  Put(payload, static_cast<uint16_t>(client.size()));
  const auto id = AsBytes(client);
  payload.insert(payload.end(), id.begin(), id.end());
  Put(payload, request_id);
  return Request(1, payload);
}

Bytes Access(std::string_view client) {
  Bytes payload(32);
  Put(payload, static_cast<uint16_t>(client.size()));
  const auto id = AsBytes(client);
  payload.insert(payload.end(), id.begin(), id.end());
  return Request(9, payload);
}

// An allocation comes back with its request id as region id, and is the client's from then on;
// anything else is answered with statistics, which tell one pool.
class TestService : public ResourceManagerService {
 public:
  Bytes Answer(const RmCaller& caller, const wire::compat::RmRequest& request) override {
    if (const auto* alloc = std::get_if<wire::compat::RmAllocRequest>(&request)) {
      EXPECT_EQ(caller.client_id, alloc->client_id);
      const MutexLock lock(mutex_);
      ++allocs_;
      Count(ResourceManagerEndpoint::kRequestsPerTurnMax);
      ++regions_[std::string(alloc->client_id)];
      return EncodeRmReply(
          wire::compat::RmAllocReply{.handle = {alloc->request_id, 0, 0, 0}, .path = path_});
    }
    const MutexLock lock(mutex_);
    Count(1);
    if (std::holds_alternative<wire::compat::RmStatsRequest>(request)) ++stats_;
    const std::vector<wire::compat::RmPool> pools(path_.empty() ? 1 : 113, {std::string(40, 'p')});
    return EncodeRmReply(wire::compat::RmStatsReply{pools});
  }
  // Of more than a GiB: there when so many other requests have come since, as it has GiB.
  uint64_t Begin(const RmCaller& caller, const wire::compat::RmRequest& request,
                 Bytes* reply) override {
    const auto* const alloc = std::get_if<wire::compat::RmAllocRequest>(&request);
    if (alloc == nullptr || alloc->size_bytes < kGiB) {
      *reply = Answer(caller, request);
      return 0;
    }
    const MutexLock lock(mutex_);
    Count(ResourceManagerEndpoint::kRequestsPerTurnMax);
    under_way_[alloc->request_id] = stats_ + alloc->size_bytes / kGiB;
    return alloc->request_id;
  }
  std::optional<Bytes> GoOn(uint64_t number) override {
    const MutexLock lock(mutex_);
    Count(ResourceManagerEndpoint::kRequestsPerTurnMax);
    if (stats_ < under_way_.at(number) && ++steps_ < kStepsMax) return std::nullopt;
    under_way_.erase(number);
    return EncodeRmReply(wire::compat::RmAllocReply{.handle = {number, 0, 0, 0}});
  }
  size_t under_way() {
    const MutexLock lock(mutex_);
    return under_way_.size();
  }
  uint64_t stats() {
    const MutexLock lock(mutex_);
    return stats_;
  }
  RmHolds HoldsOf(const RmCaller& caller) const override {
    const MutexLock lock(mutex_);
    const auto at = regions_.find(caller.client_id);
    return {.endpoints = caller.client_id.starts_with("server") ? size_t{1} : 0,
            .regions = at == regions_.end() ? 0 : at->second};
  }
  void OnClosed(const RmCaller& caller) override {
    const MutexLock lock(mutex_);
    closed_.emplace_back(caller.client_id);
    under_way_.clear();
  }
  void MakeRepliesLarge() {
    const MutexLock lock(mutex_);
    path_ = std::string(4000, 'p');
  }
  // Another descriptor of the loop has had its turn.
  void EndRound() {
    const MutexLock lock(mutex_);
    cost_of_round_ = 0;
  }
  size_t cost_of_a_round_max() {
    const MutexLock lock(mutex_);
    return cost_of_a_round_max_;
  }
  uint64_t allocs() {
    const MutexLock lock(mutex_);
    return allocs_;
  }
  std::vector<std::string> closed() {
    const MutexLock lock(mutex_);
    return closed_;
  }

 private:
  static constexpr uint64_t kStepsMax = 100'000'000;

  void Count(size_t cost) MARU_REQUIRES(mutex_) {
    cost_of_round_ += cost;
    cost_of_a_round_max_ = std::max(cost_of_a_round_max_, cost_of_round_);
  }

  mutable Mutex mutex_;
  std::map<uint64_t, uint64_t> under_way_ MARU_GUARDED_BY(mutex_);  // until there were so many
  uint64_t stats_ MARU_GUARDED_BY(mutex_) = 0, steps_ MARU_GUARDED_BY(mutex_) = 0;
  std::map<std::string, size_t, std::less<>> regions_ MARU_GUARDED_BY(mutex_);
  uint64_t allocs_ MARU_GUARDED_BY(mutex_) = 0;
  size_t cost_of_round_ MARU_GUARDED_BY(mutex_) = 0;
  size_t cost_of_a_round_max_ MARU_GUARDED_BY(mutex_) = 0;
  std::string path_ MARU_GUARDED_BY(mutex_);
  std::vector<std::string> closed_ MARU_GUARDED_BY(mutex_);
};

struct Reply {
  uint16_t type = 0;
  Bytes payload;

  RmStatus status() const { return static_cast<RmStatus>(LoadLittle<uint32_t>(payload.data())); }
  std::string message() const { return std::string(AsText(std::span(payload).subspan(8))); }
  uint64_t region_id() const { return LoadLittle<uint64_t>(&payload[8]); }
};

class Peer {
 public:
  // The kernel sizes the buffer itself when none is asked for.
  explicit Peer(uint16_t port, int receive_bytes = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes != 0) {
      EXPECT_EQ(::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(int)), 0);
    }
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  }
  void Send(std::span<const std::byte> bytes) {
    ASSERT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  Reply Receive() {
    Bytes head(kRmHeaderBytes);
    EXPECT_EQ(ReadAll(head), head.size());
    Reply reply;
    reply.type = LoadLittle<uint16_t>(&head[6]);
    reply.payload.resize(LoadLittle<uint32_t>(&head[8]));
    EXPECT_EQ(ReadAll(reply.payload), reply.payload.size());
    return reply;
  }
  Reply Ask(const Bytes& request) {
    Send(request);
    return Receive();
  }
  bool AtEnd() {
    std::byte one;
    return ::recv(fd_.get(), &one, 1, 0) <= 0;
  }
  void EndSending() { ::shutdown(fd_.get(), SHUT_WR); }

 private:
  size_t ReadAll(Bytes& to) {
    if (to.empty()) return 0;
    const ssize_t size = ::recv(fd_.get(), to.data(), to.size(), MSG_WAITALL);
    return size < 0 ? 0 : static_cast<size_t>(size);
  }
  os::UniqueFd fd_;
};

class ResourceManagerEndpointTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(endpoint_,
                         ResourceManagerEndpoint::Create(loop_.get(), &service_,
                                                         *os::TcpAddress::Parse("127.0.0.1:0"),
                                                         ResourceManagerEndpoint::kConnectionsMax));
    loop_.Start();
  }
  void TearDown() override {
    loop_.Stop();
    endpoint_.reset();
  }
  Peer Connect() { return Peer(endpoint_->address().port()); }
  void ExpectServed() {
    Peer peer = Connect();
    EXPECT_EQ(peer.Ask(Stats()).type, 6);
  }

  TestService service_;
  TestLoop loop_;
  std::unique_ptr<ResourceManagerEndpoint> endpoint_;
};

TEST_F(ResourceManagerEndpointTest, TakesRequestsInPiecesOfAnySize) {
  Peer peer = Connect();
  const Bytes request = Alloc("host:1", 7);
  for (const std::byte byte : request) peer.Send({&byte, 1});
  EXPECT_EQ(peer.Receive().region_id(), 7u);
  // The second begins within the packet of the first.
  Bytes two = Alloc("host:1", 8);
  const Bytes second = Alloc("host:1", 9);
  two.insert(two.end(), second.begin(), second.begin() + 20);
  peer.Send(two);
  EXPECT_EQ(peer.Receive().region_id(), 8u);
  peer.Send(std::span(second).subspan(20));
  EXPECT_EQ(peer.Receive().region_id(), 9u);
}

TEST_F(ResourceManagerEndpointTest, AnswersAThousandPipelinedRequestsInOrder) {
  Peer peer = Connect();
  Bytes all;
  for (uint64_t i = 0; i < 1000; ++i) {
    const Bytes one = Alloc("host:1", i);
    all.insert(all.end(), one.begin(), one.end());
  }
  peer.Send(all);
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(peer.Receive().region_id(), i);
}

TEST_F(ResourceManagerEndpointTest, EndsAStreamThatIsOutOfStep) {
  Bytes oversized = Stats();
  StoreLittle(&oversized[8], uint32_t{8193});
  Bytes magic = Stats();
  magic[0] = std::byte{0};
  Bytes version = Stats();
  version[4] = std::byte{1};
  for (const Bytes& bad : {oversized, magic, version}) {
    Peer peer = Connect();
    Bytes bytes = Stats();
    bytes.insert(bytes.end(), bad.begin(), bad.end());
    peer.Send(bytes);
    EXPECT_EQ(peer.Receive().type, 6) << "what came before is answered";
    const Reply reply = peer.Receive();
    EXPECT_EQ(reply.type, 255);
    EXPECT_EQ(reply.status(), RmStatus::kInvalid);
    EXPECT_NE(reply.message(), "");
    EXPECT_TRUE(peer.AtEnd());
  }
  ExpectServed();
}

TEST_F(ResourceManagerEndpointTest, AnswersMalformedPayloadsAndGoesOn) {
  Peer peer = Connect();
  const Reply truncated = peer.Ask(Request(1, Bytes(20)));
  EXPECT_EQ(truncated.type, 255);
  EXPECT_EQ(truncated.message(), "ALLOC: request id takes 8 bytes, only 2 are left");
  EXPECT_EQ(peer.Ask(Request(77, {})).message(), "no request has the message type 77");
  EXPECT_EQ(peer.Ask(Request(5, Bytes(8192))).type, 6) << "the largest payload";
  EXPECT_EQ(peer.Ask(Stats()).type, 6);
}

TEST_F(ResourceManagerEndpointTest, BindsAConnectionToItsFirstClient) {
  {
    Peer peer = Connect();
    EXPECT_EQ(peer.Ask(Stats()).type, 6);
    EXPECT_EQ(peer.Ask(Alloc("host:1", 1)).type, 2);
    const Reply refused = peer.Ask(Alloc("host:2", 2));
    EXPECT_EQ(refused.type, 255);
    EXPECT_EQ(refused.status(), RmStatus::kAccess);
    EXPECT_EQ(peer.Ask(Alloc("host:1", 3)).region_id(), 3u);
    EXPECT_EQ(peer.Ask(Stats()).type, 6);
    EXPECT_TRUE(service_.closed().empty());
    peer.EndSending();
    EXPECT_TRUE(peer.AtEnd());
  }
  {
    Peer unnamed = Connect();
  }
  loop_.Stop();
  endpoint_.reset();
  EXPECT_EQ(service_.closed(), std::vector<std::string>{"host:1"});
}

TEST_F(ResourceManagerEndpointTest, AnIdThatIsRefusedBindsNoConnection) {
  Peer peer = Connect();
  EXPECT_EQ(peer.Ask(Alloc(std::string_view("host\0", 5), 1)).message(),
            "ALLOC: client id has a zero byte");
  EXPECT_EQ(peer.Ask(Alloc("host\xFF", 1)).message(),
            "ALLOC: client id is a text of 5 bytes that is no UTF-8");
  EXPECT_EQ(peer.Ask(Alloc(std::string(257, 'h'), 2)).type, 255);
  EXPECT_EQ(peer.Ask(Alloc(std::string(256, 'h'), 3)).region_id(), 3u) << "the longest";
}

TEST_F(ResourceManagerEndpointTest, ServesOthersWhileAPeerIsSilentInAHeader) {
  Peer half = Connect();
  half.Send(std::span<const std::byte>(Stats()).first(5));
  Peer payload = Connect();
  payload.Send(std::span<const std::byte>(Alloc("host:1", 1)).first(30));
  ExpectServed();
  half.Send(std::span<const std::byte>(Stats()).subspan(5));
  EXPECT_EQ(half.Receive().type, 6) << "and takes up again whenever it likes";
}

TEST_F(ResourceManagerEndpointTest, ServesOthersWhileAPeerDoesNotReadAndLosesNoReply) {
  // Replies of 40 MB: more than sockets and the endpoint hold for a peer.
  constexpr uint64_t kRequests = 10'000;
  service_.MakeRepliesLarge();
  Peer deaf = Connect();
  std::thread sender([&deaf] {
    for (uint64_t i = 0; i < kRequests; ++i) deaf.Send(Alloc("host:1", i));
  });
  // Until the endpoint stops reading from it. It may take another look after the first one.
  for (uint64_t before = ~uint64_t{0}; before != service_.allocs();) {
    before = service_.allocs();
    ExpectServed();
  }
  EXPECT_LT(service_.allocs(), kRequests);
  for (uint64_t i = 0; i < kRequests; ++i) {
    const Reply reply = deaf.Receive();
    ASSERT_EQ(reply.region_id(), i);
    ASSERT_GT(reply.payload.size(), 4000u);
  }
  sender.join();
}

TEST_F(ResourceManagerEndpointTest, AnswersWhatWasSentBeforeThePeerEndedItsSide) {
  // As many requests as the endpoint reads at once, replies of 5 MB: far more than a peer with a
  // small buffer takes, so its end is seen while replies wait.
  constexpr int kRequests = 680;
  service_.MakeRepliesLarge();
  Peer peer(endpoint_->address().port(), 4096);
  Bytes all;
  for (int i = 0; i < kRequests; ++i) {
    const Bytes one = Stats();
    all.insert(all.end(), one.begin(), one.end());
  }
  peer.Send(all);
  peer.EndSending();
  for (int i = 0; i < kRequests; ++i) ASSERT_GT(peer.Receive().payload.size(), 8000u) << i;
  EXPECT_TRUE(peer.AtEnd());
}

TEST_F(ResourceManagerEndpointTest, OthersAreAnsweredWhileARequestTakesItsSteps) {
  Peer peer = Connect(), second = Connect(), other = Connect();
  Bytes two = Alloc("host:1", 7, 3 * kGiB);
  const Bytes next = Alloc("host:1", 8);
  two.insert(two.end(), next.begin(), next.end());
  peer.Send(two);
  second.Send(Alloc("host:2", 9, 2 * kGiB));
  while (service_.under_way() < 2) EXPECT_EQ(other.Ask(Access("")).type, 6);
  const uint64_t before = service_.stats();
  EXPECT_EQ(service_.allocs(), 0u) << "a request behind it on its connection waits";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(other.Ask(Stats()).type, 6);
  EXPECT_EQ(second.Receive().region_id(), 9u);
  EXPECT_EQ(peer.Receive().region_id(), 7u);
  EXPECT_EQ(peer.Receive().region_id(), 8u);
  EXPECT_EQ(service_.stats(), before + 3);
}

TEST_F(ResourceManagerEndpointTest, APeerThatClosesMeanwhileIsGoneAtOnce) {
  Peer other = Connect();
  for (const bool sending_side_only : {false, true}) {
    auto peer = std::make_unique<Peer>(endpoint_->address().port());
    peer->Send(Alloc("host:1", 7, 1'000'000 * kGiB));
    while (service_.under_way() == 0) EXPECT_EQ(other.Ask(Access("")).type, 6);
    if (sending_side_only) {
      peer->EndSending();
    } else {
      peer.reset();
    }
    while (service_.under_way() > 0) EXPECT_EQ(other.Ask(Access("")).type, 6);
    if (sending_side_only) {
      EXPECT_TRUE(peer->AtEnd());
    }
  }
  EXPECT_EQ(service_.closed(), (std::vector<std::string>{"host:1", "host:1"}));
  ExpectServed();
}

TEST_F(ResourceManagerEndpointTest, WhoSendsOnMeanwhileIsReadAsFarAsThereIsRoom) {
  Peer peer = Connect(), other = Connect();
  Bytes all = Alloc("host:1", 1, 2 * kGiB);
  for (uint64_t i = 2; i <= 1000; ++i) {
    const Bytes one = Alloc("host:1", i);
    all.insert(all.end(), one.begin(), one.end());
  }
  peer.Send(all);
  while (service_.under_way() == 0) EXPECT_EQ(other.Ask(Access("")).type, 6);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(other.Ask(Stats()).type, 6);
  for (uint64_t i = 1; i <= 1000; ++i) ASSERT_EQ(peer.Receive().region_id(), i);
}

TEST_F(ResourceManagerEndpointTest, ARegionIsMadeForNobodyWhoHasEndedItsSide) {
  Peer other = Connect(), peer = Connect();
  // Of one read, so the end is seen while those behind the first wait for their turns.
  Bytes all = Stats();
  for (uint64_t i = 1; i <= 100; ++i) {
    const Bytes one = Alloc("host:1", i, kGiB);
    all.insert(all.end(), one.begin(), one.end());
  }
  peer.Send(all);
  peer.EndSending();
  EXPECT_EQ(peer.Receive().type, 6);
  EXPECT_TRUE(peer.AtEnd());
  // The first may have begun before the end came; it is given up then.
  for (int asked = 0; service_.under_way() != 0; ++asked) {
    ASSERT_LT(asked, 1000) << "a region is under way for a peer that is gone";
    EXPECT_EQ(other.Ask(Stats()).type, 6);
  }
  ExpectServed();
}

// With another descriptor in the loop that is always ready.
class ResourceManagerEndpointTurns : public ResourceManagerEndpointTest {
 protected:
  static constexpr uint64_t kRequests = 100;
  static constexpr uint64_t kSmall = 90;

  void SetUp() override {
    other_.emplace(&loop_, [this] { service_.EndRound(); });
    ResourceManagerEndpointTest::SetUp();
  }
  void TearDown() override {
    loop_.Stop();
    other_.reset();
    ResourceManagerEndpointTest::TearDown();
  }

  std::optional<EverReady> other_;
};

TEST_F(ResourceManagerEndpointTurns, HoldOneAllocationHoweverManyComeAtOnceAndOfWhom) {
  std::vector<Peer> peers;
  for (uint64_t i = 0; i < 8; ++i) {
    peers.push_back(Connect());
    Bytes all;
    for (uint64_t k = 0; k < kRequests; ++k) {
      const bool in_steps = k % 10 == 0;
      const Bytes one =
          Alloc("host:" + std::to_string(i), 1000 * i + k + 1, in_steps ? kGiB : kMiB);
      all.insert(all.end(), one.begin(), one.end());
    }
    peers.back().Send(all);
  }
  Peer other = Connect();
  while (service_.allocs() < 8 * kSmall) EXPECT_EQ(other.Ask(Stats()).type, 6);
  for (uint64_t i = 0; i < 8; ++i) {
    for (uint64_t k = 0; k < kRequests; ++k)
      EXPECT_EQ(peers[i].Receive().region_id(), 1000 * i + k + 1);
  }
  // One, and what little else was asked.
  EXPECT_LT(service_.cost_of_a_round_max(), 2 * ResourceManagerEndpoint::kRequestsPerTurnMax);
}

TEST_F(ResourceManagerEndpointTurns, AreBoundedByShortRequestsToo) {
  std::vector<Peer> peers;
  Bytes all;
  for (uint64_t k = 0; k < 6 * kRequests; ++k) {
    const Bytes one = Stats();
    all.insert(all.end(), one.begin(), one.end());
  }
  for (int i = 0; i < 8; ++i) {
    peers.push_back(Connect());
    peers.back().Send(all);
  }
  for (Peer& peer : peers) {
    for (uint64_t k = 0; k < 6 * kRequests; ++k) EXPECT_EQ(peer.Receive().type, 6);
  }
  EXPECT_LE(service_.cost_of_a_round_max(), ResourceManagerEndpoint::kRequestsPerTurnMax);
}

TEST_F(ResourceManagerEndpointTest, ANewcomerTakesThePlaceOfTheLongestSilent) {
  if (os::DescriptorLimit::HardMax() < 4096) GTEST_SKIP() << "needs ulimit -Hn 4096";
  const os::DescriptorLimit enough(4096);
  Peer named = Connect();
  EXPECT_EQ(named.Ask(Alloc("host:1", 1)).type, 2);
  std::vector<Peer> silent;
  for (size_t i = 1; i < ResourceManagerEndpoint::kConnectionsMax; ++i) {
    silent.push_back(Connect());
    EXPECT_EQ(silent.back().Ask(Stats()).type, 6);
  }
  EXPECT_EQ(silent[0].Ask(Stats()).type, 6);  // so the next one is silent for longest
  ExpectServed();
  EXPECT_TRUE(silent[1].AtEnd());
  EXPECT_EQ(silent[0].Ask(Stats()).type, 6);
  EXPECT_EQ(named.Ask(Alloc("host:1", 2)).type, 2) << "who has a name stays";
}

TEST(ResourceManagerConnectionsTest, AreAThirdOfTheDescriptorsAtMost) {
  EXPECT_EQ(ResourceManagerEndpoint::ConnectionsFor(0), ResourceManagerEndpoint::kConnectionsMin);
  EXPECT_EQ(ResourceManagerEndpoint::ConnectionsFor(1024), 341u);
  EXPECT_EQ(ResourceManagerEndpoint::ConnectionsFor(500'000),
            ResourceManagerEndpoint::kConnectionsMax);
}

TEST_F(ResourceManagerEndpointTest, ANameAloneKeepsNobodyOut) {
  if (os::DescriptorLimit::HardMax() < 4096) GTEST_SKIP() << "needs ulimit -Hn 4096";
  const os::DescriptorLimit enough(4096);
  // Two regions, so two connections of that client stay, and one with an endpoint.
  std::vector<Peer> same;
  for (uint64_t i = 0; i < 4; ++i) {
    same.push_back(Connect());
    EXPECT_EQ(same[i].Ask(i < 2 ? Alloc("host:1", i) : Access("host:1")).type, i < 2 ? 2 : 6);
  }
  Peer server = Connect();
  EXPECT_EQ(server.Ask(Access("server:1")).type, 6);
  std::vector<Peer> named;
  for (size_t i = 5; i < ResourceManagerEndpoint::kConnectionsMax; ++i) {
    named.push_back(Connect());
    EXPECT_EQ(named.back().Ask(Access("made-up:" + std::to_string(i))).type, 6);
  }
  std::vector<Peer> newcomers;
  for (int i = 0; i < 3; ++i) {
    newcomers.push_back(Connect());
    EXPECT_EQ(newcomers.back().Ask(Stats()).type, 6);
  }
  EXPECT_TRUE(same[2].AtEnd());
  EXPECT_TRUE(same[3].AtEnd());
  EXPECT_TRUE(named[0].AtEnd());
  EXPECT_EQ(same[0].Ask(Stats()).type, 6);
  EXPECT_EQ(same[1].Ask(Stats()).type, 6);
  EXPECT_EQ(server.Ask(Stats()).type, 6);
}

TEST_F(ResourceManagerEndpointTest, WithoutDescriptorsLeftOthersAreServedAndNewPeersWait) {
  Peer named = Connect();
  EXPECT_EQ(named.Ask(Alloc("host:1", 1)).type, 2);
  // The peer's end gets the last descriptor, so that there is none for the endpoint's.
  const int last = os::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)).get();
  std::optional<os::DescriptorLimit> none(std::in_place, static_cast<rlim_t>(last) + 1);
  const RecordedLog log;
  Peer waiting = Connect();
  for (uint64_t i = 2; i < 1000; ++i) ASSERT_EQ(named.Ask(Alloc("host:1", i)).region_id(), i);
  EXPECT_EQ(log.lines().size(), 1u);
  none.reset();  // others of the process have closed theirs: nothing of the endpoint's has ended
  EXPECT_EQ(waiting.Ask(Stats()).type, 6);
}

}  // namespace
}  // namespace maru::net::compat
