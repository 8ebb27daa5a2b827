// What a server shows of itself, as the commands read it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "maru/client.h"
#include "maru/result.h"
#include "wire/messages.h"

namespace maru::tools {

// Every page of a view, as one array; the summary is one object.
Result<nlohmann::json> InspectAll(Client& client, wire::InspectTopic topic);

// The name of the client that owns a region of the regions' view, as people are shown it: one that
// is empty is `""`. REQUIRES: a client cut it, and it is owned.
std::string ShownOwner(const nlohmann::json& region);

}  // namespace maru::tools
