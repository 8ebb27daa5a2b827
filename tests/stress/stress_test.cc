// Many processes on one pool: readers verify every byte that they read against its key while
// writers store, delete and use the pages anew at full speed, and any of them is killed at any
// moment and replaced. At the end nothing is leaked, leased or pinned.
//
// MARU_STRESS_READS: how many reads are verified; MARU_TEST_SEED: repeats the choices of a run.

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>

#include "base/testing.h"
#include "board.h"
#include "live_server.h"

namespace maru::stress {
namespace {

constexpr size_t kReaders = 4;
constexpr size_t kWriters = 2;
constexpr uint64_t kReadsDefault = 3'000'000;
constexpr uint64_t kProgressBytes = 400;  // in a whole run: after each, somebody may be killed

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const given = std::getenv(name);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 0);
}

// The board in this process.
class SharedBoard {
 public:
  SharedBoard() : fd_(::memfd_create("board", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(fd_.get(), sizeof(Board)), 0);
    void* const mapped =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    board_ = new (mapped) Board();
  }
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  int fd() const { return fd_.get(); }
  Board* operator->() const { return board_; }

 private:
  const os::UniqueFd fd_;
  Board* board_ = nullptr;
};

class Crowd {
 public:
  Crowd(const LiveServer& server, uint64_t seed, uint64_t reads)
      : server_(server), random_(seed), reads_(reads) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    progress_in_ = os::UniqueFd(ends[0]);
    progress_out_ = os::UniqueFd(ends[1]);
    for (size_t i = 0; i < kReaders + kWriters; ++i) children_.push_back(Start(i));
  }

  // Until so many reads are verified, with deaths on the way.
  void Run() {
    while (Get(board_->verified) < reads_) {
      ASSERT_TRUE(AwaitProgress());
      if (random_.OneIn(2)) Replace(random_.Below(kReaders));
      if (random_.OneIn(8)) Replace(kReaders + random_.Below(kWriters));
    }
  }
  void End() {
    board_->stop_writing = 1;
    board_->stop_reading = 1;
    for (os::Child& child : children_) ExpectGoodEnd(child);
  }
  const Board& board() const { return *board_.operator->(); }
  uint64_t killed() const { return killed_; }

 private:
  os::Child Start(size_t place) {
    const std::vector<std::string> words = {
        os::ProgramPath().value(), place < kReaders ? "reader" : "writer", server_.socket(),
        std::to_string(random_()),
        std::to_string(std::max<uint64_t>(1024, reads_ / kProgressBytes))};
    os::ChildOptions options;
    options.output = os::ChildStream::kPipe;
    options.descriptors = {board_.fd(), progress_out_.get()};
    auto child = os::Child::Start(words, options);
    EXPECT_TRUE(child.ok()) << child.status().ToString();
    return std::move(*child);
  }
  // False: one of the children has ended by itself.
  bool AwaitProgress() {
    std::vector<pollfd> waiting = {{progress_in_.get(), POLLIN, 0}};
    for (const os::Child& child : children_) waiting.push_back({child.output_fd(), POLLIN, 0});
    EXPECT_GT(::poll(waiting.data(), waiting.size(), -1), 0);
    for (size_t i = 0; i < children_.size(); ++i) {
      if (waiting[i + 1].revents == 0) continue;
      ExpectGoodEnd(children_[i]);
      return false;
    }
    char byte = 0;
    return ::read(progress_in_.get(), &byte, 1) == 1;
  }
  void Replace(size_t place) {
    EXPECT_TRUE(children_[place].Signal(SIGKILL).ok());
    EXPECT_TRUE(children_[place].Wait().ok());
    ++killed_;
    std::vector<os::Child> others;
    for (size_t i = 0; i < children_.size(); ++i) {
      others.push_back(i == place ? Start(place) : std::move(children_[i]));
    }
    children_.swap(others);
  }
  static void ExpectGoodEnd(os::Child& child) {
    const std::string said = child.ReadOutput(1 << 16).value_or("");
    const auto exit = child.Wait();
    ASSERT_TRUE(exit.ok());
    EXPECT_TRUE(exit->ok()) << "exit " << exit->code << ", signal " << exit->signal << ": " << said;
  }

  const LiveServer& server_;
  Random random_;
  const uint64_t reads_;
  SharedBoard board_;
  os::UniqueFd progress_in_, progress_out_;
  std::vector<os::Child> children_;
  uint64_t killed_ = 0;
};

