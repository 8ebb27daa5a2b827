#include "net/compat/metadata_endpoint.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/test_log.h"
#include "base/testing.h"
#include "net/compat/test_loop.h"
#include "os/test_host.h"
#include "os/unique_fd.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/msgpack_writer.h"
#include "wire/compat/test_upstream.h"

namespace maru::net::compat {
namespace {

using wire::compat::Bytes;
using wire::compat::KeyPayload;
using wire::compat::Message;
using wire::compat::MetadataHeader;
using wire::compat::MetadataReply;
using wire::compat::MetadataRequest;
using wire::compat::MetadataType;
using wire::compat::PayloadOf;
using wire::compat::Tree;

constexpr uint8_t kRequestAlloc = 0x01;
constexpr uint8_t kNone = 0x07;
constexpr uint8_t kExists = 0x12;
constexpr uint8_t kListAllocations = 0x04;
constexpr uint8_t kHeartbeat = 0xF1;
constexpr uint8_t kBatchRegister = 0x20;
constexpr uint8_t kBatchExists = 0x22;

// A key exists if it begins with "yes"; a list of allocations is of about a MiB. A region of `size`
// bytes is there when so many requests were answered since.
class TestService : public MetadataService {
 public:
  // Called in the loop's thread before each answer.
  void OnAnswer(std::function<void(const MetadataRequest&)> call) {
    const MutexLock lock(mutex_);
    on_answer_ = std::move(call);
  }
  MetadataReply Answer(MetadataType type, const MetadataRequest& request) override {
    std::function<void(const MetadataRequest&)> on_answer;
    {
      const MutexLock lock(mutex_);
      on_answer = on_answer_;
    }
    if (on_answer) on_answer(request);
    if (type == MetadataType::kHeartbeat) return wire::compat::HeartbeatReply{};
    const MutexLock lock(mutex_);
    ++requests_;
    if (type == MetadataType::kListAllocations) {
      ++lists_;
      const wire::compat::Handle handle{1 << 20, 1 << 20, 1 << 20, ~uint64_t{0}};
      return wire::compat::AllocationsReply{std::vector(20'000, handle)};
    }
    const auto& keys = std::get<wire::compat::KeysRequest>(request).keys;
    keys_of_round_ += keys.size();
    keys_of_a_round_max_ = std::max(keys_of_a_round_max_, keys_of_round_);
    if (type == MetadataType::kBatchExists) return AnswerBatch(keys);
    between_parts_ = between_parts_ || in_batch_;
    return wire::compat::ExistsReply{keys.at(0).starts_with("yes")};
  }
  uint64_t Begin(MetadataType type, const MetadataRequest& request, MetadataReply* reply) override {
    if (const auto* entries = std::get_if<wire::compat::RegisterRequest>(&request)) {
      const MutexLock lock(mutex_);
      std::vector<bool>& results = registers_[++last_alloc_].results;
      for (const auto& entry : entries->entries) {
        results.push_back(entry.key.starts_with("yes"));
      }
      return last_alloc_;
    }
    const auto* const alloc = std::get_if<wire::compat::AllocRequest>(&request);
    if (alloc == nullptr) {
      *reply = Answer(type, request);
      return 0;
    }
    const MutexLock lock(mutex_);
    CountStep();
    allocs_[++last_alloc_] = {alloc->size_bytes, requests_ + alloc->size_bytes};
    return last_alloc_;
  }
  std::optional<MetadataReply> GoOn(uint64_t number) override {
    const MutexLock lock(mutex_);
    CountStep();
    if (const auto part = registers_.extract(number)) {
      return part.mapped();
    }
    const auto at = allocs_.find(number);
    if (at == allocs_.end() || ++steps_ > kStepsMax) {
      return wire::compat::AllocReply{std::nullopt, "nobody else was answered"};
    }
    if (requests_ < at->second.done_at || (may_end_ && !may_end_())) return std::nullopt;
    const uint64_t size = at->second.size;
    allocs_.erase(at);
    return wire::compat::AllocReply{wire::compat::Handle{number, 0, size, 0}, ""};
  }
  void GiveUp(uint64_t number) override {
    const MutexLock lock(mutex_);
    EXPECT_EQ(allocs_.erase(number), 1u);
  }
  void OnUndelivered(const MetadataReply& reply) override {
    const MutexLock lock(mutex_);
    const auto* const alloc = std::get_if<wire::compat::AllocReply>(&reply);
    if (alloc != nullptr) undelivered_.push_back(alloc->handle->region_id);
  }
  // Further, until that says so.
  void WaitFor(std::function<bool()> may_end) {
    const MutexLock lock(mutex_);
    may_end_ = std::move(may_end);
  }
  size_t under_way() {
    const MutexLock lock(mutex_);
    return allocs_.size();
  }
  std::vector<uint64_t> undelivered() {
    const MutexLock lock(mutex_);
    return undelivered_;
  }
  // Something else was asked between two parts of a batch.
  bool between_parts() {
    const MutexLock lock(mutex_);
    return between_parts_;
  }
  uint64_t requests() {
    const MutexLock lock(mutex_);
    return requests_;
  }
  uint64_t lists() {
    const MutexLock lock(mutex_);
    return lists_;
  }
  void EndRound() {
    const MutexLock lock(mutex_);
    keys_of_round_ = 0;
    steps_of_round_ = 0;
    ++rounds_;
  }
  uint64_t rounds() {
    const MutexLock lock(mutex_);
    return rounds_;
  }
  uint64_t steps_of_a_round_max() {
    const MutexLock lock(mutex_);
    return steps_of_a_round_max_;
  }
  // The most that were asked for between two EndRound.
  size_t keys_of_a_round_max() {
    const MutexLock lock(mutex_);
    return keys_of_a_round_max_;
  }

 private:
  void CountStep() MARU_REQUIRES(mutex_) {
    steps_of_a_round_max_ = std::max(steps_of_a_round_max_, ++steps_of_round_);
  }
  // The last key of a batch is "last".
  MetadataReply AnswerBatch(const std::vector<std::string_view>& keys) MARU_REQUIRES(mutex_) {
    in_batch_ = keys.back() != "last";
    wire::compat::ResultsReply reply;
    for (const std::string_view key : keys) reply.results.push_back(key.starts_with("yes"));
    return reply;
  }

  static constexpr uint64_t kStepsMax = 100'000'000;
  struct Asked {
    uint64_t size = 0, done_at = 0;
  };

  Mutex mutex_;
  std::function<void(const MetadataRequest&)> on_answer_ MARU_GUARDED_BY(mutex_);
  std::map<uint64_t, Asked> allocs_ MARU_GUARDED_BY(mutex_);
  std::map<uint64_t, wire::compat::BatchRegisterReply> registers_ MARU_GUARDED_BY(mutex_);
  uint64_t last_alloc_ MARU_GUARDED_BY(mutex_) = 0, steps_ MARU_GUARDED_BY(mutex_) = 0;
  std::function<bool()> may_end_ MARU_GUARDED_BY(mutex_);
  std::vector<uint64_t> undelivered_ MARU_GUARDED_BY(mutex_);
  bool in_batch_ MARU_GUARDED_BY(mutex_) = false;
  bool between_parts_ MARU_GUARDED_BY(mutex_) = false;
  uint64_t requests_ MARU_GUARDED_BY(mutex_) = 0;
  uint64_t lists_ MARU_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_ MARU_GUARDED_BY(mutex_) = 0;
  uint64_t steps_of_round_ MARU_GUARDED_BY(mutex_) = 0;
  uint64_t steps_of_a_round_max_ MARU_GUARDED_BY(mutex_) = 0;
  size_t keys_of_round_ MARU_GUARDED_BY(mutex_) = 0;
  size_t keys_of_a_round_max_ MARU_GUARDED_BY(mutex_) = 0;
};

Bytes AllocPayload(uint64_t bytes) {
  Bytes payload;
  wire::compat::MsgpackWriter out(&payload);
  out.Map(2);
  out.Text("instance_id");
  out.Text("a");
  out.Text("size");
  out.Number(bytes);
  return payload;
}

Bytes BeatPayload(bool release) {
  Bytes payload;
  wire::compat::MsgpackWriter out(&payload);
  out.Map(2);
  out.Text("lease_id");
  out.Text("l");
  out.Text("lease_release");
  out.Bool(release);
  return payload;
}

class Client {
 public:
  Client(void* context, int type, const std::string& address, int receive_max = 0)
      : socket_(zmq_socket(context, type)) {
    const int linger = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(socket_, ZMQ_RCVHWM, &receive_max, sizeof(receive_max));
    zmq_setsockopt(socket_, ZMQ_SNDHWM, &linger, sizeof(linger));  // 0: no limit
    EXPECT_EQ(zmq_connect(socket_, address.c_str()), 0);
  }
  ~Client() { zmq_close(socket_); }

  void Send(const std::vector<Bytes>& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const int flags = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
      ASSERT_GE(zmq_send(socket_, parts[i].data(), parts[i].size(), flags), 0);
    }
  }
  std::vector<Bytes> Receive() {
    std::vector<Bytes> parts;
    while (true) {
      zmq_msg_t part;
      zmq_msg_init(&part);
      EXPECT_GE(zmq_msg_recv(&part, socket_, 0), 0);
      const auto* data = static_cast<const std::byte*>(zmq_msg_data(&part));
      parts.emplace_back(data, data + zmq_msg_size(&part));
      const bool more = zmq_msg_more(&part) != 0;
      zmq_msg_close(&part);
      if (!more) return parts;
    }
  }
  // Of a REQ socket.
  Bytes Ask(const Bytes& message) {
    Send({message});
    return Receive().back();
  }

 private:
  void* const socket_;
};

class MetadataEndpointTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(
        endpoint_, MetadataEndpoint::Create(loop_.get(), &service_, "tcp://127.0.0.1:0", &limit_));
    loop_.Start();
  }
  void TearDown() override {
    loop_.Stop();
    endpoint_.reset();
    zmq_ctx_term(context_);
  }
  std::unique_ptr<Client> Connect(int type, int receive_max = 0) {
    return std::make_unique<Client>(context_, type, endpoint_->address(), receive_max);
  }
  void ExpectServed() {
    const auto client = Connect(ZMQ_REQ);
    EXPECT_TRUE(PayloadOf(client->Ask(Message(kExists, 1, KeyPayload("yes")))).Bool("exists"));
  }
  // The service is not asked.
  static void ExpectAnswered(Client* client) {
    EXPECT_NE(PayloadOf(client->Ask(Message(kNone, 1, {}))).Text("error"), "");
  }
  MetadataEndpoint::Counters StopAndCount() {
    loop_.Stop();
    return endpoint_->counters();
  }

