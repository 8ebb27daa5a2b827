// Messages of upstream's two protocols, field by field, as they stand on the wire: read without the
// codecs, which know one side of each only.

#include <algorithm>
#include <array>
#include <string_view>

#include "base/bytes.h"
#include "layout/text.h"
#include "tools/frame_json.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/msgpack_reader.h"
#include "wire/compat/resource_manager_codec.h"

namespace maru::tools {

namespace {

using layout::Concat;
namespace compat = wire::compat;

struct Name {
  uint16_t type;
  std::string_view name;
};

// --- metadata

constexpr Name kMetadataNames[] = {
    {0x01, "REQUEST_ALLOC"},     {0x03, "RETURN_ALLOC"},    {0x04, "LIST_ALLOCATIONS"},
    {0x10, "REGISTER_KV"},       {0x11, "LOOKUP_KV"},       {0x12, "EXISTS_KV"},
    {0x13, "DELETE_KV"},         {0x14, "PIN_KV"},          {0x15, "UNPIN_KV"},
    {0x20, "BATCH_REGISTER_KV"}, {0x21, "BATCH_LOOKUP_KV"}, {0x22, "BATCH_EXISTS_KV"},
    {0x23, "BATCH_PIN_KV"},      {0x24, "BATCH_UNPIN_KV"},  {0x30, "STORAGE"},
    {0xF0, "GET_STATS"},         {0xF1, "HEARTBEAT"},       {0xF2, "REPORT_STATS"},
    {0xF3, "GET_USAGE"},         {0xFE, "HANDSHAKE"},       {0xFF, "SHUTDOWN"},
};

Json ScalarOf(const compat::MsgpackItem& item) {
  switch (item.kind) {
    case compat::MsgpackKind::kBool: return item.number != 0;
    case compat::MsgpackKind::kUnsigned: return item.number;
    case compat::MsgpackKind::kNegative: return static_cast<int64_t>(item.number);
    case compat::MsgpackKind::kReal: return item.real;
    default: return nullptr;
  }
}

bool ReadItem(compat::MsgpackReader& reader, uint32_t depth, Json* object, const std::string& name);

bool ReadMap(compat::MsgpackReader& reader, uint32_t depth, uint64_t pairs, Json* map) {
  compat::MsgpackItem key;
  for (uint64_t i = 0; i < pairs; ++i) {
    if (!reader.Next(&key)) return false;
    std::string name = compat::Describe(key);
    if (key.kind == compat::MsgpackKind::kText) name = key.text;
    if (!ReadItem(reader, depth, map, name)) return false;
  }
  return true;
}

// What an array holds has no names; in a member of its own it is set as elsewhere, and taken out.
bool ReadArray(compat::MsgpackReader& reader, uint32_t depth, uint64_t items, Json* array) {
  for (uint64_t i = 0; i < items; ++i) {
    Json one = Json::object();
    if (!ReadItem(reader, depth, &one, "item")) return false;
    array->push_back(one.contains("item") ? std::move(one["item"]) : std::move(one));
  }
  return true;
}

bool ReadItem(compat::MsgpackReader& reader, uint32_t depth, Json* object,
              const std::string& name) {
  compat::MsgpackItem item;
  if (depth > compat::kNestingMax || !reader.Next(&item)) return false;
  switch (item.kind) {
    case compat::MsgpackKind::kText: SetText(object, name, item.text); return true;
    case compat::MsgpackKind::kExtension:
      (*object)[name + "_hex"] = HexText(AsBytes(item.text));
      return true;
    case compat::MsgpackKind::kMap: {
      Json map = Json::object();
      const bool read = ReadMap(reader, depth + 1, item.number, &map);
      (*object)[name] = std::move(map);
      return read;
    }
    case compat::MsgpackKind::kArray: {
      Json array = Json::array();
      const bool read = ReadArray(reader, depth + 1, item.number, &array);
      (*object)[name] = std::move(array);
      return read;
    }
    default: (*object)[name] = ScalarOf(item); return true;
  }
}

Result<Json> JsonOfMetadata(std::span<const std::byte> message) {
  compat::MetadataHeader header;
  MARU_RETURN_IF_ERROR(compat::DecodeMetadataHeader(message, &header));
  // From 0xF0 on requests and replies have one number.
  const bool named_reply = header.type >= compat::kMetadataReplyBit && header.type < 0xF0;
  const uint8_t type = named_reply ? header.type & 0x7F : header.type;
  const auto* const known = std::ranges::find(kMetadataNames, type, &Name::type);
  if (known == std::end(kMetadataNames)) {
    return DataLoss(Concat("metadata message: type ", layout::Hex{header.type}, " is unknown"));
  }
  Json json = {{"protocol", "metadata"}, {"message", known->name}, {"type", header.type}};
  if (header.type < 0xF0) json["reply"] = named_reply;
  json["flags"] = header.flags;
  json["sequence"] = header.sequence;
  json["payload_bytes"] = message.size() - compat::kMetadataHeaderBytes;
  json["payload"] = Json::object();
  compat::MsgpackReader reader(message.subspan(compat::kMetadataHeaderBytes));
  if (reader.bytes_left() == 0) return json;
  if (!ReadItem(reader, 0, &json, "payload") || reader.bytes_left() > 0) {
    return DataLoss(Concat(known->name, ": ",
                           !reader.error().empty()   ? reader.error()
                           : reader.bytes_left() > 0 ? "bytes follow the payload, or it is too deep"
                                                     : "maps and arrays lie too deep"));
  }
  return json;
}

// --- resource manager

constexpr Name kRmNames[] = {
    {1, "ALLOC_REQ"},    {2, "ALLOC_RESP"},    {3, "FREE_REQ"},       {4, "FREE_RESP"},
    {5, "STATS_REQ"},    {6, "STATS_RESP"},    {9, "GET_ACCESS_REQ"}, {10, "GET_ACCESS_RESP"},
    {255, "ERROR_RESP"}, {0x4D01, "OPEN_REQ"}, {0x4D02, "OPEN_RESP"},
};

// Reads fields into members of one object.
class Fields {
 public:
  Fields(ByteReader* reader, Json* object) : reader_(reader), object_(object) {}

