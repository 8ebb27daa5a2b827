// What the wire's codec takes for the largest common message, a store of 64 keys of 100 bytes, and
// for the smallest.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/check.h"
#include "layout/frame.h"
#include "wire/codec.h"

namespace {

using namespace maru;        // NOLINT
using namespace maru::wire;  // NOLINT

constexpr size_t kKeys = 64;
constexpr size_t kKeyBytes = 100;

RegisterRequest MakeRequest(const std::string& text) {
  RegisterRequest request;
  for (uint32_t i = 0; i < kKeys; ++i) {
    const PageRef page{PoolIndex(0), RecordNumber(1 + i), Generation(7)};
    request.entries.push_back({page, 1 << 20, 0, text});
  }
  request.refill_page_bytes = 1 << 20;
  request.refill_count = kKeys;
  return request;
}

RegisterReply MakeReply() {
  RegisterReply reply;
  for (uint32_t i = 0; i < kKeys; ++i) {
    reply.items.push_back({RegisterOutcome::kRegistered, Generation(7)});
    reply.refill.push_back({PoolIndex(0), RecordNumber(100 + i), Generation(3)});
  }
  return reply;
}

void EncodeOf(benchmark::State& state, const Request& request) {
  std::vector<std::byte> frame(layout::kFrameBytesMax);
  for (auto _ : state) {
    benchmark::DoNotOptimize(EncodeRequest(request, RequestNumber(1), Epoch(1), frame));
  }
}

void DecodeOf(benchmark::State& state, const Request& request) {
  std::vector<std::byte> frame(layout::kFrameBytesMax);
  const auto size = EncodeRequest(request, RequestNumber(1), Epoch(1), frame);
  MARU_CHECK_OK(size.status());
  Decoder decoder;
  layout::FrameHeader header;
  Request decoded;
  for (auto _ : state) {
    MARU_CHECK_OK(decoder.DecodeRequest({frame.data(), *size}, &header, &decoded));
  }
}

void BM_EncodeStoreOf64(benchmark::State& state) {
  const std::string text(kKeyBytes, 'k');
  EncodeOf(state, MakeRequest(text));
}
BENCHMARK(BM_EncodeStoreOf64);

void BM_DecodeStoreOf64(benchmark::State& state) {
  const std::string text(kKeyBytes, 'k');
  DecodeOf(state, MakeRequest(text));
}
BENCHMARK(BM_DecodeStoreOf64);

void BM_EncodeReplyOf64(benchmark::State& state) {
  std::vector<std::byte> frame(layout::kFrameBytesMax);
  const Reply reply = MakeReply();
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        EncodeReply(MessageType::kRegister, OkStatus(), reply, RequestNumber(1), Epoch(1), frame));
  }
}
BENCHMARK(BM_EncodeReplyOf64);

void BM_DecodeReplyOf64(benchmark::State& state) {
  std::vector<std::byte> frame(layout::kFrameBytesMax);
  const auto size = EncodeReply(MessageType::kRegister, OkStatus(), MakeReply(), RequestNumber(1),
                                Epoch(1), frame);
  MARU_CHECK_OK(size.status());
  Decoder decoder;
  layout::FrameHeader header;
  Status status;
  Reply decoded;
  for (auto _ : state) {
    MARU_CHECK_OK(decoder.DecodeReply({frame.data(), *size}, &header, &status, &decoded));
  }
}
BENCHMARK(BM_DecodeReplyOf64);

void BM_EncodePing(benchmark::State& state) { EncodeOf(state, PingRequest{}); }
BENCHMARK(BM_EncodePing);

void BM_DecodePing(benchmark::State& state) { DecodeOf(state, PingRequest{}); }
BENCHMARK(BM_DecodePing);

}  // namespace

BENCHMARK_MAIN();