  void* context_ = zmq_ctx_new();
  TestService service_;
  PeerLimit limit_;
  TestLoop loop_;
  std::unique_ptr<MetadataEndpoint> endpoint_;
};

uint32_t SequenceOf(const Bytes& reply) {
  MetadataHeader header;
  EXPECT_OK(DecodeMetadataHeader(reply, &header));
  return header.sequence;
}

TEST_F(MetadataEndpointTest, AnswersReqAndDealerAtOnce) {
  const auto req = Connect(ZMQ_REQ);
  const auto dealer = Connect(ZMQ_DEALER);
  for (uint32_t i = 0; i < 50; ++i) {
    const std::string key = (i % 3 == 0 ? "yes" : "no") + std::to_string(i);
    dealer->Send({{}, Message(kExists, 2 * i, KeyPayload(key))});
    dealer->Send({{}, Message(kExists, 2 * i + 1, KeyPayload("yes"), wire::compat::kFlagUrgent)});
    const Bytes reply = req->Ask(Message(kExists, i, KeyPayload(key)));
    EXPECT_EQ(SequenceOf(reply), i);
    EXPECT_EQ(PayloadOf(reply).Bool("exists"), i % 3 == 0);
  }
  for (uint32_t i = 0; i < 100; ++i) {
    const std::vector<Bytes> parts = dealer->Receive();
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_TRUE(parts[0].empty());
    EXPECT_EQ(SequenceOf(parts[1]), i);
    EXPECT_EQ(parts[1][4], std::byte{static_cast<uint8_t>(i % 2 == 0 ? 0 : 4)}) << "flags";
    EXPECT_EQ(PayloadOf(parts[1]).Bool("exists"), i % 2 == 1 || i / 2 % 3 == 0);
  }
  EXPECT_EQ(StopAndCount().answered, 150u);
}

TEST_F(MetadataEndpointTest, AnswersAThousandPipelinedRequestsInOrder) {
  const auto dealer = Connect(ZMQ_DEALER);
  const auto other = Connect(ZMQ_DEALER);
  for (uint32_t i = 0; i < 1000; ++i) {
    dealer->Send({{}, Message(kExists, i, KeyPayload("yes"))});
    other->Send({{}, Message(kExists, ~i, KeyPayload("no"))});
  }
  for (uint32_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(SequenceOf(dealer->Receive().back()), i);
    ASSERT_EQ(SequenceOf(other->Receive().back()), ~i);
  }
  EXPECT_EQ(StopAndCount().replies_dropped, 0u);
}

TEST_F(MetadataEndpointTest, AnswersMalformedMessagesWithAnError) {
  const auto req = Connect(ZMQ_REQ);
  const Bytes good = Message(kExists, 77, KeyPayload("yes"));
  Bytes magic = good;
  magic[0] = std::byte{1};
  const auto error = [&](const Bytes& message, uint32_t sequence) {
    const Bytes reply = req->Ask(message);
    EXPECT_EQ(SequenceOf(reply), sequence);
    return PayloadOf(reply).Text("error");
  };
  EXPECT_EQ(error({}, 0), "a message of 0 bytes is shorter than a header, 16 bytes");
  EXPECT_EQ(error(magic, 77), "magic is 0x0100, expected 0xcf00");
  EXPECT_EQ(error(Bytes(good.begin(), good.end() - 1), 77),
            "payload length says 9 bytes, 8 follow the header");
  EXPECT_EQ(error(Message(0x07, 5, {}), 5), "message type 0x07: no such message type");
  EXPECT_EQ(error(Message(kExists, 6, {}), 6), "message type 0x12: key is missing");
  EXPECT_EQ(service_.requests(), 0u);
  EXPECT_TRUE(PayloadOf(req->Ask(good)).Bool("exists"));
  EXPECT_EQ(StopAndCount().malformed, 5u);
}

TEST_F(MetadataEndpointTest, DropsThePeerOfAMessageThatIsTooLargeAndNobodyElse) {
  const auto dealer = Connect(ZMQ_DEALER);
  dealer->Send({{}, Message(kExists, 1, KeyPayload("yes"))});
  dealer->Receive();
  dealer->Send({{}, Bytes(wire::compat::kMetadataMessageBytesMax + 1)});
  ExpectServed();
  EXPECT_EQ(service_.requests(), 2u);
  EXPECT_EQ(StopAndCount().malformed, 0u) << "it never came through";
}

TEST_F(MetadataEndpointTest, KeepsQuietWhereNoReplyIsWanted) {
  const auto dealer = Connect(ZMQ_DEALER);
  dealer->Send({{}, Message(kExists, 1, KeyPayload("yes"), wire::compat::kFlagNoReply)});
  dealer->Send({{}, Message(kExists, 2, {}, wire::compat::kFlagNoReply)});
  dealer->Send({{}, Message(kExists, 3, KeyPayload("yes"))});
  EXPECT_EQ(SequenceOf(dealer->Receive().back()), 3u);
  EXPECT_EQ(service_.requests(), 2u);
}

TEST_F(MetadataEndpointTest, ARegionForWhichNoReplyIsWantedIsUndelivered) {
  const auto dealer = Connect(ZMQ_DEALER);
  dealer->Send({{}, Message(kRequestAlloc, 1, AllocPayload(0), wire::compat::kFlagNoReply)});
  dealer->Send({{}, Message(kExists, 2, KeyPayload("yes"))});
  EXPECT_EQ(SequenceOf(dealer->Receive().back()), 2u);
  EXPECT_EQ(service_.undelivered(), std::vector<uint64_t>{1});
}

TEST_F(MetadataEndpointTest, RepeatsAnyEnvelopeUpToItsLimit) {
  const auto dealer = Connect(ZMQ_DEALER);
  const Bytes good = Message(kExists, 1, KeyPayload("yes"));
  dealer->Send({good});
  EXPECT_EQ(dealer->Receive().size(), 1u);
  const Bytes hop(5, std::byte{9});
  dealer->Send({hop, {}, good});
  const std::vector<Bytes> parts = dealer->Receive();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0], hop);
  dealer->Send({Bytes(256), {}, good});                         // too large a part
  dealer->Send({hop, hop, hop, hop, hop, hop, hop, {}, good});  // too many: 9 with the identity
  dealer->Send({{}, Message(kExists, 5, KeyPayload("yes"))});
  EXPECT_EQ(SequenceOf(dealer->Receive().back()), 5u);
  EXPECT_EQ(StopAndCount().malformed, 2u);
}

