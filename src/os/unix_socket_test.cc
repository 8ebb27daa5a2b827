#include "os/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/testing.h"
#include "os/event.h"
#include "os/process.h"
#include "os/temp_folder.h"
#include "os/test_host.h"
#include "os/unix_address.h"

namespace maru::os {
namespace {

class UnixSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(folder_);
    ASSERT_OK(pair_);
  }

  UnixAddress Address() const { return *UnixAddress::Path(folder_->File("socket")); }
  SeqpacketSocket& a() { return pair_->first; }
  SeqpacketSocket& b() { return pair_->second; }

  Result<TempFolder> folder_ = TempFolder::Create();
  Result<std::pair<SeqpacketSocket, SeqpacketSocket>> pair_ = SeqpacketSocket::Pair();
};

SeqpacketSocket AcceptFrom(const UnixListener& listener) {
  Result<Poller> poller = Poller::Create();
  EXPECT_OK(poller->Add(listener.fd(), Interest::kRead, 0));
  std::array<ReadyEvent, 1> events;
  EXPECT_EQ(*poller->Wait(events, -1), 1u);
  Result<SeqpacketSocket> socket = listener.TryAccept();
  EXPECT_OK(socket);
  return *std::move(socket);
}

TEST_F(UnixSocketTest, KeepsMessagesApart) {
  ASSERT_OK(a().Send(AsBytes("one")));
  ASSERT_OK(a().Send(AsBytes("three")));
  std::array<std::byte, 16> room;
  EXPECT_EQ(*b().Receive(room), 3u);
  EXPECT_EQ(*b().Receive(room), 5u);
  EXPECT_EQ(AsText(std::span(room).first(5)), "three");
}

