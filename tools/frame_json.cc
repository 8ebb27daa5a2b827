#include "tools/frame_json.h"

#include <string_view>
#include <variant>

#include "layout/describe.h"
#include "layout/text.h"
#include "wire/codec.h"
#include "wire/names.h"
#include "wire/schema.h"

namespace maru::tools {

namespace {

using layout::Concat;

std::string_view NameOf(wire::SettleVerdict verdict) { return wire::SettleVerdictName(verdict); }
std::string_view NameOf(wire::RegisterOutcome outcome) {
  return wire::RegisterOutcomeName(outcome);
}
std::string_view NameOf(wire::FreeOutcome outcome) { return wire::FreeOutcomeName(outcome); }
std::string_view NameOf(wire::DeleteOutcome outcome) { return wire::DeleteOutcomeName(outcome); }
std::string_view NameOf(wire::InspectTopic topic) { return wire::InspectTopicName(topic); }
std::string_view NameOf(wire::ReleaseMode mode) { return wire::ReleaseModeName(mode); }
std::string_view NameOf(wire::ReleaseVerdict verdict) { return wire::ReleaseVerdictName(verdict); }

// Walks a message and sets a member for each field.
class JsonWriter {
 public:
  explicit JsonWriter(tools::Json* object) : object_(object) {}

  template <typename T>
  void Number(const char* name, const T& value, uint64_t = 0) {
    (*object_)[name] = wire::RawOf(value);
  }
  void Flag(const char* name, const bool& value) { (*object_)[name] = value; }
  template <typename T>
  void Choice(const char* name, const T& value, T) {
    (*object_)[name] = NameOf(value);
  }
  void Pool(const char* name, const PoolIndex& pool) { (*object_)[name] = pool.value(); }
  void Page(const char* name, const wire::PageRef& page) {
    (*object_)[name] = {{"pool", page.pool.value()},
                        {"record", page.record.value()},
                        {"generation", page.generation.value()}};
  }
  void Text(const char* name, std::string_view text, uint64_t) { SetText(object_, name, text); }
  void Json(const char* name, const std::string& text, uint64_t) {
    auto json = tools::Json::parse(text, nullptr, false);
    if (json.is_discarded()) return SetText(object_, name, text);
    (*object_)[name] = std::move(json);
  }
  void Uuid(const char* name, const layout::Uuid& uuid) {
    (*object_)[name] = layout::UuidText(uuid);
  }
  void Block(const char* name, const uint64_t& offset) { (*object_)[name] = offset; }
  template <typename T>
  void List(const char* name, const std::vector<T>& list, uint64_t) {
    auto items = tools::Json::array();
    for (const T& item : list) {
      tools::Json one = tools::Json::object();
      JsonWriter writer(&one);
      wire::Walk(writer, item);
      items.push_back(std::move(one));
    }
    (*object_)[name] = std::move(items);
  }
  void Rest() { (*object_)["rest"] = "of another protocol version, not read"; }

 private:
  tools::Json* const object_;
};

template <typename Message>
Json JsonOfMessage(const Message& message) {
  Json payload = Json::object();
  JsonWriter writer(&payload);
  std::visit([&](const auto& m) { wire::Walk(writer, m); }, message);
  return payload;
}

void AddLines(const Json& json, const std::string& path, std::vector<std::string>* lines) {
  if (json.is_object()) {
    for (const auto& [name, value] : json.items()) {
      AddLines(value, path.empty() ? name : path + "." + name, lines);
    }
  } else if (json.is_array()) {
    if (json.empty()) lines->push_back(path + ": none");
    for (size_t i = 0; i < json.size(); ++i) {
      AddLines(json[i], path + "[" + std::to_string(i) + "]", lines);
    }
  } else {
    lines->push_back(path + ": " + json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

}  // namespace

Result<Json> JsonOfFrame(std::span<const std::byte> frame) {
  layout::FrameHeader header;
  MARU_RETURN_IF_ERROR(wire::DecodeHeader(frame, &header));
  const bool is_reply = (header.type & layout::kReplyBit) != 0;
  const uint16_t type = header.type & static_cast<uint16_t>(~layout::kReplyBit);
  Json json = {{"message", wire::MessageTypeName(static_cast<wire::MessageType>(type))},
               {"type", type},
               {"reply", is_reply},
               {"status", header.status},
               {"status_name", StatusCodeName(static_cast<StatusCode>(header.status))},
               {"payload_bytes", header.payload_bytes},
               {"request_number", header.request_number},
               {"epoch", Concat(layout::Hex{header.epoch, 16})}};
  wire::Decoder decoder;
  if (!is_reply) {
    wire::Request request;
    MARU_RETURN_IF_ERROR(decoder.DecodeRequest(frame, &header, &request));
    json["payload"] = JsonOfMessage(request);
    return json;
  }
  wire::Reply reply;
  Status told;
  MARU_RETURN_IF_ERROR(decoder.DecodeReply(frame, &header, &told, &reply));
  if (told.ok()) {
    json["payload"] = JsonOfMessage(reply);
  } else {
    SetText(&json, "error", told.message());
  }
  return json;
}

std::vector<std::string> LinesOf(const Json& json) {
  std::vector<std::string> lines;
  AddLines(json, "", &lines);
  return lines;
}

}  // namespace maru::tools
