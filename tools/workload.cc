#include "tools/workload.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/random.h"
#include "os/errno_status.h"

namespace maru::tools {

namespace {

// Word i of a block's bytes.
uint64_t WordOf(uint64_t block, uint64_t index) {
  uint64_t state = block * 0x9E3779B97F4A7C15 + index;
  return SplitMix64(state);
}

Status BadLine(const std::string& path, size_t line, const std::string& what) {
  return InvalidArgument(path + ":" + std::to_string(line) + ": " + what);
}

}  // namespace

Result<std::vector<TraceRequest>> ReadTrace(const std::string& path) {
  // Each instance reads it for itself, which a pipe bears once.
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return InvalidArgument(path + " is no regular file: write the trace to one");
  }
  std::ifstream file(path);
  if (!file) return os::ErrnoStatus(errno, "open", path);
  std::vector<TraceRequest> requests;
  const auto room = std::make_unique_for_overwrite<char[]>(kTraceLineBytesMax);
  for (size_t line = 1;; ++line) {
    file.getline(room.get(), kTraceLineBytesMax);
    if (file.bad()) {
      return os::ErrnoStatus(errno, "read", path);
    }
    // Full without a line's end, which is no end of the file.
    if (file.fail() && !file.eof()) {
      return BadLine(path, line,
                     "more than " + std::to_string(kTraceLineBytesMax - 1) + " bytes in one line");
    }
    if (file.fail()) break;
    const auto bytes = static_cast<size_t>(file.gcount()) - (file.eof() ? 0 : 1);
    const std::string_view text(room.get(), bytes);
    if (text.empty()) continue;
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) return BadLine(path, line, "a JSON object is wanted");
    const auto ids = json.find("hash_ids");
    if (ids == json.end() || !ids->is_array()) {
      return BadLine(path, line, "\"hash_ids\" is missing or no list");
    }
    if (ids->size() > kBlocksPerRequestMax || requests.size() >= kTraceRequestsMax) {
      return BadLine(path, line,
                     "more than " + std::to_string(kBlocksPerRequestMax) +
                         " blocks, or more than " + std::to_string(kTraceRequestsMax) +
                         " requests");
    }
    TraceRequest request;
    const auto timestamp = json.find("timestamp");
    if (timestamp != json.end() && timestamp->is_number_unsigned()) {
      request.timestamp_ms = timestamp->get<uint64_t>();
    }
    for (const auto& id : *ids) {
      if (!id.is_number_unsigned()) return BadLine(path, line, "a block id is no whole number");
      request.blocks.push_back(id.get<uint64_t>());
    }
    requests.push_back(std::move(request));
  }
  if (requests.empty()) return InvalidArgument(path + " has no requests");
  return requests;
}

Status WriteTrace(const std::string& path, std::span<const TraceRequest> requests) {
  std::ofstream file(path);
  if (!file) return os::ErrnoStatus(errno, "open", path);
  for (const TraceRequest& request : requests) {
    file << "{\"timestamp\": " << request.timestamp_ms << ", \"hash_ids\": [";
    for (size_t i = 0; i < request.blocks.size(); ++i) {
      file << (i == 0 ? "" : ", ") << request.blocks[i];
    }
    file << "]}\n";
  }
  file.flush();
  if (!file) return os::ErrnoStatus(errno, "write", path);
  return OkStatus();
}

std::vector<TraceRequest> MakeConversations(const ConversationOptions& options) {
  Random random(options.seed);
  std::vector<std::vector<uint64_t>> histories(options.conversations);
  // Block ids: the system prompts' first, then one after another as the turns need them.
  uint64_t next_block = uint64_t{options.system_prompts} * options.system_blocks;
  for (auto& history : histories) {
    const uint64_t prompt = random.Below(options.system_prompts);
    for (uint32_t i = 0; i < options.system_blocks; ++i) {
      history.push_back(prompt * options.system_blocks + i);
    }
  }
  std::vector<TraceRequest> requests;
  for (uint32_t turn = 0; turn < options.turns; ++turn) {
    for (auto& history : histories) {
      const uint64_t grown = 1 + random.Below(options.blocks_per_turn);
      for (uint64_t i = 0; i < grown; ++i) history.push_back(next_block++);
      requests.push_back({requests.size(), history});
    }
  }
  return requests;
}

std::string BlockKey(uint64_t page_bytes, uint64_t block) {
  return "block/" + std::to_string(page_bytes) + "/" + std::to_string(block);
}

std::string RaceKey(uint64_t page_bytes, uint32_t race) {
  return "race/" + std::to_string(page_bytes) + "/" + std::to_string(race);
}

void FillBlock(uint64_t block, std::span<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = WordOf(block, at / sizeof(uint64_t));
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), bytes.size() - at));
  }
}

bool VerifyBlock(uint64_t block, std::span<const std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = WordOf(block, at / sizeof(uint64_t));
    if (std::memcmp(bytes.data() + at, &word, std::min(sizeof(word), bytes.size() - at)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace maru::tools
