#include "wire/codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "layout/text.h"
#include "wire/names.h"
#include "wire/payload_reader.h"
#include "wire/payload_writer.h"
#include "wire/schema.h"

namespace maru::wire {

using layout::Concat;
using layout::FrameHeader;

namespace {

// The numbers of the messages are the indices of the variants.
constexpr size_t kTypes = std::variant_size_v<Request>;
static_assert(std::variant_size_v<Reply> == kTypes);
template <MessageType kType, typename Q, typename A>
constexpr bool kStands =
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(kType), Request>, Q> &&
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(kType), Reply>, A>;
static_assert(kStands<MessageType::kAttach, AttachRequest, AttachReply>);
static_assert(kStands<MessageType::kSettle, SettleRequest, SettleReply>);
static_assert(kStands<MessageType::kGrant, GrantRequest, GrantReply>);
static_assert(kStands<MessageType::kRegister, RegisterRequest, RegisterReply>);
static_assert(kStands<MessageType::kGiveBack, GiveBackRequest, GiveBackReply>);
static_assert(kStands<MessageType::kFree, FreeRequest, FreeReply>);
static_assert(kStands<MessageType::kResolve, ResolveRequest, ResolveReply>);
static_assert(kStands<MessageType::kFind, FindRequest, FindReply>);
static_assert(kStands<MessageType::kDelete, DeleteRequest, DeleteReply>);
static_assert(kStands<MessageType::kGrowLeases, GrowLeasesRequest, GrowLeasesReply>);
static_assert(kStands<MessageType::kPing, PingRequest, PingReply>);
static_assert(kStands<MessageType::kInspect, InspectRequest, InspectReply>);
static_assert(kStands<MessageType::kList, ListRequest, ListReply>);
static_assert(kStands<MessageType::kAudit, AuditRequest, AuditReply>);
static_assert(kStands<MessageType::kUnpin, UnpinRequest, UnpinReply>);
static_assert(kStands<MessageType::kRelease, ReleaseRequest, ReleaseReply>);

// The constants of codec.h, and what must fit into one frame by itself.
static_assert(PayloadBytes(RegisterRequest{}) == kRegisterRequestBytes);
static_assert(kItemBytesMin<RegisterEntry> == RegisterEntryBytes(0));
static_assert(PayloadBytes(FindRequest{}) == kKeysRequestBytes);
static_assert(PayloadBytes(DeleteRequest{}) == kKeysRequestBytes);
static_assert(PayloadBytes(UnpinRequest{}) == kKeysRequestBytes);
static_assert(kItemBytesMin<std::string_view> == KeyItemBytes(0));
static_assert(PayloadBytes(ListReply{}) == kListReplyBytes);
static_assert(kItemBytesMin<ListReply::Item> == ListItemBytes(0));
static_assert(kRegisterRequestBytes + RegisterEntryBytes(layout::kKeyBytesMax) <=
              layout::kPayloadBytesMax);
static_assert(kListReplyBytes + ListItemBytes(layout::kKeyBytesMax) <= layout::kPayloadBytesMax);
static_assert(PayloadBytes(SettleRequest{}) + kPagesPerMessageMax * kItemBytesMin<PageRef> <=
              layout::kPayloadBytesMax);
static_assert(PayloadBytes(RegisterReply{}) +
                  kKeysPerMessageMax * kItemBytesMin<RegisterReply::Item> +
                  kPagesPerMessageMax * kItemBytesMin<PageRef> <=
              layout::kPayloadBytesMax);
static_assert(PayloadBytes(FindReply{}) + kKeysPerMessageMax * kItemBytesMin<FindReply::Item> <=
              layout::kPayloadBytesMax);
static_assert(PayloadBytes(AttachReply{}) + kServerVersionBytesMax +
                  layout::kPoolsMax * kItemBytesMin<AttachedPool> +
                  kLeaseBlocksPerAttachMax * kItemBytesMin<uint64_t> <=
              layout::kPayloadBytesMax);
static_assert(PayloadBytes(ReleaseReply{}) +
                  kRegionsPerReleaseMax * kItemBytesMin<ReleaseReply::Item> <=
              layout::kPayloadBytesMax);
static_assert(sizeof(InspectReply::next_cursor) + kCountBytes + kJsonBytesMax <=
              layout::kPayloadBytesMax);

enum class Side : uint8_t { kRequest, kReply };

std::string MessageName(uint16_t type, Side side) {
  return Concat(MessageTypeName(static_cast<MessageType>(type)),
                side == Side::kRequest ? " request" : " reply");
}

struct FrameStart {
  MessageType type = kNoMessage;
  Side side = Side::kRequest;
  StatusCode status = StatusCode::kOk;
  RequestNumber number{0};
  Epoch epoch{0};
};

// REQUIRES: frame.size() >= sizeof(FrameHeader)
void WriteHeader(const FrameStart& start, size_t payload_bytes, std::span<std::byte> frame) {
  const auto type = static_cast<uint16_t>(start.type);
  const FrameHeader header = {
      .magic = layout::kFrameMagic,
      .type = static_cast<uint16_t>(start.side == Side::kReply ? type | layout::kReplyBit : type),
      .status = static_cast<uint16_t>(start.status),
      .payload_bytes = static_cast<uint32_t>(payload_bytes),
      .reserved = 0,
      .request_number = start.number.value(),
      .epoch = start.epoch.value()};
  std::memcpy(frame.data(), &header, sizeof(header));
}

// REQUIRES: the variant is not empty.
template <typename Variant>
Result<size_t> EncodeMessage(const FrameStart& start, const Variant& message,
                             std::span<std::byte> buffer) {
  const auto frame = buffer.first(std::min<size_t>(buffer.size(), layout::kFrameBytesMax));
  const bool header_fits = frame.size() >= sizeof(FrameHeader);
  PayloadWriter writer(header_fits ? frame.subspan(sizeof(FrameHeader)) : std::span<std::byte>());
  std::visit([&](const auto& m) { Walk(writer, m); }, message);
  if (header_fits && writer.ok()) [[likely]] {
    WriteHeader(start, writer.size(), frame);
    return sizeof(FrameHeader) + writer.size();
  }
  const std::string name = MessageName(static_cast<uint16_t>(start.type), start.side);
  if (!writer.error().empty()) return InvalidArgument(Concat(name, ": ", writer.error()));
  const uint64_t payload = std::visit([](const auto& m) { return PayloadBytes(m); }, message);
  return InvalidArgument(Concat(name, ": a frame of ", sizeof(FrameHeader) + payload,
                                " bytes, at most ", frame.size()));
}

Result<size_t> EncodeError(const FrameStart& start, std::string_view text,
                           std::span<std::byte> buffer) {
  text = text.substr(0, kStatusTextBytesMax);
  if (buffer.size() < sizeof(FrameHeader) + text.size()) {
    return InvalidArgument(Concat("error reply: a frame of ", sizeof(FrameHeader) + text.size(),
                                  " bytes, at most ", buffer.size()));
  }
  WriteHeader(start, text.size(), buffer);
  std::ranges::copy(AsBytes(text), buffer.begin() + sizeof(FrameHeader));
  return sizeof(FrameHeader) + text.size();
}

Status CheckHeader(const FrameHeader& header, size_t frame_bytes) {
  const bool reply = (header.type & layout::kReplyBit) != 0;
  const uint16_t type = header.type & static_cast<uint16_t>(~layout::kReplyBit);
  if (header.magic != layout::kFrameMagic) {
    return DataLoss(Concat("frame: magic is ", layout::Hex{header.magic, 8}, ", expected ",
                           layout::Hex{layout::kFrameMagic, 8}));
  }
  if (type == 0 || type >= kTypes) return DataLoss(Concat("frame: type ", type, " is unknown"));
  const std::string_view side = reply ? " reply" : " request";
  const std::string_view name = MessageTypeName(static_cast<MessageType>(type));
  if (header.payload_bytes != frame_bytes - sizeof(FrameHeader)) {
    return DataLoss(Concat(name, side, ": payload_bytes is ", header.payload_bytes, ", but ",
                           frame_bytes - sizeof(FrameHeader), " follow the header"));
  }
  if (header.reserved != 0) {
    return DataLoss(Concat(name, side, ": reserved is ", header.reserved, ", expected 0"));
  }
  if (header.status > (reply ? kStatusCodeMax : 0)) {
    return DataLoss(
        Concat(name, side, ": status is ", header.status, ", expected ", reply ? "0 to 10" : "0"));
  }
  return OkStatus();
}
static_assert(kStatusCodeMax == 10);

enum class Way : uint8_t { kKeep, kHandOut };

// Visits the lists of a message: keeps the larger room of each, or hands it out to an empty one.
template <typename Rooms>
struct RoomKeeper {
  Rooms& rooms;
  Way way;