TEST_F(MetadataEndpointTest, DropsRepliesToAPeerThatDoesNotReadAndServesOthers) {
  const auto deaf = Connect(ZMQ_DEALER, 1);
  constexpr uint32_t kLists = 150;  // of a MiB: what sockets and limit hold is less
  for (uint32_t i = 0; i < kLists; ++i) deaf->Send({{}, Message(kListAllocations, i, {})});
  // Each turn is a round trip, so the loop goes on and ends.
  while (service_.lists() < kLists) ExpectServed();
  ExpectServed();
  const MetadataEndpoint::Counters counters = StopAndCount();
  EXPECT_GT(counters.replies_dropped, 0u);
  EXPECT_LT(counters.replies_dropped, kLists - 50) << "within the limit they wait";
}

// Every third key begins with "yes".
Bytes Batch(uint32_t keys, const std::string& padding = "") {
  Bytes payload;
  wire::compat::MsgpackWriter out(&payload);
  out.Map(1);
  out.Text("keys");
  out.Array(keys);
  for (uint32_t i = 0; i + 1 < keys; ++i) out.Text((i % 3 == 0 ? "yes" : "no") + padding);
  out.Text("last");
  return payload;
}
Bytes LargestBatch(const std::string& padding = "") {
  return Batch(wire::compat::kBatchItemsMax, padding);
}

