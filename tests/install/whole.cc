// Uses each class and function that the headers declare, against the server at the address that
// is named: what the library does not show, this does not link with. Says what its log sink was
// told.
#include <maru/client.h>
#include <maru/log.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

class Sink : public maru::LogSink {
 public:
  void Write(maru::LogLevel level, std::string_view line) override {
    const std::lock_guard lock(mutex_);
    told_ += std::string(maru::LogLevelName(level)) + ": " + std::string(line) + "\n";
  }
  std::string told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  std::mutex mutex_;
  std::string told_;
};

maru::Status Expect(bool holds, const char* what) {
  return holds ? maru::OkStatus() : maru::Internal(what);
}

maru::Status Statuses() {
  using maru::StatusCode;
  const maru::Status all[] = {
      maru::InvalidArgument("x"),   maru::FailedPrecondition("x"), maru::NotFound("x"),
      maru::ResourceExhausted("x"), maru::Unavailable("x"),        maru::DeadlineExceeded("x"),
      maru::DataLoss("x"),          maru::AlreadyExists("x"),      maru::PermissionDenied("x"),
      maru::Internal("x"),
  };
  for (const maru::Status& one : all) {
    const maru::Status copy(one);
    maru::Status assigned(one.code(), "y");
    assigned = copy;
    MARU_RETURN_IF_ERROR(Expect(assigned == one, "a copy differs"));
    const std::string text = std::string(maru::StatusCodeName(one.code())) + ": x";
    MARU_RETURN_IF_ERROR(Expect(one.ToString() == text, "a status has another text"));
  }
  return maru::OkStatus();
}

maru::Status Pages(maru::Client& client) {
  MARU_ASSIGN_OR_RETURN(maru::Page page, client.Alloc(8));
  maru::Page moved(std::move(page));
  page = std::move(moved);
  std::memcpy(page.data(), "in place", 8);
  maru::PageHold hold;
  MARU_ASSIGN_OR_RETURN(hold, client.Hold(page));
  maru::PageHold kept(std::move(hold));
  hold = std::move(kept);
  MARU_RETURN_IF_ERROR(client.Store("whole/0", std::move(page)).status());
  hold.Release();

  maru::Page by_address;
  MARU_ASSIGN_OR_RETURN(by_address, client.Alloc(8));
  MARU_RETURN_IF_ERROR(client.Store("whole/1", by_address.address(), 8).status());
  MARU_RETURN_IF_ERROR(client.Free(by_address.address()));
  MARU_ASSIGN_OR_RETURN(maru::Page unused, client.Alloc(8));
  MARU_RETURN_IF_ERROR(client.Free(std::move(unused)));

  const std::vector<std::string_view> keys = {"whole/1", "whole/2"};
  std::vector<maru::Page> pages(keys.size());
  for (maru::Page& each : pages) {
    MARU_ASSIGN_OR_RETURN(each, client.Alloc(8));
  }
  MARU_RETURN_IF_ERROR(client.BatchStore(keys, pages).status());
  return client.Put("whole/3", std::as_bytes(std::span("put"))).status();
}

maru::Status Keys(maru::Client& client) {
  const std::vector<std::string_view> keys = {"whole/0", "whole/1", "whole/2", "whole/3"};
  {
    maru::View view;
    MARU_ASSIGN_OR_RETURN(view, client.Retrieve(keys[0]));
    maru::View moved(std::move(view));
    view = std::move(moved);
    const bool same = view && std::memcmp(view.bytes().data(), "in place", 8) == 0;
    MARU_RETURN_IF_ERROR(Expect(same, "the bytes are others"));
    view.Release();
    MARU_ASSIGN_OR_RETURN(const std::vector<maru::View> views, client.BatchRetrieve(keys));
    for (const maru::View& each : views) MARU_RETURN_IF_ERROR(Expect(bool(each), "a key is away"));
  }
  MARU_ASSIGN_OR_RETURN(const bool there, client.Exists(keys[0]));
  MARU_RETURN_IF_ERROR(client.BatchExists(keys).status());
  MARU_ASSIGN_OR_RETURN(const std::uint64_t prefix, client.MatchPrefix(keys));
  MARU_RETURN_IF_ERROR(Expect(there && prefix == keys.size(), "the prefix is another"));
  MARU_RETURN_IF_ERROR(client.Pin(keys[0]).status());
  MARU_RETURN_IF_ERROR(client.Unpin(keys[0]).status());
  MARU_RETURN_IF_ERROR(client.BatchPin(keys).status());
  MARU_RETURN_IF_ERROR(client.BatchUnpin(keys).status());
  MARU_ASSIGN_OR_RETURN(const maru::Deleted deleted, client.Delete(keys[0]));
  MARU_RETURN_IF_ERROR(Expect(deleted == maru::Deleted::kDeleted, "a key stays"));
  return client.BatchDelete(keys).status();
}

maru::Status Run(const std::string& server) {
  MARU_RETURN_IF_ERROR(Statuses());
  maru::ClientOptions options;
  options.server_url = server;
  options.page_bytes = 4096;
  MARU_ASSIGN_OR_RETURN(const auto client, maru::Client::Connect(options));
  MARU_RETURN_IF_ERROR(Pages(*client));
  MARU_RETURN_IF_ERROR(Keys(*client));
  MARU_RETURN_IF_ERROR(client->Ping());
  MARU_RETURN_IF_ERROR(Expect(client->statistics().stores > 0, "no store is counted"));
  MARU_RETURN_IF_ERROR(Expect(client->connected(), "not connected"));
  client->Close();
  return maru::OkStatus();
}

}  // namespace

int main(int, char** argv) {
  const auto sink = std::make_shared<Sink>();
  maru::SetLogSink(sink);
  const maru::Status status = Run(argv[1]);
  maru::SetLogSink(nullptr);
  std::printf("%s%s\n", sink->told().c_str(), status.ToString().c_str());
}