  template <typename... Args>
  void Number(Args&&...) {}
  template <typename... Args>
  void Flag(Args&&...) {}
  template <typename... Args>
  void Choice(Args&&...) {}
  template <typename... Args>
  void Pool(Args&&...) {}
  template <typename... Args>
  void Page(Args&&...) {}
  template <typename... Args>
  void Text(Args&&...) {}
  template <typename... Args>
  void Json(Args&&...) {}
  template <typename... Args>
  void Uuid(Args&&...) {}
  template <typename... Args>
  void Block(Args&&...) {}
  void Rest() {}
  template <typename T>
  void List(const char*, std::vector<T>& list, uint64_t) {
    auto& room = std::get<std::vector<T>>(rooms);
    list.clear();
    if (way == Way::kHandOut || list.capacity() > room.capacity()) std::swap(room, list);
  }
};

}  // namespace

struct Decoder::Rooms {
  std::tuple<std::vector<PageRef>, std::vector<RegisterEntry>, std::vector<std::string_view>,
             std::vector<AttachedPool>, std::vector<SettleReply::Item>,
             std::vector<RegisterReply::Item>, std::vector<FindReply::Item>,
             std::vector<DeleteOutcome>, std::vector<ListReply::Item>, std::vector<uint8_t>,
             std::vector<uint64_t>, std::vector<ReleaseReply::Item>>
      lists;

