// Messages to frames and back (docs/formats/frame.md). No sockets, no descriptors: spans in, spans
// out.
//
// An encoder refuses (InvalidArgument) what the decoder of the other side would refuse, so every
// frame that was made can be read. A decoder takes bytes from another process: whatever they are,
// the answer is a message or DataLoss that names the message, the field and the value.
//
// Functions are thread-safe; a Decoder is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "layout/frame.h"
#include "maru/result.h"
#include "wire/messages.h"

namespace maru::wire {

// Of what stands in the variant, kNoMessage for the empty one.
inline constexpr MessageType kNoMessage = static_cast<MessageType>(0);
MessageType TypeOf(const Request& request);
MessageType TypeOf(const Reply& reply);

// Write a frame to the front of `buffer` and return its bytes. InvalidArgument names the field that
// is out of its bounds, or the bytes that the message takes when they are more than kFrameBytesMax
// or than the buffer has. A buffer of kFrameBytesMax is always enough for what may be sent.
Result<size_t> EncodeRequest(const Request& request, RequestNumber number, Epoch epoch,
                             std::span<std::byte> buffer);
// An error status makes a frame with its text (cut after kStatusTextBytesMax bytes) and no message.
// REQUIRES of an OK status: the reply is of that type, else InvalidArgument.
Result<size_t> EncodeReply(MessageType type, const Status& status, const Reply& reply,
                           RequestNumber number, Epoch epoch, std::span<std::byte> buffer);

// The header alone: magic, type, size and reserved bits are right for the frame. What an endpoint
// needs to tell which request a broken payload belongs to.
Status DecodeHeader(std::span<const std::byte> frame, layout::FrameHeader* header);

// Decodes into the caller's variants and keeps the room of their lists from one message to the
// next, so that no message that was met before allocates. Texts point into the frame.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // `request` may hold an earlier message, whose lists' room is used again. Left empty on failure.
  Status DecodeRequest(std::span<const std::byte> frame, layout::FrameHeader* header,
                       Request* request);
  // A reply with an error status leaves `reply` empty and tells the error in `server_status`.
  Status DecodeReply(std::span<const std::byte> frame, layout::FrameHeader* header,
                     Status* server_status, Reply* reply);

 private:
  struct Rooms;
  std::unique_ptr<Rooms> rooms_;
};

// How a sender splits work over frames. Bytes of a payload: those of the message without its items,
// and of each item.
inline constexpr uint32_t kRegisterRequestBytes = 16;
constexpr uint64_t RegisterEntryBytes(size_t key_bytes) { return 32 + uint64_t{key_bytes}; }
inline constexpr uint32_t kKeysRequestBytes = 4;  // find, delete, unpin
constexpr uint64_t KeyItemBytes(size_t key_bytes) { return 4 + uint64_t{key_bytes}; }
inline constexpr uint32_t kListReplyBytes = 12;
constexpr uint64_t ListItemBytes(size_t key_bytes) { return 24 + uint64_t{key_bytes}; }

// How many, from the first on, go into one message: bounded by the frame and by kKeysPerMessageMax,
// at least 1 unless there are none. REQUIRES: each key within layout::kKeyBytesMax.
size_t EntriesThatFit(std::span<const RegisterEntry> entries);
size_t KeysThatFit(std::span<const std::string_view> keys);

}  // namespace maru::wire
