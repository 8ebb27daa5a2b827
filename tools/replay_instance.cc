// maru replay-instance: one instance of a replay (see instance.h). Not for people.

#include <cstdio>
#include <unordered_set>

#include "os/line_reader.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/error_line.h"
#include "tools/instance.h"
#include "tools/output.h"
#include "tools/workload.h"

namespace maru::tools {

namespace {

constexpr OptionRow kOptions[] = {
    {"trace", "FILE", "", "The trace", Takes::kOne},
    {"index", "N", "0", "Which instance this is", Takes::kOne},
    {"instances", "N", "1", "Of how many", Takes::kOne},
    {"namespace", "NAME", "", "Keys of this namespace", Takes::kOne},
    {"page-size", "BYTES", "16384", "Page size", Takes::kOne},
    {"races", "N", "0", "Register races to force first", Takes::kOne},
    {"requests", "N", "0", "At most N requests of the trace; 0: all", Takes::kOne},
};

constexpr size_t kStoreBatch = 64;
constexpr int kStandardInput = 0;

class Instance {
 public:
  Instance(Client* client, uint64_t page_bytes) : client_(client), page_bytes_(page_bytes) {}

  // All instances store the same keys at the same moment. Between the first store of a key and the
  // last look at it nobody asks for a page, so that no full pool can drop it.
  Status Race(uint32_t races) {
    for (uint32_t race = 0; race < races; ++race) {
      const std::string name = RaceKey(page_bytes_, race);
      MARU_ASSIGN_OR_RETURN(Page page, client_->Alloc(page_bytes_));
      const uint64_t block = ~uint64_t{race};
      FillBlock(block, page.bytes());
      MARU_RETURN_IF_ERROR(Meet());
      const uint64_t duplicates = client_->statistics().duplicates;
      MARU_ASSIGN_OR_RETURN(const bool stored, client_->Store(name, std::move(page)));
      ++result_.races;
      if (!stored) {
        ++result_.refused;
      } else if (client_->statistics().duplicates == duplicates) {
        ++result_.races_won;
      } else {
        ++result_.races_lost;
      }
      MARU_ASSIGN_OR_RETURN(const View view, client_->Retrieve(name));
      if (stored && (!view || !Verified(block, view))) ++result_.verification_failures;
      MARU_RETURN_IF_ERROR(Meet());
    }
    return OkStatus();
  }

  Status Serve(const TraceRequest& request) {
    std::vector<std::string> keys;
    keys.reserve(request.blocks.size());
    for (uint64_t block : request.blocks) keys.push_back(BlockKey(page_bytes_, block));
    const std::vector<std::string_view> texts(keys.begin(), keys.end());
    MARU_ASSIGN_OR_RETURN(const std::vector<View> views, client_->BatchRetrieve(texts));
    std::vector<size_t> missing;
    for (size_t i = 0; i < views.size(); ++i) {
      if (!views[i]) {
        missing.push_back(i);
        continue;
      }
      ++result_.hits;
      result_.bytes_read += views[i].bytes().size();
      if (!mine_.contains(request.blocks[i])) ++result_.shared_hits;
      if (!Verified(request.blocks[i], views[i])) ++result_.verification_failures;
    }
    // Last to first: the head of a prefix is to be the most recent of it.
    for (size_t end = missing.size(); end > 0;) {
      const size_t count = std::min(kStoreBatch, end);
      end -= count;
      MARU_RETURN_IF_ERROR(StoreBlocks(request, texts, std::span(missing).subspan(end, count)));
    }
    ++result_.requests;
    result_.blocks += request.blocks.size();
    return OkStatus();
  }

  const InstanceResult& result() {
    result_.duplicates = client_->statistics().duplicates;
    return result_;
  }

 private:
  // Every byte, and that all are there: what is cut short would match as far as it goes.
  bool Verified(uint64_t block, const View& view) const {
    return view.bytes().size() == page_bytes_ && VerifyBlock(block, view.bytes());
  }