  Fields& U32(const char* name) { return Set(name, reader_->U32()); }
  Fields& U64(const char* name) { return Set(name, reader_->U64()); }
  Fields& Status() { return Set("status", static_cast<int32_t>(reader_->U32())); }
  Fields& Text(const char* name, uint64_t bytes) {
    if (bytes > reader_->remaining()) bytes = SIZE_MAX;  // fails the reader
    SetText(object_, name, AsText(reader_->ReadBytes(bytes)));
    return *this;
  }
  Fields& Text16(const char* name) { return Text(name, reader_->U16()); }
  Fields& Text32(const char* name) { return Text(name, reader_->U32()); }
  Fields& Handle() {
    Json handle = Json::object();
    Fields(reader_, &handle).U64("region_id").U64("offset").U64("length").U64("auth_token");
    (*object_)["handle"] = std::move(handle);
    return *this;
  }

 private:
  template <typename T>
  Fields& Set(const char* name, T value) {
    (*object_)[name] = value;
    return *this;
  }

  ByteReader* const reader_;
  Json* const object_;
};

void ReadRmPools(ByteReader& reader, Json* payload) {
  const uint32_t count = reader.U32();
  (*payload)["pools"] = Json::array();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    Json pool = Json::object();
    const uint32_t path_bytes = reader.U32();
    Fields(&reader, &pool)
        .U32("type")
        .U64("total")
        .U64("free")
        .U64("alignment")
        .Text("path", path_bytes);
    (*payload)["pools"].push_back(std::move(pool));
  }
}

void ReadRmOpen(ByteReader& reader, Json* payload) {
  Fields(&reader, payload).Text16("client_id").Text16("address");
  const uint32_t count = reader.U32();
  (*payload)["paths"] = Json::array();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    Json one = Json::object();
    Fields(&reader, &one).Text32("path");
    (*payload)["paths"].push_back(std::move(one));
  }
  if (reader.remaining() > 0) Fields(&reader, payload).U64("leases_ms");
}

