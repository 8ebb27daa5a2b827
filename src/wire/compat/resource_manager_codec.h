// Upstream's resource-manager messages to structs and back
// (docs/formats/upstream_resource_manager.md). Spans in, bytes out; no sockets. Thread-safe
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "maru/result.h"
#include "wire/compat/resource_manager.h"

namespace maru::wire::compat {

struct RmHeader {
  uint16_t type = 0;  // as it came
  uint32_t payload_bytes = 0;
};

// DataLoss names a wrong magic, version or length: the stream is out of step and has to end.
// REQUIRES: kRmHeaderBytes bytes.
Status DecodeRmHeader(std::span<const std::byte> bytes, RmHeader* header);

// Whatever the payload is: a request, or DataLoss that names the message and the field; the stream
// can go on. The texts of `request`, which is left empty on failure, point into the payload. Bytes
// behind the last field are passed over.
Status DecodeRmRequest(uint16_t type, std::span<const std::byte> payload, RmRequest* request);

// What `maru server` sends and reads. InvalidArgument for texts that are too long, or too many.
Result<std::vector<std::byte>> EncodeRmOpenRequest(const RmOpenRequest& request);
// An ERROR_RESP is a reply without an address as well. DataLoss for any other type and payload.
Status DecodeRmOpenReply(uint16_t type, std::span<const std::byte> payload, RmOpenReply* reply);

// Header and payload. REQUIRES: paths, ids and UUIDs within the limits of resource_manager.h.
std::vector<std::byte> EncodeRmReply(const RmReply& reply);

}  // namespace maru::wire::compat
