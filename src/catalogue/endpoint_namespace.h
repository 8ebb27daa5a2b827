// Namespaces of clients that reach their server by an endpoint which has a namespace itself.
#pragma once

#include <string>
#include <string_view>

#include "maru/result.h"

namespace maru::catalogue {

// How the namespaces of endpoints that are not "" begin, and so none below "" may.
inline constexpr std::string_view kEndpointScheme = "tcp://";
// The whole name of a client's own namespace at an endpoint: OWN below "", ENDPOINT for "", else
// "ENDPOINT/OWN" (docs/upstream_clients.md). Two pairs never have one name. InvalidArgument: OWN
// begins as an endpoint's, or the whole is too long. DataLoss: ENDPOINT is neither "" nor
// "tcp://..." without a further "/".
Result<std::string> NamespaceBelow(std::string_view endpoint, std::string_view own);

}  // namespace maru::catalogue
