// maru bench: payload into and out of pages, beside plain copies between the same addresses.

#include "tools/bench.h"

namespace maru::tools {

namespace {

constexpr uint64_t kPayloadBytes = 1 << 20;
constexpr size_t kPages = 32;  // more than a core's caches hold
constexpr double kShareOfMemcpy = 0.95;

class Payload {
 public:
  explicit Payload(Client* client) : client_(client), plain_(kPages * kPayloadBytes) {
    // Not zero and not one page of zeros: memory of its own.
    for (size_t i = 0; i < plain_.size(); i += sizeof(uint64_t)) std::memcpy(&plain_[i], &i, 8);
  }

  // Ours: a page is taken and filled. Bare: another one, which is held, is filled once more. They
  // take turns, so that both find the same caches.
  Status In(Samples* ours, Samples* bare) {
    for (size_t i = 0; i < kPages; ++i) {
      held_[i] = Page();
      const auto before = BenchClock::now();
      MARU_ASSIGN_OR_RETURN(held_[i], client_->Alloc(kPayloadBytes));
      std::memcpy(held_[i].data(), Plain(i), kPayloadBytes);
      ours->Add(BenchClock::now() - before);
      const size_t other = Other(i);
      if (!held_[other]) continue;  // in the first round
      const auto start = BenchClock::now();
      std::memcpy(held_[other].data(), Plain(other), kPayloadBytes);
      bare->Add(BenchClock::now() - start);
    }
    return OkStatus();
  }
  void Drop() {
    for (Page& page : held_) page = Page();
  }

  Status Store() {
    for (size_t i = 0; i < kPages; ++i) {
      MARU_RETURN_IF_ERROR(client_->Put(KeyOf(i), {Plain(i), kPayloadBytes}).status());
    }
    return OkStatus();
  }
  Status Delete() {
    for (size_t i = 0; i < kPages; ++i) MARU_RETURN_IF_ERROR(client_->Delete(KeyOf(i)).status());
    return OkStatus();
  }

  Status Out(Samples* ours, Samples* bare) {
    for (size_t i = 0; i < kPages; ++i) {
      const std::string key = KeyOf(i);
      const auto before = BenchClock::now();
      MARU_ASSIGN_OR_RETURN(View view, client_->Retrieve(key));
      if (!view) return Internal("a payload is gone");
      std::memcpy(Plain(i), view.bytes().data(), kPayloadBytes);
      view.Release();
      ours->Add(BenchClock::now() - before);
      const size_t other = Other(i);
      MARU_ASSIGN_OR_RETURN(const View second, client_->Retrieve(KeyOf(other)));
      const auto start = BenchClock::now();
      std::memcpy(Plain(other), second.bytes().data(), kPayloadBytes);
      bare->Add(BenchClock::now() - start);
    }
    return OkStatus();
  }

 private:
  std::byte* Plain(size_t i) { return plain_.data() + i * kPayloadBytes; }
  static size_t Other(size_t i) { return (i + kPages / 2) % kPages; }
  static std::string KeyOf(size_t i) { return "payload/" + std::to_string(i); }

  Client* const client_;
  std::vector<std::byte> plain_;
  std::array<Page, kPages> held_;
};

Result<BenchRow> Measure(const BenchSpec& spec, const char* name,
                         const std::function<Status(Samples*, Samples*)>& round) {
  Samples unused(kPages), unused_too(kPages);
  MARU_RETURN_IF_ERROR(round(&unused, &unused_too));  // page faults and cold caches
  BenchRounds rounds;
  for (uint32_t i = 0; i < spec.repetitions; ++i) {
    MARU_RETURN_IF_ERROR(spec.go_on());
    Samples ours(kPages), bare(kPages);
    MARU_RETURN_IF_ERROR(round(&ours, &bare));
    rounds.Add(ours.Percentile(50), ours.Percentile(99), bare.Percentile(50));
  }
  BenchRow row;
  row.section = "payload";
  row.operation = name;
  rounds.Fill(&row);
  row.value = kPayloadBytes / row.p50_ns;
  row.unit = "GB/s";
  row.goal = "95% of memcpy";
  row.goal_met = row.times_limit <= 1 / kShareOfMemcpy;
  return row;
}

}  // namespace

Status BenchPayload(const BenchSpec& spec, const BenchNote& note, std::vector<BenchRow>* rows) {
  note("payload of 1 MiB");
  MARU_ASSIGN_OR_RETURN(const auto client, BenchClient(spec, kPayloadBytes));
  Payload payload(client.get());
  MARU_ASSIGN_OR_RETURN(BenchRow in, Measure(spec, "alloc and copy in",
                                             [&](auto* a, auto* b) { return payload.In(a, b); }));
  rows->push_back(std::move(in));
  payload.Drop();
  MARU_RETURN_IF_ERROR(payload.Store());
  Result<BenchRow> out = Measure(spec, "retrieve, copy out, release",
                                 [&](auto* a, auto* b) { return payload.Out(a, b); });
  MARU_RETURN_IF_ERROR(payload.Delete());
  MARU_RETURN_IF_ERROR(out.status());
  rows->push_back(std::move(*out));
  return OkStatus();
}

}  // namespace maru::tools