  // Returns when all instances are here.
  Status Meet() {
    PrintLine(kReadyLine);
    std::fflush(stdout);
    MARU_ASSIGN_OR_RETURN(const std::optional<std::string> go, control_.Next());
    if (go) return OkStatus();
    return Unavailable("another instance has failed");
  }

  Status StoreBlocks(const TraceRequest& request, const std::vector<std::string_view>& texts,
                     std::span<const size_t> which) {
    std::vector<Page> pages;
    std::vector<std::string_view> keys;
    for (size_t i : which) {
      Result<Page> page = client_->Alloc(page_bytes_);
      if (!page.ok() && page.status().code() == StatusCode::kResourceExhausted) {
        ++result_.refused;  // a full pool without eviction: served without the cache
        continue;
      }
      MARU_RETURN_IF_ERROR(page.status());
      FillBlock(request.blocks[i], page->bytes());
      pages.push_back(std::move(*page));
      keys.push_back(texts[i]);
      mine_.insert(request.blocks[i]);
    }
    MARU_ASSIGN_OR_RETURN(const std::vector<bool> stored, client_->BatchStore(keys, pages));
    for (bool one : stored) {
      if (one) {
        ++result_.stored;
        result_.bytes_written += page_bytes_;
      } else {
        ++result_.refused;
      }
    }
    return OkStatus();
  }

  Client* const client_;
  const uint64_t page_bytes_;
  os::LineReader control_{kStandardInput};
  InstanceResult result_;
  std::unordered_set<uint64_t> mine_;
};

void PrintResult(const InstanceResult& r) {
  std::printf(
      "result %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu\n",
      static_cast<unsigned long long>(r.requests), static_cast<unsigned long long>(r.blocks),
      static_cast<unsigned long long>(r.hits), static_cast<unsigned long long>(r.shared_hits),
      static_cast<unsigned long long>(r.stored), static_cast<unsigned long long>(r.duplicates),
      static_cast<unsigned long long>(r.refused), static_cast<unsigned long long>(r.bytes_read),
      static_cast<unsigned long long>(r.bytes_written),
      static_cast<unsigned long long>(r.verification_failures),
      static_cast<unsigned long long>(r.races), static_cast<unsigned long long>(r.races_won),
      static_cast<unsigned long long>(r.races_lost));
}

Status Play(const Arguments& arguments) {
  MARU_ASSIGN_OR_RETURN(const uint64_t index, arguments.Number("index", 0, 1023));
  MARU_ASSIGN_OR_RETURN(const uint64_t instances, arguments.Number("instances", 1, 1024));
  MARU_ASSIGN_OR_RETURN(const uint64_t races, arguments.Number("races", 0, 1000));
  MARU_ASSIGN_OR_RETURN(const uint64_t limit, arguments.Number("requests", 0, UINT64_MAX));
  MARU_ASSIGN_OR_RETURN(const std::vector<TraceRequest> trace, ReadTrace(arguments.Get("trace")));
  ClientOptions options;
  options.label = "instance " + std::to_string(index);
  options.name_space = arguments.Get("namespace");
  MARU_ASSIGN_OR_RETURN(options.page_bytes, arguments.Size("page-size"));
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, options));
  Instance instance(client.get(), options.page_bytes);
  MARU_RETURN_IF_ERROR(instance.Race(static_cast<uint32_t>(races)));
  const uint64_t count = limit == 0 ? trace.size() : std::min<uint64_t>(limit, trace.size());
  constexpr uint64_t kProgressEvery = 100;
  for (uint64_t i = index; i < count; i += instances) {
    MARU_RETURN_IF_ERROR(instance.Serve(trace[i]));
    if (instance.result().requests % kProgressEvery == 0) {
      std::printf("done %llu\n", static_cast<unsigned long long>(instance.result().requests));
      std::fflush(stdout);
    }
  }
  PrintResult(instance.result());
  return OkStatus();
}

Result<Exit> Run(const Arguments& arguments) {
  const Status played = Play(arguments);
  if (played.ok()) return Exit::kDone;
  PrintLine(ErrorLine(played));
  return ExitOf(played);
}

}  // namespace

extern const Command kReplayInstance = {"replay-instance", "", "", kOptions, {}, &Run};

}  // namespace maru::tools
