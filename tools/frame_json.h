// A message as JSON: what `maru frame --json` prints, and of upstream's protocols also the text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "maru/result.h"
#include "tools/json.h"

namespace maru::tools {

// A frame of the unix socket (docs/formats/frame.md). DataLoss as of wire::Decoder.
Result<Json> JsonOfFrame(std::span<const std::byte> frame);
// A message of upstream's metadata protocol (upstream_metadata.md) or resource manager
// (upstream_resource_manager.md), told apart by their magics; DataLoss names what is wrong.
bool IsUpstreamMessage(std::span<const std::byte> message);
Result<Json> JsonOfUpstream(std::span<const std::byte> message);

// "name: value" lines, with what lies deeper behind its path: "payload.keys[0]: ...".
std::vector<std::string> LinesOf(const Json& json);

}  // namespace maru::tools
