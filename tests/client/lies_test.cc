// Answers that no server gives: a clear error, nothing of the process lost or kept, and the next
// honest answer is believed.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "layout/lease_area.h"
#include "live_server.h"
#include "lying_road.h"

namespace maru {
namespace {

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// What a client that is attached makes of it when it comes back: where the answer says that it goes
// on with other pools, better a new client than none. What it is told then has no descriptors and
// says that it is the same client anyway: some lies change nothing of that.
enum class Later { kGoesOn, kBeginsAnew, kChangesNothing };

struct Lie {
  const char* name;
  LyingRoad::Edit edit;
  Later later = Later::kGoesOn;
};
void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }

std::vector<Lie> Lies() {
  using Answer = LyingRoad::Answer;
  const auto attach = &LyingRoad::OfAttach;
  const auto block = [](wire::AttachReply* reply) -> uint64_t& {
    return reply->pools.front().lease_blocks.back();
  };
  return {
      {"NoDescriptors", [](Answer* answer) { answer->descriptors.clear(); },
       Later::kChangesNothing},
      {"OneDescriptorLess", [](Answer* answer) { answer->descriptors.pop_back(); },
       Later::kChangesNothing},
      {"OneDescriptorMore",
       [](Answer* answer) {
         answer->descriptors.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
       }},
      {"APoolWithoutDescriptors",
       attach([](auto* reply) { reply->pools.push_back(reply->pools.front()); }),
       Later::kBeginsAnew},
      {"NoPool", attach([](auto* reply) { reply->pools.clear(); })},
      {"AnotherUuid", attach([](auto* reply) { reply->pools.front().uuid[0] ^= 1; }),
       Later::kBeginsAnew},
      {"AFileThatIsNoPool",
       [](Answer* answer) {
         const int file = ::memfd_create("no pool", MFD_CLOEXEC);
         ASSERT_EQ(::ftruncate(file, 64 << 20), 0);
         answer->descriptors.front() = os::UniqueFd(file);
       },
       Later::kChangesNothing},
      {"ABlockBeyondThePool",
       attach([=](auto* reply) { block(reply) = reply->pools.front().pool_bytes; })},
      {"ABlockTwice",
       attach([=](auto* reply) { reply->pools.front().lease_blocks.push_back(block(reply)); })},
      {"ABlockThatIsTheHeaderToo",
       attach([=](auto* reply) { block(reply) = reply->pools.front().lease_blocks.front(); })},
      {"NoBlocks", attach([](auto* reply) { reply->pools.front().lease_blocks.clear(); })},
      {"AClientThatWasNever", attach([](auto* reply) { reply->same_client = true; }),
       Later::kChangesNothing},
      {"AnotherRequestsNumber", [](Answer* answer) { ++answer->header().request_number; }},
      {"AnotherRequestsAnswer",
       [](Answer* answer) {
         LyingRoad::Encode(answer->header(), wire::PingReply{}, wire::MessageType::kPing, answer);
       }},
      {"NoFrame", [](Answer* answer) { answer->header().magic = 0; }},
      {"HalfAFrame", [](Answer* answer) { answer->frame.resize(answer->frame.size() / 2); }},
  };
}

std::vector<Lie> LiesToOneThatComesBack() {
  std::vector<Lie> lies = Lies();
  std::erase_if(lies, [](const Lie& lie) { return lie.later == Later::kChangesNothing; });
  return lies;
}

class AttachLies : public testing::TestWithParam<Lie> {
 protected:
  ClientOptions Options() const {
    ClientOptions options = server_.Options();
    options.server_url = road_.socket();
    return options;
  }

  LiveServer server_{"32MiB"};
  LyingRoad road_{server_.socket()};
};

class LaterAttachLies : public AttachLies {};

TEST_P(AttachLies, OfTheFirstAnswerAreRefusedAndLeaveNothing) {
  server_.Connect(Options());  // whatever is opened once for the process
  const size_t before = OpenDescriptors();
  road_.LieOnce(GetParam().edit);
  EXPECT_EQ(Client::Connect(Options()).status().code(), StatusCode::kDataLoss);
  const auto client = server_.Connect(Options());
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->Put("key", BytesOf("key")).value());
  EXPECT_TRUE(Matches(client->Retrieve("key").value(), "key"));
  client->Close();
  Await(
      "the road's descriptors are closed", [&] { return OpenDescriptors() <= before; }, kManyLooks);
  EXPECT_TRUE(server_.AuditIsClean());
}

TEST_P(LaterAttachLies, OfALaterAnswerAreRefusedAndNothingIsLost) {
  const auto client = server_.Connect(Options());
  ASSERT_TRUE(client->Put("key", BytesOf("key")).value());
  ASSERT_TRUE(client->Pin("key").value());
  const View view = client->Retrieve("key").value();
  Page page = client->Alloc(64).value();
  server_.End(SIGKILL);
  Await(
      "a client notices that its server is gone",
      [&] {
        client->Ping().ok();
        return !client->connected();
      },
      kManyLooks);
  // Calls and the background thread meet it, whichever comes first.
  road_.LieOnce(GetParam().edit);
  server_.Start();
  Await(
      "a client finds a server that was started again", [&] { return client->Ping().ok(); },
      kManyLooks);
  EXPECT_GE(road_.attaches_since_lie(), 2) << "it believed the first answer";
  EXPECT_TRUE(Matches(view, "key"));
  EXPECT_TRUE(Matches(client->Retrieve("key").value(), "key"));
  const Result<bool> stored = client->Store("held", std::move(page));
  if (GetParam().later == Later::kGoesOn) {
    EXPECT_TRUE(stored.value());
    EXPECT_TRUE(client->Unpin("key").value());
  } else {
    EXPECT_EQ(stored.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_FALSE(client->Unpin("key").value());
  }
  EXPECT_TRUE(server_.AuditIsClean());
}

std::string NameOf(const testing::TestParamInfo<Lie>& lie) { return lie.param.name; }

INSTANTIATE_TEST_SUITE_P(Lies, AttachLies, testing::ValuesIn(Lies()), NameOf);
INSTANTIATE_TEST_SUITE_P(Lies, LaterAttachLies, testing::ValuesIn(LiesToOneThatComesBack()),
                         NameOf);

}  // namespace
}  // namespace maru
