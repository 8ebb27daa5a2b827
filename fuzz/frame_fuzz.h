// What the targets of frames share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "layout/frame.h"

namespace maru::fuzz {

// The input with a header that says its size, so that mutations reach the payload. Empty when it is
// shorter than a header.
inline std::vector<std::byte> WithHonestHeader(std::span<const std::byte> input, bool reply) {
  layout::FrameHeader header{};
  if (input.size() < sizeof(header)) return {};
  std::vector<std::byte> frame(input.begin(), input.end());
  std::memcpy(&header, frame.data(), sizeof(header));
  header.magic = layout::kFrameMagic;
  header.payload_bytes = static_cast<std::uint32_t>(frame.size() - sizeof(header));
  header.reserved = 0;
  header.type = static_cast<std::uint16_t>(header.type & ~layout::kReplyBit);
  if (reply) header.type |= layout::kReplyBit;
  if (!reply) header.status = 0;
  std::memcpy(frame.data(), &header, sizeof(header));
  return frame;
}

}  // namespace maru::fuzz