// A page count of `maru stat`.
uint64_t Pages(const LiveServer& server, const std::string& state) {
  const std::string stat = server.Tool({"stat"});
  const size_t pages = stat.find("\"pages\"");
  const size_t at = stat.find("\"" + state + "\":", pages);
  EXPECT_NE(at, std::string::npos) << stat;
  return at == std::string::npos ? 0 : std::strtoull(&stat[at + state.size() + 3], nullptr, 10);
}

// Whoever was killed holds nothing: every key can be deleted and every page is free again.
void ExpectNothingIsHeld(const LiveServer& server) {
  server.AwaitGone({"reader", "writer"});
  EXPECT_TRUE(server.AuditIsClean());
  {
    const auto client = server.Connect("the last");
    for (uint64_t key = 0; key < kKeys; ++key) {
      EXPECT_NE(client->Delete(KeyOf(key)).value(), Deleted::kPinned) << KeyOf(key);
    }
    // Quarantine ends with time, and nothing else is waited for.
    Await("pages that nobody holds come back from quarantine",
          [&] { return Pages(server, "quarantined") + Pages(server, "condemned") == 0; });
    EXPECT_EQ(client->statistics().pages_held, 0u);
  }
  EXPECT_EQ(Pages(server, "live"), 0u);
  EXPECT_EQ(Pages(server, "granted"), 0u);
  EXPECT_EQ(Pages(server, "all"), Pages(server, "free"));
  EXPECT_TRUE(server.AuditIsClean());
}

TEST(Stress, EveryByteIsItsKeysWhoeverDies) {
  const uint64_t seed = TestSeed();
  const uint64_t reads = FromEnvironment("MARU_STRESS_READS", kReadsDefault);
  std::cout << "MARU_STRESS_READS=" << reads << std::endl;
  const LiveServer server("64MiB");
  Crowd crowd(server, seed, reads);
  crowd.Run();
  crowd.End();
  const Board& board = crowd.board();
  std::cout << Get(board.verified) << " views verified, " << Get(board.verified_late)
            << " once more later, " << Get(board.missed) << " misses, " << Get(board.pinned)
            << " pins, " << Get(board.stored) << " stores, " << Get(board.deleted) << " deletes, "
            << crowd.killed() << " processes killed" << std::endl;
  EXPECT_GE(Get(board.verified), reads);
  EXPECT_GT(Get(board.deleted), reads / 1000);  // the pages were used anew meanwhile
  EXPECT_GT(crowd.killed(), 10u);
  ExpectNothingIsHeld(server);
}

// The program as a reader or a writer: ROLE SOCKET SEED READS-PER-BYTE, the board and the pipe for
// progress as descriptors 3 and 4.
int RunRole(char** words) {
  void* const mapped = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
  if (mapped == MAP_FAILED) return 2;
  Role role;
  role.socket = words[2];
  role.seed = std::strtoull(words[3], nullptr, 0);
  role.reads_per_byte = std::strtoull(words[4], nullptr, 0);
  role.board = static_cast<Board*>(mapped);
  role.progress = 4;
  const std::string wrong =
      std::strcmp(words[1], "reader") == 0 ? RunReader(role) : RunWriter(role);
  if (wrong.empty()) return 0;
  std::cout << words[1] << " with seed " << role.seed << ": " << wrong << std::endl;
  return 1;
}

}  // namespace
}  // namespace maru::stress

int main(int argc, char** argv) {
  if (argc == 5) return maru::stress::RunRole(argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
