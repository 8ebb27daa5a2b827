#include "tools/inspect.h"

#include <utility>

#include "layout/describe.h"
#include "tools/connect.h"
#include "tools/output.h"

namespace maru::tools {

using Json = nlohmann::json;

Result<Json> InspectAll(Client& client, wire::InspectTopic topic) {
  Json all = Json::array();
  wire::InspectRequest request;
  request.topic = topic;
  do {
    MARU_ASSIGN_OR_RETURN(const auto reply, Ask<wire::InspectReply>(client, request));
    Json part = Json::parse(reply.json, nullptr, false);
    if (part.is_discarded()) return DataLoss("the server's answer is no JSON");
    if (!part.is_array()) return part;
    for (Json& entry : part) all.push_back(std::move(entry));
    request.cursor = reply.next_cursor;
  } while (request.cursor != 0);
  return all;
}

std::string ShownOwner(const Json& region) {
  std::string name = Printable(region.value("instance_id", ""));
  // The id of a client of the resource manager goes on in the second text.
  const bool of_rm =
      region.value("road", "") == layout::RegionRoadName(layout::RegionRoad::kResourceManager);
  if (of_rm) name += Printable(region.value("lease_id", ""));
  return name.empty() ? "\"\"" : name;
}

}  // namespace maru::tools
