#include "wire/compat/resource_manager_codec.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/utf8.h"
#include "layout/text.h"

namespace maru::wire::compat {

using layout::Concat;
using layout::Hex;

namespace {

// Reads fields by name; the first that is not there or out of its bounds is kept as text.
class RmReader {
 public:
  explicit RmReader(std::span<const std::byte> payload) : bytes_(payload) {}

  template <typename T>
  T Number(const char* name) {
    if (!Has(name, sizeof(T))) return 0;
    return bytes_.Read<T>();
  }
  std::string_view Text(const char* name, uint64_t bytes, uint64_t max) {
    if (error_.empty() && bytes > max) {
      error_ = Concat(name, " has ", bytes, " bytes, at most ", max);
    }
    return Has(name, bytes) ? AsText(bytes_.ReadBytes(bytes)) : std::string_view();
  }
  Handle ReadHandle() {
    return {Number<uint64_t>("region_id"), Number<uint64_t>("offset"), Number<uint64_t>("length"),
            Number<uint64_t>("auth_token")};
  }
  std::string_view ClientId() {
    const std::string_view id =
        Text("client id", Number<uint16_t>("client id's length"), kRmClientIdBytesMax);
    if (error_.empty() && id.find('\0') != std::string_view::npos) {
      error_ = "client id has a zero byte";
    } else if (error_.empty() && !IsUtf8(id)) {
      error_ = Concat("client id is a text of ", id.size(), " bytes that is no UTF-8");
    }
    return id;
  }
  RmStatus ReadStatus() { return static_cast<RmStatus>(Number<uint32_t>("status")); }
  bool AtEnd() const { return bytes_.AtEnd(); }
  bool ok() const { return error_.empty(); }
  void Fail(std::string error) { error_ = std::move(error); }
  const std::string& error() const { return error_; }

 private:
  bool Has(const char* name, uint64_t bytes) {
    if (error_.empty() && bytes > bytes_.remaining()) {
      error_ = Concat(name, " takes ", bytes, " bytes, only ", bytes_.remaining(), " are left");
    }
    return error_.empty();
  }

  ByteReader bytes_;
  std::string error_;
};

void Decode(RmReader& reader, RmAllocRequest& request) {
  request.size_bytes = reader.Number<uint64_t>("size");
  const auto path_bytes = reader.Number<uint32_t>("path's length");
  reader.Number<uint32_t>("reserved field");
  request.path = reader.Text("path", path_bytes, kRmPathBytesMax);
  request.client_id = reader.ClientId();
  request.request_id = reader.Number<uint64_t>("request id");
}

void Decode(RmReader& reader, RmFreeRequest& request) {
  request.handle = reader.ReadHandle();
  request.client_id = reader.ClientId();
  request.request_id = reader.Number<uint64_t>("request id");
}

void Decode(RmReader&, RmStatsRequest&) {}

void Decode(RmReader& reader, RmAccessRequest& request) {
  request.handle = reader.ReadHandle();
  if (reader.error().empty() && !reader.AtEnd()) request.client_id = reader.ClientId();
}

void Decode(RmReader& reader, RmOpenRequest& request) {
  request.client_id = reader.ClientId();
  request.address =
      reader.Text("address", reader.Number<uint16_t>("address's length"), kRmAddressBytesMax);
  const auto paths = reader.Number<uint32_t>("number of paths");
  if (reader.ok() && paths > kRmOpenPathsMax) {
    return reader.Fail(Concat(paths, " paths, at most ", kRmOpenPathsMax));
  }
  for (uint32_t i = 0; i < paths && reader.ok(); ++i) {
    const auto bytes = reader.Number<uint32_t>("path's length");
    request.paths.push_back(reader.Text("path", bytes, kRmPathBytesMax));
  }
  if (!reader.ok() || reader.AtEnd()) return;
  const auto lease_ms = reader.Number<uint64_t>("lease");
  if (reader.ok() && lease_ms > kRmOpenLeaseMsMax) {
    return reader.Fail(Concat("a lease of ", lease_ms, " ms, at most ", kRmOpenLeaseMsMax));
  }
  request.lease_ms = lease_ms;
}

class RmWriter {
 public:
  RmWriter() : bytes_(kRmHeaderBytes) {}

