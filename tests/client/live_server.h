// A real `maru serve` for tests of the client library: a process of its own, on pools and a socket
// of its own. It can be killed and started again on the same pools, or on others of them. It serves
// upstream's protocols where the options say so, --listen first.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "maru/client.h"
#include "os/file.h"
#include "os/line_reader.h"
#include "os/process.h"

namespace maru {

// Looks until something is so that has to become so by itself. What does not is told as the promise
// that is broken. Many looks, each of which takes a moment: no limit of time.
inline constexpr uint64_t kManyLooks = 2'000'000;  // of a few microseconds each
template <typename Kept>
void Await(const std::string& promise, Kept&& kept, uint64_t looks_max = 10'000) {
  for (uint64_t looks = 0; looks < looks_max; ++looks) {
    if (kept()) return;
  }
  ADD_FAILURE() << "not after " << looks_max << " looks: " << promise;
}

class LiveServer {
 public:
  using Pools = std::vector<size_t>;  // by number, in their order

  explicit LiveServer(const std::string& size, std::vector<std::string> options = {},
                      Pools pools = {0})
      : size_(size), options_(std::move(options)), pools_(std::move(pools)) {
    const uint64_t number = os::RandomNumber().value();
    const std::string name = "maru-client-test-" + std::to_string(number);
    pool_ = "/dev/shm/" + name;
    socket_ = "/tmp/" + name + ".sock";
    Start();
  }
  ~LiveServer() {
    if (child_) End(SIGTERM);
    for (const size_t pool : made_) {
      EXPECT_TRUE(os::RemoveFile(PoolPath(pool)).ok());
      os::RemoveFile(PoolPath(pool) + ".key").ok();
    }
    os::RemoveFile(socket_ + ".lock").ok();
    os::RemoveFile(socket_).ok();
  }

  void Start() { StartWith(options_); }
  void StartOn(Pools pools) {
    pools_ = std::move(pools);
    Start();
  }
  // Another pool at the same place.
  void StartFresh() {
    std::vector<std::string> options = options_;
    options.push_back("--fresh");
    StartWith(options);
  }
  // A copy of a pool, told apart from it by the tool that is there for it. REQUIRES: nobody serves
  // the one, and there is no other.
  void Copy(size_t pool, size_t copy) {
    const os::File from = os::File::Open(PoolPath(pool), os::Access::kRead).value();
    const os::File to = os::File::Create(PoolPath(copy)).value();
    made_.insert(copy);
    std::vector<std::byte> bytes(from.Facts()->size_bytes);
    ASSERT_EQ(from.ReadAt(bytes, 0).value(), bytes.size());
    ASSERT_TRUE(to.WriteAt(bytes, 0).ok());
    os::ChildOptions streams;
    streams.output = os::ChildStream::kPipe;
    auto child = os::Child::Start({MARU_PROGRAM, "pool", "renumber", PoolPath(copy)}, streams);
    ASSERT_TRUE(child.ok()) << child.status().ToString();
    ASSERT_TRUE(child->ReadOutput(kToolOutputMax).ok());
    ASSERT_EQ(child->Wait()->code, 0);
  }
  // Goes on afterwards, or after SIGSTOP with SIGCONT.
  void Signal(int signal) { ASSERT_TRUE(child_->Signal(signal).ok()); }
  void End(int signal) {
    ASSERT_TRUE(child_->Signal(signal).ok());
    ASSERT_TRUE(child_->Wait().ok());
    child_.reset();
  }

  // A tool's output and exit code.
  std::string Tool(const std::vector<std::string>& words, int* code = nullptr) const {
    std::vector<std::string> line = {MARU_PROGRAM, words.front(), "--server", socket_, "--json"};
    line.insert(line.end(), words.begin() + 1, words.end());
    os::ChildOptions streams;
    streams.output = os::ChildStream::kPipe;
    auto child = os::Child::Start(line, streams);
    EXPECT_TRUE(child.ok());
    std::string output = child->ReadOutput(kToolOutputMax).value();
    const auto exit = child->Wait();
    if (code != nullptr) *code = exit->code;
    return output;
  }
  bool AuditIsClean() const {
    int code = -1;
    const std::string output = Tool({"audit"}, &code);
    return code == 0 || (ADD_FAILURE() << output, false);
  }
  // How often a word stands in the list of clients, as {"label": ...} does for each.
  size_t CountInClients(const std::string& word) const {
    const std::string output = Tool({"stat", "--clients"});
    size_t count = 0;
    for (size_t at = output.find(word); at != std::string::npos; at = output.find(word, at + 1)) {
      ++count;
    }
    return count;
  }

