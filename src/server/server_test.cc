// A daemon in this process on a pool of its own, and peers that speak to its socket in bytes.
#include "server/server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/random.h"
#include "base/testing.h"
#include "base/units.h"
#include "layout/geometry.h"
#include "os/clock.h"
#include "os/ofd_lock.h"
#include "os/process.h"
#include "os/temp_folder.h"
#include "os/unix_socket.h"
#include "server/frame_server.h"
#include "wire/codec.h"

namespace maru::server {
namespace {

using Bytes = std::vector<std::byte>;

// One connection, spoken to frame by frame.
class Peer {
 public:
  explicit Peer(const std::string& socket)
      : socket_(os::SeqpacketSocket::Connect(os::UnixAddress::Path(socket).value(), -1).value()) {}

  static Bytes Frame(const wire::Request& request, uint64_t number = 1) {
    Bytes frame(layout::kFrameBytesMax);
    const auto bytes = wire::EncodeRequest(request, RequestNumber(number), Epoch(0), frame);
    EXPECT_OK(bytes);
    frame.resize(*bytes);
    return frame;
  }
  static wire::AttachRequest AttachRequest() {
    wire::AttachRequest request;
    request.protocol_version = layout::kProtocolVersion;
    request.layout_version = layout::kLayoutVersion;
    request.label = "peer";
    return request;
  }

  // The status of the answer. Unavailable: the connection was closed instead.
  Status Send(const Bytes& frame) {
    MARU_RETURN_IF_ERROR(socket_.Send(frame));
    answer_.resize(layout::kFrameBytesMax);
    descriptors_.clear();
    MARU_ASSIGN_OR_RETURN(const size_t size, socket_.Receive(answer_, &descriptors_));
    answer_.resize(size);
    layout::FrameHeader header;
    Status status;
    MARU_RETURN_IF_ERROR(decoder_.DecodeReply(answer_, &header, &status, &reply_));
    return status;
  }
  Status Ask(const wire::Request& request) { return Send(Frame(request)); }
  Status Attach() { return Ask(AttachRequest()); }
  // Nothing more comes.
  bool Closed() {
    Bytes rest(16);
    return socket_.Receive(rest).status().code() == StatusCode::kUnavailable;
  }
  void Close() { socket_.Close(); }

  template <typename Reply>
  const Reply& reply() const {
    return std::get<Reply>(reply_);
  }
  const std::vector<os::UniqueFd>& descriptors() const { return descriptors_; }

 private:
  os::SeqpacketSocket socket_;
  Bytes answer_;
  std::vector<os::UniqueFd> descriptors_;
  wire::Decoder decoder_;
  wire::Reply reply_;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() { Start(1); }
  ~ServerTest() override {
    Peer last(socket_);
    EXPECT_OK(last.Attach());
    wire::AuditRequest audit;
    Status asked;
    do {
      asked = last.Ask(audit);
      EXPECT_OK(asked);
      if (asked.ok()) audit.audit = last.reply<wire::AuditReply>().audit;
    } while (asked.ok() && audit.audit != 0);
    EXPECT_TRUE(last.reply<wire::AuditReply>().clean) << last.reply<wire::AuditReply>().json;
    Stop();
  }

  void Start(size_t pools) {
    ServerOptions options;
    for (size_t i = 0; i < pools; ++i) {
      options.pools.push_back({folder_.File("pool" + std::to_string(i)), 32 * kMiB});
    }
    options.socket_path = socket_;
    auto server = Server::Create(options, &os::RealClock());
    ASSERT_OK(server);
    server_ = std::move(*server);
    running_ = std::thread([this] { EXPECT_OK(server_->Run()); });
  }
  void Stop() {
    server_->Stop();
    running_.join();
    server_.reset();
  }
  // Another peer is served as if nothing had been.
  void ExpectServes(Peer& peer) { EXPECT_OK(peer.Ask(wire::PingRequest{})); }