  template <typename T>
  void Number(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    StoreLittle(&bytes_[at], value);
  }
  void PutStatus(RmStatus status) { Number(static_cast<uint32_t>(status)); }
  void PutHandle(const Handle& handle) {
    Number(handle.region_id);
    Number(handle.offset_bytes);
    Number(handle.length_bytes);
    Number(handle.auth_token);
  }
  void Text(std::string_view text, uint64_t max) {
    MARU_CHECK(text.size() <= max) << "a text of " << text.size() << " bytes, at most " << max;
    const auto from = AsBytes(text);
    bytes_.insert(bytes_.end(), from.begin(), from.end());
  }
  void PathLength(std::string_view path) { Number(static_cast<uint32_t>(path.size())); }
  void Uuid(std::string_view uuid) { ShortText(uuid, kRmUuidBytesMax); }
  // After its length as a u16.
  void ShortText(std::string_view text, uint64_t max) {
    Number(static_cast<uint16_t>(text.size()));
    Text(text, max);
  }
  size_t payload_bytes() const { return bytes_.size() - kRmHeaderBytes; }
  std::vector<std::byte> Finish(RmType type) {
    MARU_CHECK(payload_bytes() <= kRmPayloadBytesMax);
    StoreLittle(&bytes_[0], kRmMagic);
    StoreLittle(&bytes_[4], kRmVersion);
    StoreLittle(&bytes_[6], static_cast<uint16_t>(type));
    StoreLittle(&bytes_[8], static_cast<uint32_t>(payload_bytes()));
    return std::move(bytes_);
  }
  // The number of pools is known last.
  void SetNumberAt(size_t payload_offset, uint32_t value) {
    StoreLittle(&bytes_[kRmHeaderBytes + payload_offset], value);
  }

