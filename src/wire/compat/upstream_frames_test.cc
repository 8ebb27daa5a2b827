// Exchanges recorded between upstream's own programs, where they are at hand: the file that
// MARU_UPSTREAM_FRAMES names, or ../shared/data/upstream_frames.jsonl beside the source tree. Every
// request decodes; every reply, read into our structs and encoded again, comes out byte for byte.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/testing.h"
#include "layout/golden_test.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/resource_manager_codec.h"
#include "wire/compat/test_upstream.h"

namespace maru::wire::compat {
namespace {

struct RecordedFrame {
  uint32_t number = 0;
  bool metadata = false;
  bool from_client = false;
  std::string connection;
  Bytes bytes;
};

Bytes FromHex(const std::string& hex) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

class UpstreamFrames : public testing::Test {
 protected:
  void SetUp() override {
    const char* const named = std::getenv("MARU_UPSTREAM_FRAMES");
    const std::string path = named != nullptr ? named : MARU_UPSTREAM_FRAMES_BESIDE;
    std::ifstream file(path);
    if (!file && named == nullptr) GTEST_SKIP() << "no recorded frames at " << path;
    ASSERT_TRUE(file) << "cannot read " << path;
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      frames_.push_back({json["n"], json["channel"] == "metadata", json["from"] == "client",
                         json["connection"], FromHex(json["frames"].back())});
    }
    ASSERT_GE(frames_.size(), 200u);
  }