// Bytes behind the last field are passed over, as everywhere in this protocol.
void ReadRmPayload(compat::RmType type, ByteReader& reader, Json* payload) {
  Fields fields(&reader, payload);
  uint32_t path_bytes = 0;
  switch (type) {
    case compat::RmType::kAllocRequest:
      fields.U64("size");
      path_bytes = reader.U32();
      reader.Skip(sizeof(uint32_t));  // reserved
      fields.Text("path", path_bytes).Text16("client_id").U64("request_id");
      break;
    case compat::RmType::kAllocReply:
      fields.Status()
          .U32("access_type")
          .Handle()
          .U64("requested_size")
          .Text32("path")
          .Text16("uuid");
      break;
    case compat::RmType::kFreeRequest: fields.Handle().Text16("client_id").U64("request_id"); break;
    case compat::RmType::kFreeReply: fields.Status(); break;
    case compat::RmType::kStatsRequest: break;
    case compat::RmType::kStatsReply: ReadRmPools(reader, payload); break;
    case compat::RmType::kAccessRequest:
      fields.Handle();
      if (reader.remaining() > 0) fields.Text16("client_id");
      break;
    case compat::RmType::kAccessReply:
      fields.Status().Text32("path").U64("offset").U64("length").Text16("uuid");
      break;
    case compat::RmType::kErrorReply: fields.Status().Text32("message"); break;
    case compat::RmType::kOpenRequest: ReadRmOpen(reader, payload); break;
    case compat::RmType::kOpenReply: fields.Status().Text16("address").Text16("message"); break;
  }
}

Result<Json> JsonOfResourceManager(std::span<const std::byte> message) {
  if (message.size() < compat::kRmHeaderBytes) {
    return DataLoss(Concat("resource-manager message: ", message.size(), " bytes, a header has ",
                           compat::kRmHeaderBytes));
  }
  compat::RmHeader header;
  MARU_RETURN_IF_ERROR(compat::DecodeRmHeader(message.first(compat::kRmHeaderBytes), &header));
  const auto payload = message.subspan(compat::kRmHeaderBytes);
  const auto* const known = std::ranges::find(kRmNames, header.type, &Name::type);
  if (known == std::end(kRmNames)) {
    return DataLoss(Concat("resource-manager message: type ", header.type, " is unknown"));
  }
  if (payload.size() != header.payload_bytes) {
    return DataLoss(Concat(known->name, ": payload length is ", header.payload_bytes, ", but ",
                           payload.size(), " bytes follow the header"));
  }
  Json json = {{"protocol", "resource-manager"},
               {"message", known->name},
               {"type", header.type},
               {"payload_bytes", header.payload_bytes},
               {"payload", Json::object()}};
  ByteReader reader(payload);
  ReadRmPayload(static_cast<compat::RmType>(header.type), reader, &json["payload"]);
  if (!reader.ok()) return DataLoss(Concat(known->name, ": the payload ends within a field"));
  return json;
}

constexpr std::array kMetadataStart = {std::byte{0xCF}, std::byte{0x00}};  // big-endian
constexpr std::array kRmStart = {std::byte{'U'}, std::byte{'R'}, std::byte{'A'}, std::byte{'M'}};
static_assert(compat::kMetadataMagic == 0xCF00 && compat::kRmMagic == 0x4D415255);

bool StartsWith(std::span<const std::byte> message, std::span<const std::byte> start) {
  return message.size() >= start.size() && std::ranges::equal(message.first(start.size()), start);
}

}  // namespace

bool IsUpstreamMessage(std::span<const std::byte> message) {
  return StartsWith(message, kMetadataStart) || StartsWith(message, kRmStart);
}

Result<Json> JsonOfUpstream(std::span<const std::byte> message) {
  return StartsWith(message, kRmStart) ? JsonOfResourceManager(message) : JsonOfMetadata(message);
}

}  // namespace maru::tools