TEST_F(MetadataEndpointTest, ALargeBatchKeepsItsPeersOrderAndNobodyElseWaiting) {
  const auto dealer = Connect(ZMQ_DEALER);
  const Bytes batch = LargestBatch();
  constexpr uint32_t kRoundsMax = 1000;
  uint32_t sent = 0;
  for (; sent < kRoundsMax && !service_.between_parts(); ++sent) {
    dealer->Send({{}, Message(kBatchExists, 2 * sent, batch)});
    dealer->Send({{}, Message(kExists, 2 * sent + 1, KeyPayload("yes"))});
    ExpectServed();
  }
  EXPECT_TRUE(service_.between_parts());
  for (uint32_t i = 0; i < 2 * sent; ++i) {
    const Bytes reply = dealer->Receive().back();
    ASSERT_EQ(SequenceOf(reply), i);
    const Tree payload = PayloadOf(reply);
    if (i % 2 == 1) {
      EXPECT_TRUE(payload.Bool("exists"));
      continue;
    }
    const auto& results = payload.At("results").items;
    ASSERT_EQ(results.size(), wire::compat::kBatchItemsMax);
    for (size_t k = 0; k + 1 < results.size(); ++k) {
      ASSERT_EQ(results[k].item.number, k % 3 == 0 ? 1u : 0u) << k;
    }
  }
}

// Each part takes a step more.
TEST_F(MetadataEndpointTest, PartsOfABatchTakeTheirSteps) {
  constexpr size_t kEntries = 5 * BatchInParts::kItemsMax / 2;
  Bytes payload;
  wire::compat::MsgpackWriter out(&payload);
  out.Map(1);
  out.Text("entries");
  out.Array(kEntries);
  for (size_t i = 0; i < kEntries; ++i) {
    out.Map(4);
    out.Text("key");
    out.Text((i % 3 == 0 ? "yes" : "no") + std::to_string(i));
    for (const char* const field : {"region_id", "kv_offset", "kv_length"}) {
      out.Text(field);
      out.Number(i);
    }
  }
  const auto req = Connect(ZMQ_REQ);
  const Tree reply = PayloadOf(req->Ask(Message(kBatchRegister, 1, payload)));
  const auto& results = reply.At("results").items;
  ASSERT_EQ(results.size(), kEntries);
  for (size_t i = 0; i < kEntries; ++i) EXPECT_EQ(results[i].item.number, i % 3 == 0 ? 1u : 0u);
}

TEST_F(MetadataEndpointTest, OthersAreAnsweredWhileARequestTakesItsSteps) {
  const auto dealer = Connect(ZMQ_DEALER), second = Connect(ZMQ_DEALER);
  dealer->Send({{}, Message(kRequestAlloc, 1, AllocPayload(3))});
  dealer->Send({{}, Message(kExists, 2, KeyPayload("yes"))});  // waits for its turn
  second->Send({{}, Message(kRequestAlloc, 1, AllocPayload(3))});
  const auto other = Connect(ZMQ_REQ);
  while (service_.under_way() < 2) ExpectAnswered(other.get());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(PayloadOf(other->Ask(Message(kExists, 1, KeyPayload("yes")))).Bool("exists"));
  }
  for (Client* const client : {dealer.get(), second.get()}) {
    const Bytes reply = client->Receive().back();
    EXPECT_EQ(SequenceOf(reply), 1u);
    EXPECT_TRUE(PayloadOf(reply).Bool("success")) << PayloadOf(reply).Text("error");
  }
  EXPECT_EQ(SequenceOf(dealer->Receive().back()), 2u);
  EXPECT_TRUE(service_.undelivered().empty());
}

// A client that says that it lives waits for nothing else that it has asked; one that gives its
// lease back does.
TEST_F(MetadataEndpointTest, AHeartbeatWaitsForNothingOfItsPeer) {
  const auto dealer = Connect(ZMQ_DEALER);
  const auto other = Connect(ZMQ_REQ);
  dealer->Send({{}, Message(kRequestAlloc, 1, AllocPayload(1))});
  dealer->Send({{}, Message(kExists, 2, KeyPayload("yes"))});
  for (uint32_t i = 3; i < 3 + 2 * MetadataEndpoint::kRequestsPerTurnMax; ++i) {
    dealer->Send({{}, Message(kHeartbeat, i, BeatPayload(false))});
    EXPECT_EQ(SequenceOf(dealer->Receive().back()), i);
  }
  EXPECT_EQ(service_.under_way(), 1u);
  dealer->Send({{}, Message(kHeartbeat, 1000, BeatPayload(true))});
  EXPECT_TRUE(PayloadOf(other->Ask(Message(kExists, 1, KeyPayload("yes")))).Bool("exists"));
  for (const uint32_t sequence : {1, 2, 1000}) {
    EXPECT_EQ(SequenceOf(dealer->Receive().back()), sequence);
  }
}

TEST_F(MetadataEndpointTest, WhatAPeerThatIsGoneWouldGetIsToldToTheService) {
  // In the loop's thread. ZeroMQ tells of the end of a connection a little before it knows of it.
  service_.WaitFor([this] { return endpoint_->connections().open() == 1; });
  const auto other = Connect(ZMQ_REQ);
  ExpectAnswered(other.get());
  constexpr int kRoundsMax = 1000;
  for (int round = 0; service_.undelivered().empty() && round < kRoundsMax; ++round) {
    auto gone = Connect(ZMQ_DEALER);
    gone->Send({{}, Message(kRequestAlloc, 1, AllocPayload(0))});
    while (service_.under_way() == 0) ExpectAnswered(other.get());
    gone.reset();
    while (service_.under_way() > 0) ExpectAnswered(other.get());
    ExpectAnswered(other.get());  // so that turn is over
  }
  EXPECT_EQ(service_.undelivered().size(), 1u);
}

TEST_F(MetadataEndpointTest, AnEndpointThatIsClosedGivesUpWhatIsUnderWay) {
  const auto dealer = Connect(ZMQ_DEALER);
  dealer->Send({{}, Message(kRequestAlloc, 1, AllocPayload(1))});
  const auto other = Connect(ZMQ_REQ);
  while (service_.under_way() == 0) ExpectAnswered(other.get());
  loop_.Stop();
  endpoint_.reset();
  EXPECT_EQ(service_.under_way(), 0u);
}

// Behind a region that is being made, as long as the test says so.
class MetadataEndpointInHand : public MetadataEndpointTest {
 protected:
  static constexpr uint32_t kLarge = 5;