  // Empties the variant; the room of its lists stays here.
  template <typename Variant>
  void Keep(Variant* message) {
    RoomKeeper<decltype(lists)> keeper{lists, Way::kKeep};
    std::visit([&](auto& m) { Walk(keeper, m); }, *message);
    message->template emplace<std::monostate>();
  }

  // The empty message of that number, with room from here.
  template <typename Variant, size_t kIndex>
  static void ReadAs(Rooms& rooms, PayloadReader& reader, Variant* message) {
    auto& m = message->template emplace<kIndex>();
    RoomKeeper<decltype(lists)> keeper{rooms.lists, Way::kHandOut};
    Walk(keeper, m);
    Walk(reader, m);
  }

  template <typename Variant>
  Status Read(const FrameHeader& header, Side side, std::span<const std::byte> payload,
              Variant* message) {
    using Reader = void (*)(Rooms&, PayloadReader&, Variant*);
    static constexpr auto kReaders = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
      return std::array<Reader, kTypes>{&ReadAs<Variant, kIndex>...};
    }(std::make_index_sequence<kTypes>());
    const uint16_t type = header.type & static_cast<uint16_t>(~layout::kReplyBit);
    PayloadReader reader(payload);
    kReaders[type](*this, reader, message);
    reader.ExpectEnd();
    if (reader.ok()) [[likely]]
      return OkStatus();
    Keep(message);
    return DataLoss(Concat(MessageName(type, side), ": ", reader.error()));
  }
};

MessageType TypeOf(const Request& request) { return static_cast<MessageType>(request.index()); }
MessageType TypeOf(const Reply& reply) { return static_cast<MessageType>(reply.index()); }

