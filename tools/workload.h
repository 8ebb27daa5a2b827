// What replay and demo run: requests that name prefix blocks, and the bytes of a block, which
// follow from its id so that every byte that is read can be verified.
//
// A trace is JSON lines: {"timestamp": ms, "input_length": tokens, "output_length": tokens,
// "hash_ids": [block, ...]}, the published form of the Mooncake traces (FAST '25). Equal ids are
// equal KV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "maru/result.h"

namespace maru::tools {

struct TraceRequest {
  uint64_t timestamp_ms = 0;
  std::vector<uint64_t> blocks;
};

inline constexpr size_t kTraceRequestsMax = 10'000'000;
inline constexpr size_t kBlocksPerRequestMax = 1'000'000;
inline constexpr size_t kTraceLineBytesMax = 32 << 20;  // as many blocks of 20 digits fit

// InvalidArgument names the file, the line and what is wrong there.
Result<std::vector<TraceRequest>> ReadTrace(const std::string& path);
Status WriteTrace(const std::string& path, std::span<const TraceRequest> requests);

// Conversations of several turns that begin with one of a few system prompts: each turn's request
// names all blocks of the turns before it.
struct ConversationOptions {
  uint64_t seed = 1;
  uint32_t conversations = 48;
  uint32_t turns = 6;
  uint32_t system_prompts = 4;
  uint32_t system_blocks = 8;
  uint32_t blocks_per_turn = 4;
};
std::vector<TraceRequest> MakeConversations(const ConversationOptions& options);

// What the instances of one page size store, and race for: a server may be replayed to with
// several.
std::string BlockKey(uint64_t page_bytes, uint64_t block);
std::string RaceKey(uint64_t page_bytes, uint32_t race);
void FillBlock(uint64_t block, std::span<std::byte> bytes);
// True when the bytes are those of the block, every one.
bool VerifyBlock(uint64_t block, std::span<const std::byte> bytes);

}  // namespace maru::tools