  void SetUp() override {
    MetadataEndpointTest::SetUp();
    service_.WaitFor([this] { return done_.load(); });
    ASSERT_GT(kLarge * large_.size(), RequestsInHand::kBytesMax);
  }
  // The region is under way, and so many large batches are sent behind it, numbered from 1.
  std::unique_ptr<Client> Fill() {
    auto dealer = Connect(ZMQ_DEALER);
    dealer->Send({{}, Message(kRequestAlloc, 0, AllocPayload(0))});
    for (uint32_t i = 1; i <= kLarge; ++i) dealer->Send({{}, Large(i)});
    return dealer;
  }
  Bytes Large(uint32_t sequence) const { return Message(kBatchExists, sequence, large_); }
  static void ExpectRefused(Client* client, uint32_t sequence, const std::string& whose) {
    const Bytes reply = client->Receive().back();
    EXPECT_EQ(SequenceOf(reply), sequence);
    EXPECT_NE(PayloadOf(reply).Text("error").find(whose), std::string::npos);
  }
  static void ExpectAnsweredInFull(const Bytes& reply) {
    EXPECT_EQ(PayloadOf(reply).At("results").items.size(), wire::compat::kBatchItemsMax);
  }

  const Bytes large_ = LargestBatch(std::string(240, 'k'));
  const uint32_t of_peer_ =
      static_cast<uint32_t>(RequestsInHand::kBytesOfPeerMax / Large(0).size());
  std::atomic<bool> done_ = false;
};

TEST_F(MetadataEndpointInHand, WhatAPeerSendsBehindARegionShutsItForNobody) {
  const auto dealer = Fill();
  for (uint32_t i = of_peer_ + 1; i <= kLarge; ++i) {
    ExpectRefused(dealer.get(), i, "32 MiB of requests of this client");
  }
  ExpectServed();
  const auto other = Connect(ZMQ_REQ);
  const Bytes beat = Message(kHeartbeat, 9, BeatPayload(false));
  EXPECT_EQ(SequenceOf(other->Ask(beat)), 9u);
  dealer->Send({{}, beat});
  EXPECT_EQ(SequenceOf(dealer->Receive().back()), 9u);
  EXPECT_EQ(service_.under_way(), 1u);
  done_ = true;
  for (uint32_t i = 0; i <= of_peer_; ++i) EXPECT_EQ(SequenceOf(dealer->Receive().back()), i);
  dealer->Send({{}, Large(10)});
  ExpectAnsweredInFull(dealer->Receive().back());
  EXPECT_EQ(StopAndCount().refused, kLarge - of_peer_);
}

TEST_F(MetadataEndpointInHand, WhoHasNothingInHandFindsRoomWhenOthersHaveFilledIt) {
  std::vector<std::unique_ptr<Client>> dealers;
  const auto peers = static_cast<uint32_t>(RequestsInHand::kBytesMax / (of_peer_ * large_.size()));
  for (uint32_t i = 0; i < peers; ++i) {
    dealers.push_back(Fill());
    for (uint32_t k = of_peer_ + 1; k <= kLarge; ++k) {
      ExpectRefused(dealers.back().get(), k, "of this client");
    }
  }
  const auto last = Connect(ZMQ_DEALER);
  last->Send({{}, Message(kRequestAlloc, 0, AllocPayload(0))});
  last->Send({{}, Large(1)});
  ExpectRefused(last.get(), 1, "64 MiB of requests of this endpoint's clients");
  ExpectServed();
  const auto newcomer = Connect(ZMQ_REQ);
  ExpectAnsweredInFull(newcomer->Ask(Large(7)));
  EXPECT_EQ(service_.under_way(), peers + 1);
  done_ = true;
  EXPECT_EQ(SequenceOf(last->Receive().back()), 0u);
}

TEST_F(MetadataEndpointTest, WhatWasRefusedForWantOfRoomIsAnsweredWhenAskedAgain) {
  const Bytes batch = LargestBatch(std::string(240, 'k'));
  std::vector<std::unique_ptr<Client>> dealers;
  constexpr uint32_t kEach = 5;
  for (int i = 0; i < 3; ++i) {
    dealers.push_back(Connect(ZMQ_DEALER));
    for (uint32_t k = 0; k < kEach; ++k) dealers[i]->Send({{}, Message(kBatchExists, k, batch)});
  }
  ExpectServed();
  for (const auto& dealer : dealers) {
    for (uint32_t answered = 0; answered < kEach;) {
      const Bytes reply = dealer->Receive().back();
      if (PayloadOf(reply).pairs.front().name == "results") {
        ++answered;
      } else {
        dealer->Send({{}, Message(kBatchExists, SequenceOf(reply), batch)});
      }
    }
  }
}

// With another descriptor in the loop that is always ready.
class MetadataEndpointTurns : public MetadataEndpointTest {
 protected:
  // Two turns may lie between two callbacks of the other descriptor: what came and what waited.
  static constexpr size_t kKeysMax = 2 * 2 * MetadataEndpoint::kKeysPerTurnMax;
  // In none of which a request is cut.
  static constexpr uint32_t kKeys = BatchInParts::kItemsMax;
  static constexpr uint32_t kRequests = 64;

  void SetUp() override {
    other_.emplace(&loop_, [this] {
      service_.EndRound();
      const uint64_t frames = endpoint_->counters().frames_passed_over;
      frames_of_a_round_max_ = std::max(frames_of_a_round_max_, frames - frames_before_);
      frames_before_ = frames;
    });
    MetadataEndpointTest::SetUp();
  }
  void TearDown() override {
    loop_.Stop();
    other_.reset();
    MetadataEndpointTest::TearDown();
  }

  std::optional<EverReady> other_;
  uint64_t frames_before_ = 0, frames_of_a_round_max_ = 0;  // of the loop's thread
};

