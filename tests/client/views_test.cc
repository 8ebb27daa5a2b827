// While a view lives, its bytes do not change, whatever happens around it.

#include <sys/wait.h>
#include <unistd.h>

#include "live_server.h"

namespace maru {
namespace {

// Stores, deletes and stores anew until every page of a small pool was used several times.
void Churn(Client& client) {
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 600; ++i) {
      const std::string key = "churn-" + std::to_string(round) + "-" + std::to_string(i);
      ASSERT_TRUE(client.Put(key, BytesOf(key, 64 * 1024)).value());
    }
  }
}

// A process that has stored "key" and holds pages that it was granted, until it is killed.
class Writer {
 public:
  explicit Writer(const ClientOptions& options) {
    int stored[2];
    EXPECT_EQ(::pipe(stored), 0);
    process_ = ::fork();
    if (process_ == 0) {
      const auto client = Client::Connect(options);
      char done = 0;
      if (client.ok()) {
        const auto one = (*client)->Alloc(1), another = (*client)->Alloc(1);
        if (one.ok() && another.ok() &&
            (*client)->Put("key", BytesOf("key", 64 * 1024)).value_or(false)) {
          done = 'd';
        }
        if (::write(stored[1], &done, 1) == 1) ::pause();
      }
      ::_exit(1);
    }
    ::close(stored[1]);
    char done = 0;
    EXPECT_EQ(::read(stored[0], &done, 1), 1);
    EXPECT_EQ(done, 'd');
    ::close(stored[0]);
  }
  ~Writer() {
    if (process_ != 0) Kill();
  }
  void Kill() {
    EXPECT_EQ(::kill(process_, SIGKILL), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(process_, &status, 0), process_);
    EXPECT_TRUE(WIFSIGNALED(status));
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

struct Views : testing::Test {
  LiveServer server{"32MiB"};
  ClientOptions options = [this] {
    ClientOptions made = server.Options();
    made.page_bytes = 64 * 1024;
    return made;
  }();
};

TEST_F(Views, KeepTheirBytesThroughDeleteAndReuseOfThePool) {
  const auto writer = server.Connect(options);
  const auto reader = server.Connect(options);
  ASSERT_TRUE(writer->Put("key", BytesOf("key", 64 * 1024)).value());
  const View view = reader->Retrieve("key").value();
  ASSERT_TRUE(Matches(view, "key"));
  EXPECT_EQ(writer->Delete("key").value(), Deleted::kDeleted);
  EXPECT_FALSE(reader->Exists("key").value());
  Churn(*writer);
  EXPECT_TRUE(Matches(view, "key"));
  EXPECT_TRUE(server.AuditIsClean());
}

TEST_F(Views, KeepTheirBytesThroughTheDeathOfTheirWriterAndAnotherStoreOfTheirKey) {
  ClientOptions writers = options;
  writers.label = "the writer";
  Writer writer(writers);
  const auto reader = server.Connect(options);
  const View view = reader->Retrieve("key").value();
  ASSERT_TRUE(Matches(view, "key"));
  ASSERT_EQ(server.CountInClients("\"the writer\""), 1u);
  writer.Kill();
  server.AwaitGone({"the writer"});
  EXPECT_TRUE(Matches(view, "key"));
  const auto other = server.Connect(options);
  EXPECT_EQ(other->Delete("key").value(), Deleted::kDeleted);
  Churn(*other);
  EXPECT_TRUE(other->Put("key", BytesOf("anew", 64 * 1024)).value());
  const View anew = reader->Retrieve("key").value();
  EXPECT_TRUE(Matches(anew, "anew"));
  EXPECT_TRUE(Matches(view, "key"));
  Churn(*other);
  EXPECT_TRUE(Matches(anew, "anew"));
  EXPECT_TRUE(Matches(view, "key"));
  EXPECT_TRUE(server.AuditIsClean());
}

TEST_F(Views, KeepTheirBytesThroughTheDeathOfTheirWriterAndOfTheServer) {
  Writer writer(options);
  const auto reader = server.Connect(options);
  const View view = reader->Retrieve("key").value();
  ASSERT_TRUE(Matches(view, "key"));
  writer.Kill();
  server.End(SIGKILL);
  EXPECT_TRUE(Matches(view, "key"));
  server.Start();
  const auto other = server.Connect(options);
  EXPECT_EQ(other->Delete("key").value(), Deleted::kDeleted);
  Churn(*other);
  EXPECT_TRUE(Matches(view, "key"));
  // The reader comes back by itself and is still the same client.
  EXPECT_FALSE(reader->Exists("key").value());
  EXPECT_TRUE(reader->Put("again", BytesOf("again")).value());
  EXPECT_TRUE(Matches(view, "key"));
  EXPECT_TRUE(server.AuditIsClean());
}

TEST_F(Views, OutliveTheirClient) {
  auto reader = server.Connect(options);
  ASSERT_TRUE(reader->Put("key", BytesOf("key", 64 * 1024)).value());
  View view = reader->Retrieve("key").value();
  reader->Close();
  const auto other = server.Connect(options);
  EXPECT_EQ(other->Delete("key").value(), Deleted::kDeleted);
  Churn(*other);
  EXPECT_TRUE(Matches(view, "key"));
  reader.reset();
  EXPECT_TRUE(Matches(view, "key"));
  view.Release();
  EXPECT_TRUE(server.AuditIsClean());
}

TEST_F(Views, APinnedKeyIsNeitherDeletedNorEvicted) {
  const auto client = server.Connect(options);
  ASSERT_TRUE(client->Put("key", BytesOf("key", 64 * 1024)).value());
  EXPECT_TRUE(client->Pin("key").value());
  EXPECT_EQ(client->Delete("key").value(), Deleted::kPinned);
  Churn(*client);
  EXPECT_TRUE(Matches(client->Retrieve("key").value(), "key"));
  EXPECT_TRUE(client->Unpin("key").value());
  EXPECT_FALSE(client->Unpin("key").value());
  EXPECT_EQ(client->Delete("key").value(), Deleted::kDeleted);
}

TEST(ManyViews, TwoHundredThousandAtOnce) {
  constexpr size_t kViews = 200'000;
  constexpr size_t kBatch = 1000;
  const LiveServer server("512MiB");
  ClientOptions options = server.Options();
  options.page_bytes = 512;
  const auto client = server.Connect(options);
  std::vector<std::string> keys;
  for (size_t i = 0; i < kViews; ++i) keys.push_back("key-" + std::to_string(i));
  const std::vector<std::string_view> texts(keys.begin(), keys.end());
  for (size_t first = 0; first < kViews; first += kBatch) {
    std::vector<Page> pages;
    for (size_t i = 0; i < kBatch; ++i) {
      Result<Page> page = client->Alloc(512);
      ASSERT_TRUE(page.ok()) << page.status().ToString();
      const auto bytes = BytesOf(keys[first + i], 512);
      std::copy(bytes.begin(), bytes.end(), page->data());
      pages.push_back(std::move(*page));
    }
    const auto stored = client->BatchStore(std::span(texts).subspan(first, kBatch), pages).value();
    ASSERT_EQ(std::count(stored.begin(), stored.end(), true), static_cast<ptrdiff_t>(kBatch));
  }
  const std::vector<View> views = client->BatchRetrieve(texts).value();
  ASSERT_EQ(views.size(), kViews);
  EXPECT_EQ(client->statistics().leases, kViews);
  for (size_t i = 0; i < kViews; ++i) ASSERT_TRUE(Matches(views[i], keys[i])) << keys[i];
  EXPECT_EQ(client->MatchPrefix(texts).value(), kViews);
  EXPECT_TRUE(server.AuditIsClean());
}

}  // namespace
}  // namespace maru