  const os::TempFolder folder_ = os::TempFolder::Create("/dev/shm").value();
  const std::string socket_ = folder_.File("sock");
  std::unique_ptr<Server> server_;
  std::thread running_;
};

TEST_F(ServerTest, AnAttachPassesThreeDescriptorsForEachPoolAndTheLockIsThePeers) {
  Peer peer(socket_);
  ASSERT_OK(peer.Attach());
  ASSERT_EQ(peer.descriptors().size(), 3u);
  const uint64_t byte = layout::kLivenessOffset + peer.reply<wire::AttachReply>().slot.value();
  const os::File other = os::File::Open(folder_.File("pool0"), os::Access::kReadWrite).value();
  EXPECT_EQ(os::TestByte(other.fd(), byte).value(), os::LockState::kHeld);
  peer.Close();
  // Closed, but the lock is held: detached. It is dead when its descriptors are gone.
  Peer looking(socket_);
  ASSERT_OK(looking.Attach());
  ASSERT_OK(looking.Ask(wire::InspectRequest{wire::InspectTopic::kClients, 0}));
  EXPECT_NE(looking.reply<wire::InspectReply>().json.find("detached"), std::string::npos);
}

TEST_F(ServerTest, AnAttachThatIsRefusedForWantOfRoomLeavesNoLock) {
  Peer owner(socket_);
  ASSERT_OK(owner.Attach());
  Status granted;
  while (granted.ok()) granted = owner.Ask(wire::GrantRequest{2 * kMiB, 1});
  EXPECT_EQ(granted.code(), StatusCode::kResourceExhausted);
  // Until no unit is left for lease blocks.
  std::vector<std::unique_ptr<Peer>> peers;
  Status attached;
  while (attached.ok()) {
    peers.push_back(std::make_unique<Peer>(socket_));
    attached = peers.back()->Attach();
  }
  EXPECT_EQ(attached.code(), StatusCode::kResourceExhausted) << attached.ToString();
  EXPECT_LT(peers.size(), layout::kClientSlots);
  const os::File pool = os::File::Open(folder_.File("pool0"), os::Access::kReadWrite).value();
  size_t held = 0;
  for (uint64_t slot = 0; slot < layout::kClientSlots; ++slot) {
    const auto state = os::TestByte(pool.fd(), layout::kLivenessOffset + slot);
    held += state.value() == os::LockState::kHeld ? 1 : 0;
  }
  // All but the last of them. The owner has let go of its descriptors with its next answer.
  EXPECT_EQ(held, peers.size() - 1);
}

TEST_F(ServerTest, AsManyPoolsAsThereCanBeAreAttachedInOneAnswer) {
  Stop();
  Start(layout::kPoolsMax);
  Peer peer(socket_);
  ASSERT_OK(peer.Attach());
  EXPECT_EQ(peer.descriptors().size(), 3u * layout::kPoolsMax);
}

TEST_F(ServerTest, WithoutAnAttachNothingIsAnsweredButTheConnectionStays) {
  Peer peer(socket_);
  EXPECT_CODE(peer.Ask(wire::GrantRequest{4096, 1}), kFailedPrecondition);
  EXPECT_CODE(peer.Ask(wire::AuditRequest{}), kFailedPrecondition);
  EXPECT_OK(peer.Attach());
  EXPECT_CODE(peer.Attach(), kFailedPrecondition);
  ExpectServes(peer);
}

TEST_F(ServerTest, AThousandIdleConnectionsLeaveRoomForAnother) {
  ASSERT_OK(os::RaiseDescriptorLimit(4096));
  std::vector<Peer> idle;
  for (int i = 0; i < 1100; ++i) idle.emplace_back(socket_);
  Peer peer(socket_);
  EXPECT_OK(peer.Attach());
}

TEST_F(ServerTest, AnotherVersionIsRefusedByBothNumbers) {
  Peer peer(socket_);
  wire::AttachRequest request = Peer::AttachRequest();
  request.protocol_version = 7;
  const Status status = peer.Ask(request);
  EXPECT_CODE(status, kFailedPrecondition);
  EXPECT_NE(status.message().find("version 7"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("upgrade the server"), std::string::npos) << status.message();
}

TEST_F(ServerTest, AFrameWithABrokenHeaderEndsItsConnectionAlone) {
  Peer other(socket_);
  ASSERT_OK(other.Attach());
  const Bytes ping = Peer::Frame(wire::PingRequest{});
  const auto broken = [&](size_t offset, uint8_t value) {
    Bytes frame = ping;
    frame[offset] = std::byte{value};
    return frame;
  };
  const Bytes frames[] = {
      broken(0, 0),                                     // no magic
      broken(4, 0xFF),                                  // no such type
      broken(5, 0x80),                                  // a reply
      broken(8, 1),                                     // payload bytes that are not there
      broken(11, 0xFF),                                 // and four thousand million of them
      broken(12, 1),                                    // reserved bits
      Bytes(1, std::byte{'M'}),                         // less than a header
      Bytes(ping.begin(), ping.end() - 1),              // nearly one
      Bytes(layout::kFrameBytesMax, std::byte{0x5A}),   // as large as can be
      Bytes(layout::kFrameBytesMax + 1, std::byte{0}),  // larger
  };
  for (const Bytes& frame : frames) {
    Peer peer(socket_);
    ASSERT_OK(peer.Attach());
    const Status status = peer.Send(frame);
    EXPECT_TRUE(status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDataLoss)
        << status.ToString();
    EXPECT_TRUE(peer.Closed());
    ExpectServes(other);
  }
}

TEST_F(ServerTest, CountsThatLieAreRefusedByNameAndEndTheirConnectionAlone) {
  Peer other(socket_);
  ASSERT_OK(other.Attach());
  wire::RegisterRequest registering;
  registering.entries.push_back({{PoolIndex(0), RecordNumber(1), Generation(1)}, 1, 0, "key"});
  const wire::Request requests[] = {
      registering, wire::FindRequest{{"a", "b"}}, wire::DeleteRequest{{"a"}},
      wire::SettleRequest{true, {{PoolIndex(0), RecordNumber(1), Generation(1)}}},
      wire::GiveBackRequest{{{PoolIndex(0), RecordNumber(1), Generation(1)}}}};
  for (const wire::Request& request : requests) {
    const Bytes right = Peer::Frame(request);
    // Each word of the payload in turn says far more than there is.
    for (size_t at = sizeof(layout::FrameHeader); at + 4 <= right.size(); at += 4) {
      Peer peer(socket_);
      ASSERT_OK(peer.Attach());
      Bytes frame = right;
      std::memset(&frame[at], 0xFF, 4);
      const Status status = peer.Send(frame);
      // What is no count is a page that is nobody's, or a number that is no bound of anything.
      if (status.code() == StatusCode::kDataLoss) {
        EXPECT_TRUE(peer.Closed());
      }
      EXPECT_NE(status.code(), StatusCode::kInternal) << status.ToString();
      ExpectServes(other);
    }
    Peer peer(socket_);
    ASSERT_OK(peer.Attach());
    Bytes cut(right.begin(), right.end() - 1);
    const uint32_t payload = static_cast<uint32_t>(cut.size() - sizeof(layout::FrameHeader));
    std::memcpy(&cut[8], &payload, 4);
    EXPECT_CODE(peer.Send(cut), kDataLoss);
    EXPECT_TRUE(peer.Closed());
  }
}

TEST_F(ServerTest, SizesAndNumbersOutOfAllBoundsAreErrorsOnAConnectionThatStays) {
  Peer peer(socket_);
  ASSERT_OK(peer.Attach());
  EXPECT_CODE(peer.Ask(wire::GrantRequest{0, 1}), kInvalidArgument);
  EXPECT_CODE(peer.Ask(wire::GrantRequest{4096, 0}), kInvalidArgument);
  EXPECT_CODE(peer.Ask(wire::GrantRequest{~uint64_t{0}, 1}), kInvalidArgument);
  EXPECT_CODE(peer.Ask(wire::GrantRequest{kGiB, 1}), kResourceExhausted);
  EXPECT_OK(peer.Ask(wire::GrantRequest{512, ~0u}));
  EXPECT_LE(peer.reply<wire::GrantReply>().pages.size(), wire::kPagesPerMessageMax);
  EXPECT_CODE(peer.Ask(wire::GrowLeasesRequest{PoolIndex(15), 1}), kInvalidArgument);
  EXPECT_OK(peer.Ask(wire::FreeRequest{{PoolIndex(9), RecordNumber(~0u), Generation(~0u)}}));
  EXPECT_EQ(peer.reply<wire::FreeReply>().outcome, wire::FreeOutcome::kStale);
  EXPECT_OK(peer.Ask(wire::ResolveRequest{{{PoolIndex(0), RecordNumber(~0u), Generation(1)}}}));
  EXPECT_EQ(peer.reply<wire::ResolveReply>().live, std::vector<uint8_t>({0}));
  const std::string over(layout::kKeyBytesMax + 1, 'k');
  EXPECT_FALSE(peer.Ask(wire::ListRequest{"", ~uint64_t{0}, ~0u}).code() == StatusCode::kInternal);
  ExpectServes(peer);
}

TEST_F(ServerTest, GarbageOfAnyKindLeavesTheServerAndItsPeersAlone) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  Peer other(socket_);
  ASSERT_OK(other.Attach());
  ASSERT_OK(other.Ask(wire::GrantRequest{4096, 4}));
  const auto pages = other.reply<wire::GrantReply>().pages;
  wire::RegisterRequest registering;
  registering.entries.push_back({pages[0], 100, 0, "the other's"});
  ASSERT_OK(other.Ask(registering));
  for (int round = 0; round < 1000; ++round) {
    Peer peer(socket_);
    if (random.OneIn(2)) {
      ASSERT_OK(peer.Attach());
    }
    Bytes frame(random.Between(1, 400));
    for (std::byte& byte : frame) byte = static_cast<std::byte>(random.OneIn(2) ? random() : 0);
    if (frame.size() >= sizeof(layout::FrameHeader) && !random.OneIn(4)) {
      layout::FrameHeader header{};
      header.magic = layout::kFrameMagic;
      header.type = static_cast<uint16_t>(random.Between(1, 15));
      header.payload_bytes = static_cast<uint32_t>(frame.size() - sizeof(header));
      std::memcpy(frame.data(), &header, sizeof(header));
    }
    EXPECT_NE(peer.Send(frame).code(), StatusCode::kInternal);
  }
  ExpectServes(other);
  ASSERT_OK(other.Ask(wire::FindRequest{{"the other's"}}));
  EXPECT_TRUE(other.reply<wire::FindReply>().items[0].found);
}

TEST_F(ServerTest, AnotherUsersPeerIsRefusedByItsUidAndTheWayToAdmitIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::chmod(socket_.c_str(), 0666), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    Peer peer(socket_);
    const Status status = peer.Attach();
    const std::string_view said = status.message();
    const bool named = said.find("65534") != std::string_view::npos &&
                       said.find("--socket-group") != std::string_view::npos;
    ::_exit(status.code() == StatusCode::kPermissionDenied && named && peer.Closed() ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ServerTest, StrangersWhoSendNothingKeepNobodyOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::chmod(socket_.c_str(), 0666), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_OK(os::RaiseDescriptorLimit(10'000));
  int held[2], end[2];
  ASSERT_EQ(::pipe(held), 0);
  ASSERT_EQ(::pipe(end), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(end[1]);
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    std::vector<os::SeqpacketSocket> idle;
    // More than there may be admitted connections.
    const os::UnixAddress address = os::UnixAddress::Path(socket_).value();
    for (uint32_t i = 0; i < net::UnixEndpoint::kConnectionsMax + 100; ++i) {
      auto socket = os::SeqpacketSocket::Connect(address, -1);
      if (!socket.ok()) ::_exit(2);
      idle.push_back(std::move(*socket));
    }
    char byte = 0;
    (void)!::write(held[1], &byte, 1);
    (void)!::read(end[0], &byte, 1);
    ::_exit(0);
  }
  ::close(held[1]);
  char byte = 0;
  EXPECT_EQ(::read(held[0], &byte, 1), 1) << "the stranger could not connect";
  {
    Peer peer(socket_);
    EXPECT_OK(peer.Attach());
    ExpectServes(peer);
  }
  ::close(end[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {held[0], end[0]}) ::close(fd);
}

TEST(Admission, IsOfTheServersUserOfRootAndOfTheGroupsMembers) {
  Admission admission{.uid = 1000};
  EXPECT_OK(admission.Check({.pid = 1, .uid = 1000, .gid = 5}, {}));
  EXPECT_OK(admission.Check({.pid = 1, .uid = 0, .gid = 0}, {}));
  const Status stranger = admission.Check({.pid = 1, .uid = 1001, .gid = 5}, {7});
  EXPECT_CODE(stranger, kPermissionDenied);
  EXPECT_NE(stranger.message().find("uid 1001"), std::string::npos);
  EXPECT_NE(stranger.message().find("--socket-group"), std::string::npos);
  admission = {.uid = 1000, .has_group = true, .gid = 7, .group_name = "kv"};
  EXPECT_OK(admission.Check({.pid = 1, .uid = 1001, .gid = 7}, {}));
  EXPECT_OK(admission.Check({.pid = 1, .uid = 1001, .gid = 5}, {6, 7}));
  const Status outside = admission.Check({.pid = 1, .uid = 1001, .gid = 5}, {6});
  EXPECT_CODE(outside, kPermissionDenied);
  EXPECT_NE(outside.message().find("group kv"), std::string::npos);
}

TEST(ServerOptions, APoolTwiceASocketInUseAndAFolderThatIsNoneAreErrorsThatNameThem) {
  const os::TempFolder folder = os::TempFolder::Create("/dev/shm").value();
  ServerOptions options;
  options.pools.push_back({folder.File("pool"), 32 * kMiB});
  options.socket_path = folder.File("sock");
  const auto server = Server::Create(options, &os::RealClock());
  ASSERT_OK(server);
  const auto said = [](const ServerOptions& asked) {
    const auto refused = Server::Create(asked, &os::RealClock());
    EXPECT_FALSE(refused.ok());
    return std::string(refused.status().message());
  };
  ServerOptions other = options;
  other.socket_path = folder.File("other");
  EXPECT_NE(said(other).find(folder.File("pool")), std::string::npos) << said(other);
  other.pools = {{folder.File("pool2"), 32 * kMiB}};
  other.socket_path = options.socket_path;
  EXPECT_NE(said(other).find(folder.File("sock")), std::string::npos) << said(other);
  other.socket_path = folder.File("none/sock");
  EXPECT_NE(said(other).find("none"), std::string::npos) << said(other);
}

}  // namespace
}  // namespace maru::server