TEST_F(MetadataEndpointTurns, AreBoundedHoweverManyFramesAMessageHas) {
  constexpr uint64_t kFrames = 300'000;
  const auto dealer = Connect(ZMQ_DEALER), other = Connect(ZMQ_REQ);
  std::vector<Bytes> message(kFrames);
  message.push_back(Message(kExists, 1, KeyPayload("yes")));
  dealer->Send(message);
  dealer->Send({{}, Message(kExists, 2, KeyPayload("yes"))});
  for (int i = 0; i < 100; ++i) other->Ask(Message(kExists, 3, KeyPayload("yes")));
  EXPECT_EQ(SequenceOf(dealer->Receive().back()), 2u);
  const MetadataEndpoint::Counters counters = StopAndCount();
  EXPECT_EQ(counters.malformed, 1u);
  EXPECT_GT(counters.frames_passed_over, kFrames - MetadataEndpoint::kEnvelopePartsMax);
  EXPECT_LE(frames_of_a_round_max_, kKeysMax);
}

TEST_F(MetadataEndpointTurns, AreBoundedByKeysHoweverManyRequests) {
  const Bytes batch = Batch(kKeys);
  std::vector<std::unique_ptr<Client>> dealers;
  for (int i = 0; i < 8; ++i) dealers.push_back(Connect(ZMQ_DEALER));
  for (uint32_t k = 0; k < kRequests; ++k) {
    for (const auto& dealer : dealers) dealer->Send({{}, Message(kBatchExists, k, batch)});
  }
  for (const auto& dealer : dealers) {
    for (uint32_t k = 0; k < kRequests; ++k) EXPECT_EQ(SequenceOf(dealer->Receive().back()), k);
  }
  EXPECT_LE(service_.keys_of_a_round_max(), kKeysMax);
}

TEST_F(MetadataEndpointTurns, AreBoundedByKeysAtTheEndOfABatchTooThatOthersWaitedBehind) {
  const Bytes batch = Batch(kKeys);
  const auto dealer = Connect(ZMQ_DEALER);
  dealer->Send({{}, Message(kBatchExists, 0, LargestBatch())});
  for (uint32_t k = 1; k < kRequests; ++k) {
    if (k % 4 == 0)
      dealer->Send({{}, Message(kExists, k, KeyPayload("yes"))});
    else
      dealer->Send({{}, Message(kBatchExists, k, batch)});
  }
  for (uint32_t k = 0; k < kRequests; ++k) EXPECT_EQ(SequenceOf(dealer->Receive().back()), k);
  EXPECT_LE(service_.keys_of_a_round_max(), kKeysMax);
}

TEST_F(MetadataEndpointTurns, HoldAPartOfABatchOrAsManyKeysOfOthersThatWait) {
  constexpr uint32_t kShort = 40;
  uint64_t keys = 0, short_ones = 0, first_round = 0, last_round = 0;
  service_.OnAnswer([&](const MetadataRequest& request) {
    const size_t count = std::get<wire::compat::KeysRequest>(request).keys.size();
    if (count < kKeys && short_ones++ == 0) first_round = service_.rounds();
    if (short_ones > 0 && short_ones <= kShort) {
      keys += count;
      last_round = service_.rounds();
    }
  });
  const auto dealer = Connect(ZMQ_DEALER), other = Connect(ZMQ_DEALER);
  dealer->Send({{}, Message(kBatchExists, 0, LargestBatch())});
  for (uint32_t k = 1; k <= kShort; ++k) {
    dealer->Send({{}, Message(kBatchExists, k, Batch(kKeys - 1))});
  }
  for (uint32_t k = 0; k < 3; ++k) other->Send({{}, Message(kBatchExists, k, LargestBatch())});
  for (uint32_t k = 0; k <= kShort; ++k) EXPECT_EQ(SequenceOf(dealer->Receive().back()), k);
  for (uint32_t k = 0; k < 3; ++k) EXPECT_EQ(SequenceOf(other->Receive().back()), k);
  loop_.Stop();
  EXPECT_EQ(short_ones, kShort);
  EXPECT_GT(keys, kShort * kKeys) << "parts of the other's came between";
  EXPECT_LE(keys, (last_round - first_round + 2) * MetadataEndpoint::kKeysPerTurnMax);
}

TEST_F(MetadataEndpointTurns, ReadAMessageOfManyBytesOnceHoweverLittleWasLeftOfATurn) {
  // As many bytes as a turn has room for.
  Bytes large;
  wire::compat::MsgpackWriter out(&large);
  out.Map(2);
  out.Text("key");
  out.Text("yes");
  out.Text("x");
  out.Text(std::string(MetadataEndpoint::kKeysPerTurnMax * kKiB, 'x'));
  constexpr uint32_t kLarge = 8;
  std::vector<std::unique_ptr<Client>> dealers;
  for (int i = 0; i < 4; ++i) dealers.push_back(Connect(ZMQ_DEALER));
  for (uint32_t k = 0; k < kLarge; ++k) {
    for (const auto& dealer : dealers) {
      dealer->Send({{}, Message(kExists, 2 * k, KeyPayload("yes"))});
      dealer->Send({{}, Message(kExists, 2 * k + 1, large)});
    }
  }
  for (const auto& dealer : dealers) {
    for (uint32_t k = 0; k < 2 * kLarge; ++k) EXPECT_EQ(SequenceOf(dealer->Receive().back()), k);
  }
  EXPECT_EQ(StopAndCount().decoded, 2 * kLarge * dealers.size());
}

// Requests of one key that wait do not keep one of as many as a turn has room for waiting.
TEST_F(MetadataEndpointTurns, ServeALargeRequestAmongManySmallThatWait) {
  constexpr uint32_t kSmall = 4000;
  std::binary_semaphore at_last_part(0), go_on(0);
  bool first = true;
  uint32_t small_answered = 0;
  std::optional<uint32_t> cut_at, large_at;
  service_.OnAnswer([&](const MetadataRequest& request) {
    const auto& keys = std::get<wire::compat::KeysRequest>(request).keys;
    if (keys.size() == 1) ++small_answered;
    if (keys.size() == 2) cut_at = small_answered;
    if (keys.size() == kKeys && cut_at) large_at = small_answered;
    if (!first || keys.back() != "last") return;
    first = false;
    at_last_part.release();
    go_on.acquire();
  });
  const auto dealer = Connect(ZMQ_DEALER), other = Connect(ZMQ_DEALER);
  dealer->Send({{}, Message(kBatchExists, 0, LargestBatch())});
  for (uint32_t i = 0; i < kSmall; ++i) dealer->Send({{}, Message(kExists, i, KeyPayload("yes"))});
  at_last_part.acquire();
  other->Send({{}, Message(kBatchExists, 1, Batch(kKeys + 2))});
  other->Send({{}, Message(kBatchExists, 2, Batch(kKeys))});
  go_on.release();
  for (uint32_t i = 0; i <= kSmall; ++i) dealer->Receive();
  for (uint32_t i = 1; i <= 2; ++i) EXPECT_EQ(SequenceOf(other->Receive().back()), i);
  loop_.Stop();
  ASSERT_TRUE(cut_at && large_at);
  constexpr uint32_t kTurns = 4;
  EXPECT_LE(*large_at - *cut_at, 2 * kTurns * MetadataEndpoint::kRequestsPerTurnMax);
}