TEST_F(UnixSocketTest, PassesDescriptors) {
  ASSERT_OK_AND_ASSIGN(const File file, File::CreateMemory("passed"));
  ASSERT_OK(file.WriteAt(AsBytes("inside"), 0));
  const std::vector<int> many(kDescriptorsMax, file.fd());
  ASSERT_OK(a().Send(AsBytes("files"), many));
  std::array<std::byte, 16> room;
  std::vector<UniqueFd> descriptors;
  EXPECT_EQ(*b().Receive(room, &descriptors), 5u);
  ASSERT_EQ(descriptors.size(), kDescriptorsMax);
  EXPECT_EQ(::fcntl(descriptors[3].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  const File received(std::move(descriptors[3]), "received");
  std::array<std::byte, 6> read;
  ASSERT_OK(received.ReadExactlyAt(read, 0));
  EXPECT_EQ(AsText(read), "inside");
}

TEST_F(UnixSocketTest, MessageLargerThanTheBufferIsAnErrorAndOnlyThat) {
  const std::string large(100, 'x');
  const int passed[] = {a().fd()};
  ASSERT_OK(a().Send(AsBytes(large), passed));
  ASSERT_OK(a().Send(AsBytes("next")));
  std::array<std::byte, 16> room;
  std::vector<UniqueFd> descriptors;
  const Result<std::size_t> cut = b().Receive(room, &descriptors);
  EXPECT_CODE(cut, kDataLoss);
  EXPECT_NE(cut.status().message().find("larger than 16 bytes"), std::string_view::npos);
  EXPECT_TRUE(descriptors.empty());
  EXPECT_EQ(*b().Receive(room), 4u);
}

TEST_F(UnixSocketTest, UnexpectedDescriptorsAreAnErrorAndLeakNothing) {
  ASSERT_OK_AND_ASSIGN(const File file, File::CreateMemory("unexpected"));
  const int passed[] = {file.fd()};
  ASSERT_OK(a().Send(AsBytes("x"), passed));
  std::array<std::byte, 16> room;
  const int before = ::dup(0);
  ::close(before);
  EXPECT_CODE(b().Receive(room), kDataLoss);
  const int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(after, before);
}

TEST_F(UnixSocketTest, DescriptorsThatTheProcessHasNoRoomForAreTheProcessesLimit) {
  const int three[] = {a().fd(), b().fd(), 0};
  ASSERT_OK(a().Send(AsBytes("x"), three));
  std::array<std::byte, 16> room;
  std::vector<UniqueFd> descriptors;
  {
    // One of the three finds a place.
    const UniqueFd next(::dup(0));
    const DescriptorLimit limit(static_cast<rlim_t>(next.get()) + 2);
    const Status status = b().Receive(room, &descriptors).status();
    EXPECT_CODE(status, kResourceExhausted);
    EXPECT_NE(status.message().find("ulimit -n"), std::string::npos) << status.message();
    EXPECT_TRUE(descriptors.empty());
  }
  // More than a message may have is the peer's doing, whatever the limit.
  ASSERT_OK(a().Send(AsBytes("y"), three));
  EXPECT_OK(b().Receive(room, &descriptors));
  EXPECT_EQ(descriptors.size(), 3u);
}

TEST_F(UnixSocketTest, PeersEndIsUnavailableNotASignal) {
  b().Close();
  std::array<std::byte, 16> room;
  EXPECT_CODE(a().Receive(room), kUnavailable);
  EXPECT_CODE(a().Send(AsBytes("x")), kUnavailable);
  EXPECT_EQ(a().TryReceive(room)->outcome, IoOutcome::kClosed);
  EXPECT_EQ(*a().TrySend(AsBytes("x")), IoOutcome::kClosed);
}

TEST_F(UnixSocketTest, WaitsUpToItsTimeOut) {
  ASSERT_OK(a().SetTimeout(1));
  std::array<std::byte, 16> room;
  EXPECT_CODE(a().Receive(room), kDeadlineExceeded);
  ASSERT_OK(a().SetBufferBytes(4096));
  const std::string block(1024, 'x');
  Status status;
  // Room for some 4 KiB each way, doubled by the kernel: full long before this.
  for (int i = 0; i < 1000 && status.ok(); ++i) status = a().Send(AsBytes(block));
  EXPECT_CODE(status, kDeadlineExceeded);
  EXPECT_EQ(*a().TrySend(AsBytes(block)), IoOutcome::kWouldBlock);
}

std::atomic<int> signals_handled{0};

// A signal must neither end a wait early nor stretch it.
TEST_F(UnixSocketTest, SignalsDoNotDisturbAWait) {
  struct sigaction action{};
  action.sa_handler = [](int) { signals_handled.fetch_add(1); };
  struct sigaction former{};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &former), 0);
  std::atomic<bool> done{false};
  std::array<std::byte, 16> room;
  Result<std::size_t> received = std::size_t{0};
  ASSERT_OK(b().SetTimeout(600'000));
  std::thread waiter([&] {
    received = b().Receive(room);
    done.store(true);
  });
  while (signals_handled.load() < 100) ::pthread_kill(waiter.native_handle(), SIGUSR1);
  EXPECT_FALSE(done.load());
  ASSERT_OK(a().Send(AsBytes("late")));
  waiter.join();
  ASSERT_OK(received);
  EXPECT_EQ(*received, 4u);

  ASSERT_OK(b().SetTimeout(20));
  std::thread expiring([&] {
    received = b().Receive(room);
    done.store(false);
  });
  while (done.load()) ::pthread_kill(expiring.native_handle(), SIGUSR1);
  expiring.join();
  EXPECT_CODE(received, kDeadlineExceeded);
  ::sigaction(SIGUSR1, &former, nullptr);
}

TEST_F(UnixSocketTest, TriesWithoutWaiting) {
  std::array<std::byte, 16> room;
  EXPECT_EQ(b().TryReceive(room)->outcome, IoOutcome::kWouldBlock);
  EXPECT_EQ(*a().TrySend(AsBytes("now")), IoOutcome::kDone);
  const Result<Received> received = b().TryReceive(room);
  EXPECT_EQ(received->outcome, IoOutcome::kDone);
  EXPECT_EQ(received->size_bytes, 3u);
}

TEST_F(UnixSocketTest, MessageBeyondTheBuffersIsRefused) {
  ASSERT_OK(a().SetBufferBytes(4096));
  const std::string huge(1 << 22, 'x');
  EXPECT_CODE(a().Send(AsBytes(huge)), kInvalidArgument);
  EXPECT_CODE(a().TrySend(AsBytes(huge)), kInvalidArgument);
}

TEST_F(UnixSocketTest, ListenerHasItsModeAndKnowsItsPeers) {
  const mode_t former = ::umask(0077);
  const Result<UnixListener> listener = UnixListener::Listen(Address(), kModeGroup);
  ::umask(former);
  ASSERT_OK(listener);
  struct stat stat{};
  ASSERT_EQ(::stat(Address().text().c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 0777, 0660u);
  EXPECT_FALSE(listener->TryAccept()->valid());

  ASSERT_OK_AND_ASSIGN(SeqpacketSocket client, SeqpacketSocket::Connect(Address(), 1000));
  SeqpacketSocket server = AcceptFrom(*listener);
  EXPECT_EQ(server.Credentials()->pid, ::getpid());
  EXPECT_EQ(server.Credentials()->uid, ::geteuid());
  EXPECT_EQ(client.Credentials()->pid, ::getpid());
  std::vector<gid_t> own(1000);
  own.resize(static_cast<std::size_t>(::getgroups(1000, own.data())));
  const Result<std::vector<std::uint32_t>> groups = server.PeerGroups();
  ASSERT_OK(groups);
  EXPECT_EQ(*groups, std::vector<std::uint32_t>(own.begin(), own.end()));
  ASSERT_OK(client.Send(AsBytes("hello")));
  std::array<std::byte, 16> room;
  EXPECT_EQ(*server.Receive(room), 5u);
}

TEST_F(UnixSocketTest, SecondListenerIsRefusedAndTheFirstGoesOn) {
  ASSERT_OK_AND_ASSIGN(const UnixListener first, UnixListener::Listen(Address()));
  const Result<UnixListener> second = UnixListener::Listen(Address());
  EXPECT_CODE(second, kAlreadyExists);
  EXPECT_NE(second.status().message().find("is in use"), std::string_view::npos);
  EXPECT_OK(SeqpacketSocket::Connect(Address(), 1000));
}

TEST_F(UnixSocketTest, ListenerWithoutALockIsFoundByConnecting) {
  UniqueFd foreign(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  const UnixAddress address = Address();
  const SocketName name(address);
  ASSERT_EQ(::bind(foreign.get(), name.get(), name.size()), 0);
  ASSERT_EQ(::listen(foreign.get(), 1), 0);
  const Result<UnixListener> listener = UnixListener::Listen(address);
  EXPECT_CODE(listener, kAlreadyExists);
  EXPECT_NE(listener.status().message().find(std::to_string(::getpid())), std::string_view::npos);
}

TEST_F(UnixSocketTest, StaleSocketIsReplacedAndOtherFilesAreNot) {
  const pid_t dead = ::fork();
  ASSERT_GE(dead, 0);
  if (dead == 0) {
    const Result<UnixListener> listener = UnixListener::Listen(Address());
    if (!listener.ok()) ::_exit(1);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(dead, &status, 0), dead);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(*KindOf(Address().text()), PathKind::kSocket);
  {
    ASSERT_OK_AND_ASSIGN(const UnixListener listener, UnixListener::Listen(Address()));
    EXPECT_OK(SeqpacketSocket::Connect(Address(), 1000));
  }
  EXPECT_EQ(*KindOf(Address().text()), PathKind::kMissing);
  ASSERT_OK(WriteTextFile(Address().text(), "a file"));
  EXPECT_CODE(UnixListener::Listen(Address()), kAlreadyExists);
  EXPECT_EQ(*ReadTextFile(Address().text(), 100), "a file");
  EXPECT_EQ(*KindOf(Address().text() + ".lock"), PathKind::kMissing) << "beside somebody's file";
}

TEST_F(UnixSocketTest, ALockThatWasRemovedBetweenTwoStepsIsTakenAnew) {
  // Many at once, each of which takes away what the others are about to lock: one listens at a
  // time.
  constexpr int kThreads = 4, kRounds = 200;
  std::atomic<int> listening = 0, together = 0, turns = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const Result<UnixListener> listener = UnixListener::Bind(Address(), kModeOwner);
        if (!listener.ok()) {
          EXPECT_CODE(listener, kAlreadyExists);
          continue;
        }
        if (++listening > 1) ++together;
        ++turns;
        std::this_thread::yield();
        --listening;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, 0);
  EXPECT_GT(turns, 0);
  EXPECT_TRUE(ListDirectory(folder_->path(), 10)->empty());
}

TEST_F(UnixSocketTest, AbstractNamesNeedNoFile) {
  const UnixAddress address = *UnixAddress::Parse("@" + folder_->path());
  EXPECT_EQ(address.ToString(), "@" + folder_->path());
  {
    ASSERT_OK_AND_ASSIGN(const UnixListener listener, UnixListener::Listen(address));
    const Status taken = UnixListener::Listen(address).status();
    EXPECT_CODE(taken, kAlreadyExists);
    EXPECT_NE(taken.message().find("process " + std::to_string(ProcessId())),
              std::string_view::npos)
        << taken.message();
    EXPECT_OK(SeqpacketSocket::Connect(address, 1000));
  }
  EXPECT_CODE(SeqpacketSocket::Connect(address, 1000), kUnavailable);
}

TEST_F(UnixSocketTest, NobodyThereSaysHowToStartAServer) {
  const Result<SeqpacketSocket> socket = SeqpacketSocket::Connect(Address(), 1000);
  EXPECT_CODE(socket, kUnavailable);
  EXPECT_NE(socket.status().message().find("maru serve"), std::string_view::npos);
}

TEST_F(UnixSocketTest, RefusesAddressesThatDoNotFit) {
  EXPECT_OK(UnixAddress::Path(std::string(kSocketPathBytesMax, 'x')));
  EXPECT_CODE(UnixAddress::Path(std::string(kSocketPathBytesMax + 1, 'x')), kInvalidArgument);
  EXPECT_CODE(UnixAddress::Path(""), kInvalidArgument);
  EXPECT_CODE(UnixAddress::Parse("@"), kInvalidArgument);
  EXPECT_CODE(UnixAddress::Abstract(std::string_view("a\0b", 3)), kInvalidArgument);
}

}  // namespace
}  // namespace maru::os