Result<size_t> EncodeRequest(const Request& request, RequestNumber number, Epoch epoch,
                             std::span<std::byte> buffer) {
  if (TypeOf(request) == kNoMessage) return InvalidArgument("a request without a message");
  return EncodeMessage({TypeOf(request), Side::kRequest, StatusCode::kOk, number, epoch}, request,
                       buffer);
}

Result<size_t> EncodeReply(MessageType type, const Status& status, const Reply& reply,
                           RequestNumber number, Epoch epoch, std::span<std::byte> buffer) {
  const FrameStart start{type, Side::kReply, status.code(), number, epoch};
  const auto index = static_cast<size_t>(type);
  if (index == 0 || index >= kTypes) {
    return InvalidArgument(Concat("a reply to type ", index, ", which is unknown"));
  }
  if (!status.ok()) return EncodeError(start, status.message(), buffer);
  if (TypeOf(reply) != type) {
    return InvalidArgument(Concat(MessageName(static_cast<uint16_t>(type), Side::kReply),
                                  ": holds the message of type ", reply.index()));
  }
  return EncodeMessage(start, reply, buffer);
}

Status DecodeHeader(std::span<const std::byte> frame, FrameHeader* header) {
  if (frame.size() < sizeof(FrameHeader) || frame.size() > layout::kFrameBytesMax) {
    return DataLoss(Concat("frame: ", frame.size(), " bytes, expected ", sizeof(FrameHeader),
                           " to ", layout::kFrameBytesMax));
  }
  std::memcpy(header, frame.data(), sizeof(*header));
  return CheckHeader(*header, frame.size());
}

Decoder::Decoder() : rooms_(std::make_unique<Rooms>()) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

Status Decoder::DecodeRequest(std::span<const std::byte> frame, FrameHeader* header,
                              Request* request) {
  rooms_->Keep(request);
  MARU_RETURN_IF_ERROR(DecodeHeader(frame, header));
  if ((header->type & layout::kReplyBit) != 0) {
    return DataLoss("frame: a reply where a request belongs");
  }
  return rooms_->Read(*header, Side::kRequest, frame.subspan(sizeof(FrameHeader)), request);
}

Status Decoder::DecodeReply(std::span<const std::byte> frame, FrameHeader* header,
                            Status* server_status, Reply* reply) {
  rooms_->Keep(reply);
  MARU_RETURN_IF_ERROR(DecodeHeader(frame, header));
  if ((header->type & layout::kReplyBit) == 0) {
    return DataLoss("frame: a request where a reply belongs");
  }
  const auto payload = frame.subspan(sizeof(FrameHeader));
  if (header->status == 0) {
    *server_status = OkStatus();
    return rooms_->Read(*header, Side::kReply, payload, reply);
  }
  if (payload.size() > kStatusTextBytesMax) {
    return DataLoss(
        Concat("error reply: text has ", payload.size(), " bytes, at most ", kStatusTextBytesMax));
  }
  *server_status = Status(static_cast<StatusCode>(header->status), AsText(payload));
  return OkStatus();
}

size_t EntriesThatFit(std::span<const RegisterEntry> entries) {
  uint64_t bytes = kRegisterRequestBytes;
  const size_t most = std::min<size_t>(entries.size(), kKeysPerMessageMax);
  for (size_t i = 0; i < most; ++i) {
    bytes += RegisterEntryBytes(entries[i].key.size());
    if (bytes > layout::kPayloadBytesMax) return std::max<size_t>(i, 1);
  }
  return most;
}

size_t KeysThatFit(std::span<const std::string_view> keys) {
  uint64_t bytes = kKeysRequestBytes;
  const size_t most = std::min<size_t>(keys.size(), kKeysPerMessageMax);
  for (size_t i = 0; i < most; ++i) {
    bytes += KeyItemBytes(keys[i].size());
    if (bytes > layout::kPayloadBytesMax) return std::max<size_t>(i, 1);
  }
  return most;
}

}  // namespace maru::wire