// Further endpoints in the same loop, of the same service.
class MetadataEndpointsOfALoop : public MetadataEndpointTurns {
 protected:
  static constexpr size_t kMore = 5;

  void SetUp() override {
    for (std::unique_ptr<MetadataEndpoint>& one : more_) {
      ASSERT_OK_AND_ASSIGN(
          one, MetadataEndpoint::Create(loop_.get(), &service_, "tcp://127.0.0.1:0", &limit_));
    }
    MetadataEndpointTurns::SetUp();
  }
  void TearDown() override {
    loop_.Stop();
    for (std::unique_ptr<MetadataEndpoint>& one : more_) one.reset();
    MetadataEndpointTurns::TearDown();
  }

  std::array<std::unique_ptr<MetadataEndpoint>, kMore> more_;
};

TEST_F(MetadataEndpointsOfALoop, DoOneStepInARoundTogetherAndEachHasItsTurn) {
  constexpr uint64_t kRegions = 2;  // of each
  const auto other = Connect(ZMQ_REQ);
  std::vector<std::unique_ptr<Client>> asking;
  for (const std::unique_ptr<MetadataEndpoint>& one : more_) {
    for (uint64_t i = 0; i < kRegions; ++i) {
      asking.push_back(std::make_unique<Client>(context_, ZMQ_DEALER, one->address()));
      asking.back()->Send({{}, Message(kRequestAlloc, 1, AllocPayload(3))});
    }
  }
  while (service_.under_way() < asking.size()) ExpectAnswered(other.get());
  for (int i = 0; i < 3; ++i) ExpectServed();
  for (const auto& client : asking) {
    EXPECT_TRUE(PayloadOf(client->Receive().back()).Bool("success"));
  }
  EXPECT_EQ(service_.steps_of_a_round_max(), 1u);
}

TEST_F(MetadataEndpointsOfALoop, AnEndpointThatIsClosedLeavesTheStepsToTheOthers) {
  Client gone(context_, ZMQ_DEALER, more_[0]->address());
  Client stays(context_, ZMQ_DEALER, more_[1]->address());
  const auto other = Connect(ZMQ_REQ);
  for (Client* const client : {&gone, &stays}) {
    client->Send({{}, Message(kRequestAlloc, 1, AllocPayload(1))});
  }
  while (service_.under_way() < 2) ExpectAnswered(other.get());
  service_.OnAnswer([this](const MetadataRequest&) { more_[0].reset(); });
  ExpectServed();
  EXPECT_TRUE(PayloadOf(stays.Receive().back()).Bool("success"));
}

// One more endpoint in the same process.
struct SecondEndpoint {
  SecondEndpoint() {
    auto made = MetadataEndpoint::Create(loop.get(), &service, "tcp://127.0.0.1:0", &limit);
    EXPECT_OK(made);
    endpoint = std::move(*made);
    loop.Start();
  }
  ~SecondEndpoint() { loop.Stop(); }

  TestService service;
  PeerLimit limit;
  TestLoop loop;
  std::unique_ptr<MetadataEndpoint> endpoint;
};

// Nobody else wakes the loop: what comes while the end of a batch is answered must be seen.
TEST_F(MetadataEndpointTest, AnswersOnePipelinedClientAloneWithLargeBatchesAmongSmall) {
  constexpr uint32_t kRounds = 10;
  // Elsewhere, in the time of which a message comes here and ZeroMQ looks for it while it sends.
  constexpr int kRoundTrips = 100;
  SecondEndpoint elsewhere;
  Client other(context_, ZMQ_REQ, elsewhere.endpoint->address());
  const auto dealer = Connect(ZMQ_DEALER);
  std::binary_semaphore at_last_part(0), go_on(0);
  service_.OnAnswer([&](const MetadataRequest& request) {
    if (std::get<wire::compat::KeysRequest>(request).keys.back() != "last") return;
    at_last_part.release();
    go_on.acquire();
  });
  const Bytes batch = LargestBatch(), small = KeyPayload("yes");
  for (uint32_t i = 0; i < kRounds; ++i) {
    dealer->Send({{}, Message(kBatchExists, 3 * i, batch)});
    dealer->Send({{}, Message(kExists, 3 * i + 1, small)});
    at_last_part.acquire();
    dealer->Send({{}, Message(kExists, 3 * i + 2, small)});
    for (int k = 0; k < kRoundTrips; ++k) other.Ask(Message(kExists, 1, small));
    go_on.release();
    for (uint32_t k = 0; k < 3; ++k) EXPECT_EQ(SequenceOf(dealer->Receive().back()), 3 * i + k);
  }
}

TEST_F(MetadataEndpointTest, DeafPeersOfAllEndpointsShareOneRoomAndReadersAreServed) {
  SecondEndpoint second;
  const RecordedLog log;
  constexpr uint32_t kPeers = 4, kLists = 64;  // of a MiB each
  std::vector<std::unique_ptr<Client>> deaf;
  for (uint32_t i = 0; i < kPeers; ++i) {
    const std::string& address = i % 2 == 0 ? endpoint_->address() : second.endpoint->address();
    deaf.push_back(std::make_unique<Client>(context_, ZMQ_DEALER, address, 1));
    for (uint32_t k = 0; k < kLists; ++k) deaf[i]->Send({{}, Message(kListAllocations, k, {})});
  }
  while (service_.lists() + second.service.lists() < kPeers * kLists) ExpectServed();
  // Two loops may pass the limit by a reply each.
  EXPECT_LE(MetadataEndpoint::all_reply_bytes_waiting(),
            MetadataEndpoint::kAllReplyBytesWaitingMax + MetadataEndpoint::kReplyBytesForReaders +
                4 * kMiB);
  EXPECT_FALSE(log.LinesWith("ss -tnp").empty());
  deaf.clear();
  while (MetadataEndpoint::all_reply_bytes_waiting() > 0) ExpectServed();
  second.loop.Stop();
  EXPECT_GT(StopAndCount().replies_dropped + second.endpoint->counters().replies_dropped, 0u);
}