  std::vector<RecordedFrame> frames_;
};

Handle HandleFrom(const Tree& tree) {
  return {tree.Number("region_id"), tree.Number("offset"), tree.Number("length"),
          tree.Number("auth_token")};
}

LookupReply LookupFrom(const Tree& tree) {
  if (!tree.Bool("found")) return {};
  return {
      Location{HandleFrom(tree.At("handle")), tree.Number("kv_offset"), tree.Number("kv_length")}};
}

std::vector<bool> ResultsFrom(const Tree& tree) {
  std::vector<bool> results;
  for (const Tree& item : tree.At("results").items) results.push_back(item.item.number == 1);
  return results;
}

StatsReply StatsFrom(const Tree& tree) {
  StatsReply reply;
  reply.keys = tree.At("kv_manager").Number("total_entries");
  reply.keys_bytes = tree.At("kv_manager").Number("total_size");
  const Tree& allocations = tree.At("allocation_manager");
  reply.allocations = allocations.Number("num_allocations");
  reply.allocated_bytes = allocations.Number("total_allocated");
  reply.active_clients = allocations.Number("active_clients");
  for (const auto& [id, client] : tree.At("stats_manager").At("clients").pairs) {
    EXPECT_TRUE(client.At("operations").pairs.empty()) << "counters of upstream's: not known yet";
    reply.clients.push_back({id, {}});
  }
  return reply;
}

UsageReply UsageFrom(const Tree& tree) {
  UsageReply reply;
  for (const Tree& item : tree.At("instances").items) {
    reply.instances.push_back({item.Text("instance_id"),
                               item.Number("regions"),
                               item.Number("allocated"),
                               item.Number("used"),
                               {}});
  }
  reply.pool = {tree.Number("pool_total"), tree.Number("pool_free")};
  return reply;
}

AllocReply AllocFrom(const Tree& tree) {
  if (!tree.Bool("success")) return {{}, tree.Text("error")};
  return {HandleFrom(tree.At("handle")), ""};
}

AllocationsReply AllocationsFrom(const Tree& tree) {
  AllocationsReply reply;
  for (const Tree& item : tree.At("allocations").items) {
    reply.allocations.push_back(HandleFrom(item));
  }
  return reply;
}

BatchLookupReply BatchLookupFrom(const Tree& tree) {
  BatchLookupReply reply;
  for (const Tree& item : tree.At("entries").items) reply.entries.push_back(LookupFrom(item));
  return reply;
}

MetadataReply ReplyFrom(uint8_t type, const Tree& tree) {
  switch (static_cast<MetadataType>(type)) {
    case MetadataType::kRequestAlloc: return AllocFrom(tree);
    case MetadataType::kListAllocations: return AllocationsFrom(tree);
    case MetadataType::kRegister: return RegisterReply{tree.Bool("success"), tree.Bool("is_new")};
    case MetadataType::kLookup: return LookupFrom(tree);
    case MetadataType::kExists:
    case MetadataType::kPin: return ExistsReply{tree.Bool("exists")};
    case MetadataType::kBatchRegister:
      return BatchRegisterReply{tree.Bool("success"), ResultsFrom(tree)};
    case MetadataType::kBatchLookup: return BatchLookupFrom(tree);
    case MetadataType::kBatchExists:
    case MetadataType::kBatchPin:
    case MetadataType::kBatchUnpin: return ResultsReply{ResultsFrom(tree)};
    case MetadataType::kGetStats: return StatsFrom(tree);
    case MetadataType::kHeartbeat: return HeartbeatReply{};
    case MetadataType::kGetUsage: return UsageFrom(tree);
    case MetadataType::kHandshake: return HandshakeReply{.rm_address = tree.Text("rm_address")};
    default: return SuccessReply{tree.Bool("success"), ""};
  }
}

TEST_F(UpstreamFrames, MetadataRequestsDecodeAndRepliesComeOutTheSame) {
  std::map<std::pair<std::string, uint32_t>, MetadataHeader> asked;
  size_t answered = 0;
  for (const RecordedFrame& frame : frames_) {
    if (!frame.metadata) continue;
    SCOPED_TRACE(frame.number);
    MetadataHeader header;
    if (frame.from_client) {
      MetadataRequest request;
      ASSERT_OK(DecodeMetadataRequest(frame.bytes, &header, &request));
      asked[{frame.connection, header.sequence}] = header;
      continue;
    }
    ASSERT_OK(DecodeMetadataHeader(frame.bytes, &header));
    const MetadataHeader& request = asked.at({frame.connection, header.sequence});
    const MetadataReply reply = ReplyFrom(request.type, PayloadOf(frame.bytes));
    EXPECT_EQ(layout::ToDump(EncodeMetadataReply(request, reply)), layout::ToDump(frame.bytes));
    ++answered;
  }
  EXPECT_GE(answered, 80u);
}

// The fixed fields of replies, read in order.
struct RmFields {
  ByteReader bytes;
  RmStatus ReadStatus() { return static_cast<RmStatus>(bytes.U32()); }
  Handle ReadHandle() { return {bytes.U64(), bytes.U64(), bytes.U64(), bytes.U64()}; }
  std::string Text(size_t size) { return std::string(AsText(bytes.ReadBytes(size))); }
};

RmReply RmReplyFrom(RmType type, std::span<const std::byte> payload) {
  RmFields in{ByteReader(payload)};
  switch (type) {
    case RmType::kAllocReply: {
      RmAllocReply reply{in.ReadStatus(),
                         static_cast<RmAccess>(in.bytes.U32()),
                         in.ReadHandle(),
                         in.bytes.U64(),
                         "",
                         ""};
      reply.path = in.Text(in.bytes.U32());
      reply.uuid = in.Text(in.bytes.U16());
      return reply;
    }
    case RmType::kFreeReply: return RmFreeReply{in.ReadStatus()};
    case RmType::kStatsReply: {
      RmStatsReply reply;
      for (uint32_t left = in.bytes.U32(); left > 0; --left) {
        const uint32_t path_bytes = in.bytes.U32();
        RmPool pool{"", static_cast<RmPoolType>(in.bytes.U32()), in.bytes.U64(), in.bytes.U64(),
                    in.bytes.U64()};
        pool.path = in.Text(path_bytes);
        reply.pools.push_back(pool);
      }
      return reply;
    }
    case RmType::kAccessReply: {
      RmAccessReply reply{.status = in.ReadStatus()};
      reply.path = in.Text(in.bytes.U32());
      reply.offset_bytes = in.bytes.U64();
      reply.length_bytes = in.bytes.U64();
      reply.uuid = in.Text(in.bytes.U16());
      return reply;
    }
    default: {
      RmErrorReply reply{in.ReadStatus(), ""};
      reply.message = in.Text(in.bytes.U32());
      return reply;
    }
  }
}

TEST_F(UpstreamFrames, ResourceManagerRequestsDecodeAndRepliesComeOutTheSame) {
  size_t answered = 0;
  for (const RecordedFrame& frame : frames_) {
    if (frame.metadata) continue;
    SCOPED_TRACE(frame.number);
    const std::span<const std::byte> bytes(frame.bytes);
    RmHeader header;
    ASSERT_GE(bytes.size(), kRmHeaderBytes);
    ASSERT_OK(DecodeRmHeader(bytes.first(kRmHeaderBytes), &header));
    const auto payload = bytes.subspan(kRmHeaderBytes);
    if (frame.from_client) {
      RmRequest request;
      ASSERT_OK(DecodeRmRequest(header.type, payload, &request));
      continue;
    }
    const RmReply reply = RmReplyFrom(static_cast<RmType>(header.type), payload);
    EXPECT_EQ(layout::ToDump(EncodeRmReply(reply)), layout::ToDump(frame.bytes));
    ++answered;
  }
  EXPECT_GE(answered, 20u);
}

}  // namespace
}  // namespace maru::wire::compat