 private:
  std::vector<std::byte> bytes_;
};

RmType Encode(RmWriter& out, const RmErrorReply& reply) {
  const std::string_view message = std::string_view(reply.message).substr(0, kRmErrorBytesMax);
  out.PutStatus(reply.status);
  out.Number(static_cast<uint32_t>(message.size()));
  out.Text(message, kRmErrorBytesMax);
  return RmType::kErrorReply;
}

RmType Encode(RmWriter& out, const RmAllocReply& reply) {
  out.PutStatus(reply.status);
  out.Number(static_cast<uint32_t>(reply.access));
  out.PutHandle(reply.handle);
  out.Number(reply.requested_bytes);
  out.PathLength(reply.path);
  out.Text(reply.path, kRmPathBytesMax);
  out.Uuid(reply.uuid);
  return RmType::kAllocReply;
}

RmType Encode(RmWriter& out, const RmFreeReply& reply) {
  out.PutStatus(reply.status);
  return RmType::kFreeReply;
}

RmType Encode(RmWriter& out, const RmStatsReply& reply) {
  constexpr size_t kFixedBytes = 32;  // of a pool
  out.Number(uint32_t{0});
  uint32_t count = 0;
  for (const RmPool& pool : reply.pools) {
    if (out.payload_bytes() + kFixedBytes + pool.path.size() > kRmPayloadBytesMax) break;
    out.PathLength(pool.path);
    out.Number(static_cast<uint32_t>(pool.type));
    out.Number(pool.total_bytes);
    out.Number(pool.free_bytes);
    out.Number(pool.align_bytes);
    out.Text(pool.path, kRmPathBytesMax);
    ++count;
  }
  out.SetNumberAt(0, count);
  return RmType::kStatsReply;
}

RmType Encode(RmWriter& out, const RmAccessReply& reply) {
  out.PutStatus(reply.status);
  out.PathLength(reply.path);
  out.Text(reply.path, kRmPathBytesMax);
  out.Number(reply.offset_bytes);
  out.Number(reply.length_bytes);
  out.Uuid(reply.uuid);
  return RmType::kAccessReply;
}

RmType Encode(RmWriter& out, const RmOpenReply& reply) {
  out.PutStatus(reply.status);
  out.ShortText(reply.address, kRmAddressBytesMax);
  out.ShortText(std::string_view(reply.message).substr(0, kRmErrorBytesMax), kRmErrorBytesMax);
  return RmType::kOpenReply;
}

template <typename Request>
Status DecodeAs(const char* name, std::span<const std::byte> payload, RmRequest* to) {
  RmReader reader(payload);
  Decode(reader, to->emplace<Request>());
  if (reader.error().empty()) return OkStatus();
  to->emplace<std::monostate>();
  return DataLoss(Concat(name, ": ", reader.error()));
}

}  // namespace

std::string_view ClientIdOf(const RmRequest& request) {
  if (const auto* alloc = std::get_if<RmAllocRequest>(&request)) return alloc->client_id;
  if (const auto* free = std::get_if<RmFreeRequest>(&request)) return free->client_id;
  if (const auto* access = std::get_if<RmAccessRequest>(&request)) return access->client_id;
  if (const auto* open = std::get_if<RmOpenRequest>(&request)) return open->client_id;
  return {};
}

Status DecodeRmHeader(std::span<const std::byte> bytes, RmHeader* header) {
  MARU_CHECK(bytes.size() >= kRmHeaderBytes);
  const auto magic = LoadLittle<uint32_t>(&bytes[0]);
  const auto version = LoadLittle<uint16_t>(&bytes[4]);
  header->type = LoadLittle<uint16_t>(&bytes[6]);
  header->payload_bytes = LoadLittle<uint32_t>(&bytes[8]);
  if (magic != kRmMagic) {
    return DataLoss(Concat("magic is ", Hex{magic, 8}, ", expected ", Hex{kRmMagic, 8}));
  }
  if (version != kRmVersion) {
    return DataLoss(Concat("version is ", version, ", expected ", kRmVersion));
  }
  if (header->payload_bytes > kRmPayloadBytesMax) {
    return DataLoss(
        Concat("payload has ", header->payload_bytes, " bytes, at most ", kRmPayloadBytesMax));
  }
  return OkStatus();
}

Status DecodeRmRequest(uint16_t type, std::span<const std::byte> payload, RmRequest* request) {
  request->emplace<std::monostate>();
  switch (static_cast<RmType>(type)) {
    case RmType::kAllocRequest: return DecodeAs<RmAllocRequest>("ALLOC", payload, request);
    case RmType::kFreeRequest: return DecodeAs<RmFreeRequest>("FREE", payload, request);
    case RmType::kStatsRequest: return DecodeAs<RmStatsRequest>("STATS", payload, request);
    case RmType::kAccessRequest: return DecodeAs<RmAccessRequest>("GET_ACCESS", payload, request);
    case RmType::kOpenRequest: return DecodeAs<RmOpenRequest>("OPEN", payload, request);
    default: return DataLoss(Concat("no request has the message type ", type));
  }
}

std::vector<std::byte> EncodeRmReply(const RmReply& reply) {
  RmWriter out;
  const RmType type = std::visit([&out](const auto& one) { return Encode(out, one); }, reply);
  return out.Finish(type);
}

Result<std::vector<std::byte>> EncodeRmOpenRequest(const RmOpenRequest& request) {
  size_t bytes = request.client_id.size() + request.address.size() + 8;
  bool fits = request.client_id.size() <= kRmClientIdBytesMax &&
              request.address.size() <= kRmAddressBytesMax &&
              request.paths.size() <= kRmOpenPathsMax;
  for (const std::string_view path : request.paths) {
    fits = fits && path.size() <= kRmPathBytesMax;
    bytes += 4 + path.size();
  }
  if (request.lease_ms.has_value()) {
    fits = fits && *request.lease_ms <= kRmOpenLeaseMsMax;
    bytes += sizeof(uint64_t);
  }
  if (!fits || bytes > kRmPayloadBytesMax) {
    return InvalidArgument(Concat("the request has ", bytes, " bytes and ", request.paths.size(),
                                  " paths, at most ", kRmPayloadBytesMax, " and ",
                                  kRmOpenPathsMax));
  }
  RmWriter out;
  out.ShortText(request.client_id, kRmClientIdBytesMax);
  out.ShortText(request.address, kRmAddressBytesMax);
  out.Number(static_cast<uint32_t>(request.paths.size()));
  for (const std::string_view path : request.paths) {
    out.PathLength(path);
    out.Text(path, kRmPathBytesMax);
  }
  if (request.lease_ms.has_value()) out.Number(*request.lease_ms);
  return out.Finish(RmType::kOpenRequest);
}

Status DecodeRmOpenReply(uint16_t type, std::span<const std::byte> payload, RmOpenReply* reply) {
  RmReader reader(payload);
  if (static_cast<RmType>(type) == RmType::kOpenReply) {
    reply->status = reader.ReadStatus();
    reply->address =
        reader.Text("address", reader.Number<uint16_t>("address's length"), kRmAddressBytesMax);
    reply->message =
        reader.Text("message", reader.Number<uint16_t>("message's length"), kRmErrorBytesMax);
  } else if (static_cast<RmType>(type) == RmType::kErrorReply) {
    reply->status = reader.ReadStatus();
    reply->address.clear();
    reply->message =
        reader.Text("message", reader.Number<uint32_t>("message's length"), kRmErrorBytesMax);
  } else {
    return DataLoss(Concat("the answer has the message type ", type));
  }
  return reader.ok() ? OkStatus() : DataLoss(reader.error());
}

}  // namespace maru::wire::compat