TEST_F(MetadataEndpointTest, ServesOthersWhileAPeerIsSilentInMidHandshake) {
  const std::string& address = endpoint_->address();
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const os::UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  ASSERT_EQ(::send(fd.get(), "\xff\0\0", 3, 0), 3);
  ExpectServed();
}

TEST_F(MetadataEndpointTest, ForgetsPeersThatAreGone) {
  for (int i = 0; i < 1100; ++i) ExpectServed();
  EXPECT_EQ(StopAndCount().answered, 1100u);
  EXPECT_LT(endpoint_->peers(), 1024u);
}

TEST(MetadataEndpoint, WithoutDescriptorsLeftNoneIsMade) {
  TestLoop loop;
  TestService service;
  PeerLimit limit;
  const auto create = [&] {
    return MetadataEndpoint::Create(loop.get(), &service, "tcp://127.0.0.1:0", &limit).status();
  };
  const os::UniqueFd next(::dup(STDERR_FILENO));
  for (size_t free = 0; free < MetadataEndpoint::kFreeDescriptorsMin; ++free) {
    const os::DescriptorLimit few(static_cast<rlim_t>(next.get()) + 1 + free);
    EXPECT_CODE(create(), kResourceExhausted) << free;
  }
  EXPECT_OK(create());
}

// Connections that say nothing, as those of whoever wants to keep others out.
std::vector<os::UniqueFd> ConnectSilently(const std::string& address, size_t count) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<os::UniqueFd> silent;
  for (size_t i = 0; i < count; ++i) {
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(silent.back().get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  }
  return silent;
}

// What ZeroMQ greets with is passed over.
void AwaitEnd(const os::UniqueFd& connection) {
  std::array<std::byte, 256> greeting;
  while (::read(connection.get(), greeting.data(), greeting.size()) > 0) {
  }
}

class MetadataEndpointLimit : public MetadataEndpointTest {
 protected:
  static constexpr size_t kMax = 20;

  void SetUp() override {
    limit_.peers_max = kMax;
    ASSERT_OK_AND_ASSIGN(
        second_, MetadataEndpoint::Create(loop_.get(), &service_, "tcp://127.0.0.1:0", &limit_));
    MetadataEndpointTest::SetUp();
  }
  void TearDown() override {
    loop_.Stop();
    second_.reset();
    MetadataEndpointTest::TearDown();
  }

  std::unique_ptr<MetadataEndpoint> second_;
};

TEST_F(MetadataEndpointLimit, AMultitudeThatAsksNothingIsBoundedAndWhoAsksStays) {
  constexpr size_t kMore = 300;
  const auto before = Connect(ZMQ_REQ);
  const auto expect_served = [&](Client& client) {
    EXPECT_TRUE(PayloadOf(client.Ask(Message(kExists, 1, KeyPayload("yes")))).Bool("exists"));
  };
  expect_served(*before);
  const std::vector<os::UniqueFd> silent = ConnectSilently(endpoint_->address(), kMore);
  // The oldest go, all but as many as there may be beside who has asked.
  for (size_t i = 0; i < kMore - (kMax - 1); ++i) AwaitEnd(silent[i]);
  expect_served(*before);
  const auto after = Connect(ZMQ_DEALER);
  for (uint32_t i = 0; i < 10; ++i) {
    after->Send({{}, Message(kExists, i, KeyPayload("yes"))});
    EXPECT_EQ(SequenceOf(after->Receive().back()), i);
  }
  expect_served(*before);
  loop_.Stop();
  EXPECT_EQ(limit_.open, kMax);
  EXPECT_EQ(endpoint_->connections().open(), kMax);
  EXPECT_EQ(limit_.ended, kMore + 2 - kMax);
}

TEST_F(MetadataEndpointLimit, TheLimitIsOneForAllAndComesBackWithAnEndpoint) {
  const auto one_more = Connect(ZMQ_REQ);
  one_more->Ask(Message(kExists, 1, KeyPayload("yes")));
  const auto silent = ConnectSilently(second_->address(), kMax);  // the oldest of them goes
  AwaitEnd(silent[0]);
  loop_.Stop();
  EXPECT_EQ(limit_.ended, 1u) << "though nobody ever asked anything at the second";
  second_.reset();
  EXPECT_LE(limit_.open, 1u);
  EXPECT_EQ(limit_.open, endpoint_->connections().open());
}

TEST_F(MetadataEndpointTest, EndsWhileMoreEventsWaitThanThereIsRoomFor) {
  if (os::DescriptorLimit::HardMax() < 4096) GTEST_SKIP() << "needs ulimit -Hn 4096";
  const os::DescriptorLimit enough(4096);
  loop_.Stop();  // so nobody takes them in
  const auto silent = ConnectSilently(endpoint_->address(), 1500);
  for (const os::UniqueFd& one : silent) ::shutdown(one.get(), SHUT_RDWR);
  endpoint_.reset();
  EXPECT_EQ(limit_.open, 0u);
}

TEST(MetadataEndpoint, RefusesAddresses) {
  TestLoop loop;
  TestService service;
  PeerLimit limit;
  const auto create = [&](std::string_view address) {
    return MetadataEndpoint::Create(loop.get(), &service, address, &limit).status();
  };
  EXPECT_CODE(create("ipc:///tmp/x"), kInvalidArgument);
  EXPECT_CODE(create("tcp://somewhere:5555"), kInvalidArgument);
  EXPECT_CODE(create("127.0.0.1:5555"), kInvalidArgument);
  ASSERT_OK_AND_ASSIGN(const auto endpoint,
                       MetadataEndpoint::Create(loop.get(), &service, "tcp://127.0.0.1:0", &limit));
  EXPECT_CODE(create(endpoint->address()), kAlreadyExists);
}

}  // namespace
}  // namespace maru::net::compat
