// The frame on the unix socket: one datagram of SOCK_SEQPACKET, this header, then the payload.
// Little-endian. Payloads: wire/messages.h. Format: docs/formats/frame.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace maru::layout {

inline constexpr uint32_t kFrameMagic = 0x5552414D;  // "MARU"
inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr uint32_t kFrameBytesMax = 128 * 1024;  // header and payload
inline constexpr uint32_t kFrameDescriptorsMax = 48;    // three for each pool
inline constexpr uint32_t kPoolsMax = 16;

struct FrameHeader {
  uint32_t magic;           // 0   kFrameMagic
  uint16_t type;            // 4   wire::MessageType; a reply has bit 15 set
  uint16_t status;          // 6   reply: StatusCode; not 0: the payload is the message's text
  uint32_t payload_bytes;   // 8   what follows
  uint32_t reserved;        // 12  0
  uint64_t request_number;  // 16  the reply repeats it
  uint64_t epoch;           // 24  request: the epoch last seen, 0 at attach; reply: the server's
};
static_assert(sizeof(FrameHeader) == 32);
static_assert(offsetof(FrameHeader, request_number) == 16);
static_assert(std::has_unique_object_representations_v<FrameHeader>);

inline constexpr uint32_t kPayloadBytesMax = kFrameBytesMax - sizeof(FrameHeader);
inline constexpr uint16_t kReplyBit = 0x8000;

}  // namespace maru::layout
