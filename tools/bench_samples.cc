// Samples, and the keys that all cases of `maru bench` look up.

#include <algorithm>

#include "tools/bench.h"
#include "tools/connect.h"
#include "wire/messages.h"

namespace maru::tools {

namespace {

constexpr uint64_t kFillBatch = 64;
constexpr uint64_t kNotesWhileFilling = 10;

// What two readings of the clock are apart when nothing is between them.
double ClockNanoseconds() {
  static const double cost = [] {
    std::vector<double> gaps;
    constexpr int kReadings = 2001;
    for (int i = 0; i < kReadings; ++i) {
      const auto before = BenchClock::now();
      gaps.push_back(static_cast<double>((BenchClock::now() - before).count()));
    }
    return Median(std::move(gaps));
  }();
  return cost;
}

}  // namespace

Result<std::unique_ptr<Client>> BenchClient(const BenchSpec& spec, uint64_t page_bytes) {
  constexpr uint32_t kTimeoutMs = 60'000;
  ClientOptions options;
  options.server_url = spec.server;
  options.server_user = spec.server_user;
  options.label = "maru bench";
  options.name_space = spec.name_space;
  options.page_bytes = page_bytes;
  // On a server of its own a busy machine is no reason to give up; others' may not answer at all.
  if (spec.server_pid != 0) options.timeout_ms = kTimeoutMs;
  return Client::Connect(options);
}

void Samples::Add(BenchClock::duration time) {
  if (nanoseconds_.size() == kMax) return;
  nanoseconds_.push_back(static_cast<uint32_t>(
      std::clamp<int64_t>(std::chrono::nanoseconds(time).count(), 0, UINT32_MAX)));
  sorted_ = false;
}

double Samples::Percentile(uint32_t percent) {
  if (nanoseconds_.empty()) return 0;
  if (!sorted_) std::sort(nanoseconds_.begin(), nanoseconds_.end());
  sorted_ = true;
  const uint32_t at = nanoseconds_[(nanoseconds_.size() - 1) * percent / 100];
  return std::max(0.0, at - ClockNanoseconds());
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Status BenchFill(const BenchSpec& spec, uint64_t keys, const BenchNote& note,
                 std::vector<BenchRow>* rows) {
  MARU_ASSIGN_OR_RETURN(const auto client, BenchClient(spec, spec.page_bytes));
  std::array<BenchKey, kFillBatch> texts;
  Samples samples(keys / kFillBatch + 1);
  const auto start = BenchClock::now();
  uint64_t noted = 0;
  for (uint64_t done = 0; done < keys;) {
    const uint64_t count = std::min(kFillBatch, keys - done);
    MARU_RETURN_IF_ERROR(spec.go_on());
    std::vector<Page> pages;
    std::vector<std::string_view> views;
    const auto before = BenchClock::now();
    for (uint64_t i = 0; i < count; ++i) {
      MARU_ASSIGN_OR_RETURN(Page page, client->Alloc(spec.page_bytes));
      pages.push_back(std::move(page));
      views.push_back(texts[i].Of(done + i));
    }
    MARU_ASSIGN_OR_RETURN(const std::vector<bool> stored, client->BatchStore(views, pages));
    samples.Add(BenchClock::now() - before);
    if (std::find(stored.begin(), stored.end(), false) != stored.end()) {
      return ResourceExhausted("the pool holds no " + std::to_string(keys) + " keys");
    }
    done += count;
    if (keys > 1'000'000 && done * kNotesWhileFilling / keys > noted) {
      noted = done * kNotesWhileFilling / keys;
      note(std::to_string(done) + " of " + std::to_string(keys) + " keys stored");
    }
  }
  BenchRow row;
  row.section = "server";
  row.operation = "fill, alloc and batch_store of 64";
  row.keys = keys;
  row.batch = kFillBatch;
  const std::chrono::duration<double> seconds = BenchClock::now() - start;
  row.per_second = static_cast<double>(keys) / seconds.count();
  row.p50_ns = samples.Percentile(50);
  row.p99_ns = samples.Percentile(99);
  rows->push_back(std::move(row));
  return OkStatus();
}

Status BenchEmpty(const BenchSpec& spec) {
  MARU_ASSIGN_OR_RETURN(const auto client, BenchClient(spec, spec.page_bytes));
  wire::ListRequest request;
  request.count_max = 16 * kFillBatch;
  do {
    MARU_RETURN_IF_ERROR(spec.go_on());
    std::vector<std::string> keys;
    {
      MARU_ASSIGN_OR_RETURN(const auto listed, Ask<wire::ListReply>(*client, request));
      // Copies: the views are gone with the next message.
      for (const auto& item : listed.items) keys.emplace_back(item.key);
      request.cursor = listed.next_cursor;
    }
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    MARU_RETURN_IF_ERROR(client->BatchDelete(views).status());
  } while (request.cursor != 0);
  return OkStatus();
}

}  // namespace maru::tools
