// Upstream's metadata messages to structs and back (docs/formats/upstream_metadata.md). Spans in,
// bytes out; no sockets. Thread-safe functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "maru/status.h"
#include "wire/compat/metadata.h"

namespace maru::wire::compat {

// DataLoss names what is wrong with the first 16 bytes or with the length. `header` gets what could
// be read even then, so that the sender can be answered.
Status DecodeMetadataHeader(std::span<const std::byte> message, MetadataHeader* header);

// Header and payload. Whatever the bytes are: a request, or DataLoss that names the field and the
// value. The texts of `request`, which is left empty on failure, point into the message.
Status DecodeMetadataRequest(std::span<const std::byte> message, MetadataHeader* header,
                             MetadataRequest* request);

// A whole message that answers `request`: sequence and flags repeated, the type's reply bit set.
// REQUIRES: the reply is one of the request's type, or an ErrorReply.
std::vector<std::byte> EncodeMetadataReply(const MetadataHeader& request,
                                           const MetadataReply& reply);

// The other side, as far as handlers of ours need it: whole requests.
std::vector<std::byte> EncodeHandshakeRequest(uint32_t sequence, const HandshakeRequest& request);
std::vector<std::byte> EncodeReportStatsRequest(uint32_t sequence,
                                                const ReportStatsRequest& request);
std::vector<std::byte> EncodeGetStatsRequest(uint32_t sequence);

// Whatever the bytes are: the answer to that request, or DataLoss. Of the reply only
// server_version, local_road and error are read; an error without a text gets one.
Status DecodeHandshakeReply(std::span<const std::byte> message, uint32_t sequence,
                            HandshakeReply* reply);

}  // namespace maru::wire::compat
