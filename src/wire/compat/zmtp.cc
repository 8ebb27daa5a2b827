#include "wire/compat/zmtp.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "layout/text.h"

namespace maru::wire::compat {

using layout::Concat;
using layout::Hex;

namespace {

using Bytes = std::span<const std::byte>;

// Offsets within a greeting.
constexpr size_t kSignatureEnd = 9;
constexpr size_t kVersionMajor = 10;
constexpr size_t kMechanism = 12;
constexpr size_t kMechanismBytes = 20;

constexpr uint8_t kSignatureFirst = 0xFF;
constexpr uint8_t kSignatureLast = 0x7F;
constexpr uint8_t kVersion = 3;
constexpr std::string_view kNull = "NULL";

// Flags of a frame.
constexpr uint8_t kMore = 1;
constexpr uint8_t kLong = 2;
constexpr uint8_t kCommand = 4;

constexpr size_t kShortHeaderBytes = 2;
constexpr size_t kLongHeaderBytes = 9;
constexpr uint64_t kShortBytesMax = 255;
constexpr size_t kShownBytesMax = 64;  // of a peer's text in a message

uint8_t At(Bytes bytes, size_t index) { return static_cast<uint8_t>(bytes[index]); }

void Append(std::vector<std::byte>* out, std::string_view text) {
  const Bytes bytes = AsBytes(text);
  out->insert(out->end(), bytes.begin(), bytes.end());
}

void AppendByte(std::vector<std::byte>* out, uint64_t byte) {
  out->push_back(static_cast<std::byte>(byte));
}

void AppendFrame(std::vector<std::byte>* out, uint8_t flags, Bytes body) {
  if (body.size() <= kShortBytesMax) {
    AppendByte(out, flags);
    AppendByte(out, body.size());
  } else {
    AppendByte(out, flags | kLong);
    for (int shift = 56; shift >= 0; shift -= 8) AppendByte(out, body.size() >> shift & 0xFF);
  }
  out->insert(out->end(), body.begin(), body.end());
}

std::vector<std::byte> Greeting() {
  std::vector<std::byte> greeting(kZmtpGreetingBytes);
  greeting[0] = std::byte{kSignatureFirst};
  greeting[kSignatureEnd] = std::byte{kSignatureLast};
  greeting[kVersionMajor] = std::byte{kVersion};
  std::ranges::copy(AsBytes(kNull), greeting.begin() + kMechanism);
  return greeting;
}

std::vector<std::byte> Ready() {
  std::vector<std::byte> body;
  constexpr std::string_view kName = "READY";
  constexpr std::string_view kProperty = "Socket-Type";
  constexpr std::string_view kValue = "REQ";
  AppendByte(&body, kName.size());
  Append(&body, kName);
  AppendByte(&body, kProperty.size());
  Append(&body, kProperty);
  for (int i = 0; i < 3; ++i) AppendByte(&body, 0);
  AppendByte(&body, kValue.size());
  Append(&body, kValue);
  std::vector<std::byte> frame;
  AppendFrame(&frame, kCommand, body);
  return frame;
}

// A length of WIDTH bytes, big-endian, and so many bytes after it; false when they are not there.
bool TakeSized(Bytes* from, size_t width, Bytes* out) {
  if (from->size() < width) return false;
  uint64_t size = 0;
  for (size_t i = 0; i < width; ++i) size = size << 8 | At(*from, i);
  *from = from->subspan(width);
  if (size > from->size()) return false;
  *out = from->first(size);
  *from = from->subspan(size);
  return true;
}

bool SameName(Bytes bytes, std::string_view name) {
  return std::ranges::equal(AsText(bytes), name, [](char one, char other) {
    return std::tolower(static_cast<unsigned char>(one)) ==
           std::tolower(static_cast<unsigned char>(other));
  });
}

// What a peer says of itself, fit for a log.
std::string Shown(Bytes bytes) {
  std::string shown(AsText(bytes.first(std::min(bytes.size(), kShownBytesMax))));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return shown;
}

}  // namespace

ZmtpExchange::ZmtpExchange(Bytes request)
    : request_(request.begin(), request.end()), outgoing_(Greeting()) {}

std::vector<std::byte> ZmtpExchange::TakeOutgoing() { return std::exchange(outgoing_, {}); }

Status ZmtpExchange::Feed(Bytes bytes) {
  if (done()) return OkStatus();
  incoming_.insert(incoming_.end(), bytes.begin(), bytes.end());
  Progress progress = Progress::kMade;
  // Each step takes a greeting or a frame, of which the bytes hold so many.
  while (progress == Progress::kMade && !done()) MARU_RETURN_IF_ERROR(Step(&progress));
  return OkStatus();
}

Status ZmtpExchange::Step(Progress* progress) {
  if (state_ == State::kGreeting) return TakeGreeting(progress);
  Frame frame;
  MARU_RETURN_IF_ERROR(PeekFrame(&frame, progress));
  if (*progress == Progress::kNeedsMore) return OkStatus();
  const size_t whole = frame.header_bytes + static_cast<size_t>(frame.body_bytes);
  if (incoming_.size() < whole) {
    *progress = Progress::kNeedsMore;
    return OkStatus();
  }
  const Bytes bytes(incoming_);
  MARU_RETURN_IF_ERROR(TakeFrame(frame, bytes.subspan(frame.header_bytes, frame.body_bytes)));
  incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<ptrdiff_t>(whole));
  return OkStatus();
}