  // Until none of them is a client: the server looks at the lock of a closed connection's client
  // until that is free.
  void AwaitGone(const std::vector<std::string>& labels) const {
    for (const std::string& label : labels) {
      Await("a client is gone with its process and the last of its pages, here " + label,
            [&] { return CountInClients("\"" + label + "\"") == 0; });
    }
  }

  ClientOptions Options(const std::string& label = "test") const {
    ClientOptions options;
    options.server_url = socket_;
    options.label = label;
    options.page_bytes = 4096;
    return options;
  }
  std::unique_ptr<Client> Connect(const ClientOptions& options) const {
    auto client = Client::Connect(options);
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    return client.ok() ? std::move(*client) : nullptr;
  }
  std::unique_ptr<Client> Connect(const std::string& label = "test") const {
    return Connect(Options(label));
  }
  const std::string& socket() const { return socket_; }
  // Where --listen serves: "tcp://127.0.0.1:PORT", the same after a restart.
  const std::string& metadata() const { return metadata_; }
  // The socket's abstract name, "@maru-" and the uuid of the pool.
  const std::string& abstract_name() const { return name_; }

 private:
  static constexpr size_t kToolOutputMax = 16 << 20;

  void StartWith(const std::vector<std::string>& options) {
    std::vector<std::string> words = {MARU_PROGRAM, "serve", "--socket", socket_};
    for (const size_t pool : pools_) {
      words.push_back("--pool");
      words.push_back("file:" + PoolPath(pool) + ",size=" + size_);
      made_.insert(pool);
    }
    if (std::ranges::find(options, "--listen") == options.end()) {
      words.insert(words.end(), {"--listen", "none", "--rm-listen", "none"});
    }
    words.insert(words.end(), options.begin(), options.end());
    os::ChildOptions streams;
    streams.output = os::ChildStream::kPipe;
    streams.environment = {"MARU_LOG_LEVEL=error"};
    auto child = os::Child::Start(words, streams);
    ASSERT_TRUE(child.ok()) << child.status().ToString();
    child_.emplace(std::move(*child));
    os::LineReader lines(child_->output_fd());
    while (true) {
      const auto line = lines.Next();
      ASSERT_TRUE(line.ok() && line->has_value()) << "the server did not start";
      constexpr std::string_view kAlsoAt = "also at ";
      if ((*line)->starts_with(kAlsoAt)) {
        name_ = (*line)->substr(kAlsoAt.size(), (*line)->find(',') - kAlsoAt.size());
      }
      constexpr std::string_view kMetadata = "upstream's metadata protocol at ";
      if ((*line)->starts_with(kMetadata)) metadata_ = (*line)->substr(kMetadata.size());
      if ((*line)->starts_with("listening on ")) break;
    }
    // A port that was chosen stays.
    std::ranges::replace(options_, "tcp://127.0.0.1:0", metadata_);
  }

  std::string PoolPath(size_t pool) const { return pool_ + "-" + std::to_string(pool); }

  const std::string size_;
  std::vector<std::string> options_;
  Pools pools_;
  std::set<size_t> made_;
  std::string pool_, socket_, name_, metadata_;
  std::optional<os::Child> child_;
};

// Bytes that follow from a key.
inline std::vector<std::byte> BytesOf(const std::string& key, size_t size = 4096) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(key[i % key.size()] + static_cast<char>(i / key.size()));
  }
  return bytes;
}
inline bool Matches(const View& view, const std::string& key) {
  const std::vector<std::byte> want = BytesOf(key, view.bytes().size());
  return !view.bytes().empty() && std::equal(want.begin(), want.end(), view.bytes().begin());
}

}  // namespace maru
