#include <array>

#include "layout/text.h"
#include "wire/compat/field_reader.h"
#include "wire/compat/metadata_codec.h"

namespace maru::wire::compat {

using layout::Concat;
using layout::Hex;

namespace {

uint64_t LoadBig(std::span<const std::byte> bytes) {
  uint64_t number = 0;
  for (const std::byte byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

using Payload = std::span<const std::byte>;

template <size_t N>
Status Read(Payload payload, std::array<Field, N> fields, KeyTexts* numbers = nullptr) {
  FieldReader reader(payload, numbers);
  return reader.ReadPayload(fields) ? OkStatus() : DataLoss(reader.error());
}

Status Decode(Payload payload, AllocRequest& request) {
  return Read<3>(payload, {{NameField("instance_id", &request.instance_id),
                            {"size", &request.size_bytes},
                            NameField("lease_id", &request.lease_id, Need::kOptional)}});
}

Status Decode(Payload payload, ReturnAllocRequest& request) {
  return Read<2>(payload, {{NameField("instance_id", &request.instance_id),
                            {"region_id", &request.region_id}}});
}

Status Decode(Payload payload, ListAllocationsRequest& request) {
  return Read<1>(
      payload, {{NameField("exclude_instance_id", &request.exclude_instance_id, Need::kOptional)}});
}

Status Decode(Payload payload, HeartbeatRequest& request) {
  return Read<3>(payload, {{NameField("instance_id", &request.instance_id, Need::kOptional),
                            NameField("lease_id", &request.lease_id, Need::kOptional),
                            {"lease_release", &request.lease_release, 0, Need::kOptional}}});
}

Status Decode(Payload payload, HandshakeRequest& request) {
  return Read<2>(payload, {{NameField("client_version", &request.client_version, Need::kOptional),
                            NameField("instance_id", &request.instance_id, Need::kOptional)}});
}

Status Decode(Payload payload, ReportStatsRequest& request) {
  return Read<1>(payload, {{{"entries", &request.entries, kStatsEntriesMax}}});
}

Status Decode(Payload payload, PlainRequest&) { return Read<0>(payload, {}); }

Status DecodeOne(Payload payload, RegisterRequest& request) {
  RegisterEntry& entry = request.entries.emplace_back();
  return Read<4>(payload,
                 {{KeyField("key", &entry.key),
                   {"region_id", &entry.region_id},
                   {"kv_offset", &entry.offset_bytes},
                   {"kv_length", &entry.length_bytes}}},
                 &request.own_texts);
}

Status DecodeOne(Payload payload, KeysRequest& request) {
  return Read<1>(payload, {{KeyField("key", &request.keys.emplace_back())}}, &request.own_texts);
}

Status DecodeBatch(Payload payload, RegisterRequest& request) {
  return Read<1>(payload, {{{"entries", &request.entries, kBatchItemsMax}}}, &request.own_texts);
}

Status DecodeBatch(Payload payload, KeysRequest& request) {
  return Read<1>(payload, {{{"keys", &request.keys, kBatchItemsMax}}}, &request.own_texts);
}

Status DecodePayload(uint8_t type, Payload payload, MetadataRequest& request) {
  switch (static_cast<MetadataType>(type)) {
    case MetadataType::kRequestAlloc: return Decode(payload, request.emplace<AllocRequest>());
    case MetadataType::kReturnAlloc: return Decode(payload, request.emplace<ReturnAllocRequest>());
    case MetadataType::kListAllocations:
      return Decode(payload, request.emplace<ListAllocationsRequest>());
    case MetadataType::kRegister: return DecodeOne(payload, request.emplace<RegisterRequest>());
    case MetadataType::kLookup:
    case MetadataType::kExists:
    case MetadataType::kDelete:
    case MetadataType::kPin:
    case MetadataType::kUnpin: return DecodeOne(payload, request.emplace<KeysRequest>());
    case MetadataType::kBatchRegister:
      return DecodeBatch(payload, request.emplace<RegisterRequest>());
    case MetadataType::kBatchLookup:
    case MetadataType::kBatchExists:
    case MetadataType::kBatchPin:
    case MetadataType::kBatchUnpin: return DecodeBatch(payload, request.emplace<KeysRequest>());
    case MetadataType::kStorage:  // declined, whatever it carries
      request.emplace<PlainRequest>();
      return OkStatus();
    case MetadataType::kGetStats:
    case MetadataType::kGetUsage:
    case MetadataType::kShutdown: return Decode(payload, request.emplace<PlainRequest>());
    case MetadataType::kHeartbeat: return Decode(payload, request.emplace<HeartbeatRequest>());
    case MetadataType::kReportStats: return Decode(payload, request.emplace<ReportStatsRequest>());
    case MetadataType::kHandshake: return Decode(payload, request.emplace<HandshakeRequest>());
  }
  return DataLoss("no such message type");
}

}  // namespace

Status DecodeMetadataHeader(std::span<const std::byte> message, MetadataHeader* header) {
  *header = {};
  if (message.size() < kMetadataHeaderBytes) {
    return DataLoss(Concat("a message of ", message.size(), " bytes is shorter than a header, ",
                           kMetadataHeaderBytes, " bytes"));
  }
  const uint64_t magic = LoadBig(message.first(2));
  const auto version = static_cast<uint8_t>(message[2]);
  header->type = static_cast<uint8_t>(message[3]);
  header->flags = static_cast<uint8_t>(message[4]);
  header->sequence = static_cast<uint32_t>(LoadBig(message.subspan(8, 4)));
  const uint64_t payload_bytes = LoadBig(message.subspan(12, 4));
  if (magic != kMetadataMagic) {
    return DataLoss(Concat("magic is ", Hex{magic, 4}, ", expected ", Hex{kMetadataMagic, 4}));
  }
  if (version != kMetadataVersion) {
    return DataLoss(Concat("version is ", version, ", expected ", kMetadataVersion));
  }
  if (message.size() > kMetadataMessageBytesMax) {
    return DataLoss(
        Concat("message has ", message.size(), " bytes, at most ", kMetadataMessageBytesMax));
  }
  if (payload_bytes != message.size() - kMetadataHeaderBytes) {
    return DataLoss(Concat("payload length says ", payload_bytes, " bytes, ",
                           message.size() - kMetadataHeaderBytes, " follow the header"));
  }
  return OkStatus();
}

Status DecodeMetadataRequest(std::span<const std::byte> message, MetadataHeader* header,
                             MetadataRequest* request) {
  request->emplace<std::monostate>();
  MARU_RETURN_IF_ERROR(DecodeMetadataHeader(message, header));
  if ((header->flags & kFlagCompressed) != 0) {
    return DataLoss("the payload is compressed, which no known client does");
  }
  Status status = DecodePayload(header->type, message.subspan(kMetadataHeaderBytes), *request);
  if (status.ok()) return status;
  request->emplace<std::monostate>();
  return DataLoss(Concat("message type ", Hex{header->type, 2}, ": ", status.message()));
}

namespace {

// What is read of a HANDSHAKE reply; `success` stays as it is when that is not told.
Status ReadHandshakeReply(Payload payload, HandshakeReply* reply, bool* success) {
  LocalRoad road;
  std::array<Field, 4> fields = {
      {{"success", success, 0, Need::kOptional},
       {"server_version", &reply->server_version, kNameBytesMax, Need::kOptional},
       {"maru", &road, 0, Need::kOptional},
       {"error", &reply->error, kErrorBytesMax, Need::kOptional}}};
  FieldReader reader(payload);
  if (!reader.ReadPayload(fields)) return DataLoss(reader.error());
  if (fields[2].seen) reply->local_road = std::move(road);
  return OkStatus();
}

}  // namespace

Status DecodeHandshakeReply(std::span<const std::byte> message, uint32_t sequence,
                            HandshakeReply* reply) {
  *reply = {};
  MetadataHeader header;
  MARU_RETURN_IF_ERROR(DecodeMetadataHeader(message, &header));
  if (header.type != static_cast<uint8_t>(MetadataType::kHandshake)) {
    return DataLoss(Concat("message type ", Hex{header.type, 2}, " answers HANDSHAKE"));
  }
  if (header.sequence != sequence) {
    return DataLoss(
        Concat("the reply has the sequence number ", header.sequence, ", expected ", sequence));
  }
  bool success = true;
  Status read = ReadHandshakeReply(message.subspan(kMetadataHeaderBytes), reply, &success);
  if (!read.ok()) {
    *reply = {};
    return DataLoss(Concat("HANDSHAKE: ", read.message()));
  }
  if (!success && reply->error.empty()) reply->error = "no reason is told";
  return OkStatus();
}

}  // namespace maru::wire::compat