// Judged as it comes: a peer that speaks something else may wait for us with less than a greeting.
Status ZmtpExchange::TakeGreeting(Progress* progress) {
  const Bytes bytes(incoming_);
  *progress = Progress::kNeedsMore;
  if (bytes.empty()) return OkStatus();
  if (At(bytes, 0) != kSignatureFirst) {
    return DataLoss(Concat("it does not speak ZeroMQ 4's protocol: its first byte is ",
                           Hex{At(bytes, 0), 2}, ", expected ", Hex{kSignatureFirst, 2}));
  }
  if (bytes.size() <= kSignatureEnd) return OkStatus();
  if (At(bytes, kSignatureEnd) != kSignatureLast) {
    return DataLoss(Concat("it does not speak ZeroMQ 4's protocol: byte ", kSignatureEnd, " is ",
                           Hex{At(bytes, kSignatureEnd), 2}, ", expected ",
                           Hex{kSignatureLast, 2}));
  }
  if (bytes.size() <= kVersionMajor) return OkStatus();
  if (At(bytes, kVersionMajor) < kVersion) {
    return DataLoss(Concat("it speaks version ", At(bytes, kVersionMajor),
                           " of ZeroMQ's protocol, that of an old ZeroMQ; version ", kVersion,
                           " is needed"));
  }
  if (bytes.size() < kZmtpGreetingBytes) return OkStatus();
  const Bytes mechanism = bytes.subspan(kMechanism, kMechanismBytes);
  std::array<std::byte, kMechanismBytes> expected{};
  std::ranges::copy(AsBytes(kNull), expected.begin());
  if (!std::ranges::equal(mechanism, expected)) {
    const auto end = std::ranges::find(mechanism, std::byte{0}) - mechanism.begin();
    return DataLoss(Concat("it wants the security mechanism ",
                           Shown(mechanism.first(static_cast<size_t>(end))), ", not ", kNull));
  }
  incoming_.erase(incoming_.begin(), incoming_.begin() + kZmtpGreetingBytes);
  outgoing_ = Ready();
  state_ = State::kReady;
  *progress = Progress::kMade;
  return OkStatus();
}

Status ZmtpExchange::PeekFrame(Frame* frame, Progress* progress) const {
  const Bytes bytes(incoming_);
  *progress = Progress::kNeedsMore;
  if (bytes.empty()) return OkStatus();
  frame->flags = At(bytes, 0);
  const bool is_command = (frame->flags & kCommand) != 0;
  if ((frame->flags & ~(kMore | kLong | kCommand)) != 0 ||
      (is_command && (frame->flags & kMore) != 0)) {
    return DataLoss(Concat("a frame has the flags ", Hex{frame->flags, 2}));
  }
  const bool is_long = (frame->flags & kLong) != 0;
  frame->header_bytes = is_long ? kLongHeaderBytes : kShortHeaderBytes;
  if (bytes.size() < frame->header_bytes) return OkStatus();
  for (size_t i = 1; i < frame->header_bytes; ++i) {
    frame->body_bytes = frame->body_bytes << 8 | At(bytes, i);
  }
  const uint64_t most = is_command ? kZmtpCommandBytesMax : kZmtpReplyBytesMax;
  if (frame->body_bytes > most) {
    return DataLoss(Concat("a ", is_command ? "command" : "message", " has ", frame->body_bytes,
                           " bytes, at most ", most));
  }
  *progress = Progress::kMade;
  return OkStatus();
}

Status ZmtpExchange::TakeFrame(const Frame& frame, Bytes body) {
  if ((frame.flags & kCommand) == 0) return TakePart(frame, body);
  if (state_ == State::kReady) return TakeCommand(body);
  if (++commands_ <= kZmtpCommandsMax) return OkStatus();
  return DataLoss(Concat("it sent more than ", kZmtpCommandsMax, " commands and no reply"));
}

Status ZmtpExchange::TakeCommand(Bytes body) {
  Bytes name;
  if (!TakeSized(&body, 1, &name)) return DataLoss("a command is cut off");
  if (AsText(name) == "READY") return TakeReady(body);
  Bytes reason;
  if (AsText(name) == "ERROR" && TakeSized(&body, 1, &reason)) {
    return DataLoss("it refuses the connection: " + Shown(reason));
  }
  return DataLoss(Concat("its first command is \"", Shown(name), "\", expected READY"));
}

Status ZmtpExchange::TakeReady(Bytes properties) {
  std::string type;
  while (!properties.empty()) {
    Bytes name, value;
    if (!TakeSized(&properties, 1, &name) || !TakeSized(&properties, 4, &value)) {
      return DataLoss("its READY is cut off");
    }
    if (SameName(name, "Socket-Type")) type = Shown(value);
  }
  if (type != "ROUTER" && type != "REP") {
    return DataLoss(Concat("its socket is of type \"", type, "\", expected ROUTER"));
  }
  AppendFrame(&outgoing_, kMore, {});
  AppendFrame(&outgoing_, 0, request_);
  state_ = State::kEnvelope;
  return OkStatus();
}

Status ZmtpExchange::TakePart(const Frame& frame, Bytes body) {
  const bool more = (frame.flags & kMore) != 0;
  switch (state_) {
    case State::kEnvelope:
      if (!body.empty() || !more) return DataLoss("its reply does not begin with an empty part");
      state_ = State::kReply;
      return OkStatus();
    case State::kReply:
      if (more) return DataLoss("its reply has more parts than one");
      reply_.assign(body.begin(), body.end());
      state_ = State::kDone;
      return OkStatus();
    default: return DataLoss("it sends a message before READY");
  }
}

}  // namespace maru::wire::compat
