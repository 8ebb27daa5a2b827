#include "wire/describe.h"

#include <algorithm>
#include <string_view>

#include "layout/describe.h"
#include "layout/text.h"
#include "wire/codec.h"
#include "wire/names.h"
#include "wire/schema.h"

namespace maru::wire {

using layout::Concat;

namespace {

std::string_view NameOf(SettleVerdict verdict) { return SettleVerdictName(verdict); }
std::string_view NameOf(RegisterOutcome outcome) { return RegisterOutcomeName(outcome); }
std::string_view NameOf(FreeOutcome outcome) { return FreeOutcomeName(outcome); }
std::string_view NameOf(DeleteOutcome outcome) { return DeleteOutcomeName(outcome); }
std::string_view NameOf(InspectTopic topic) { return InspectTopicName(topic); }
std::string_view NameOf(ReleaseMode mode) { return ReleaseModeName(mode); }
std::string_view NameOf(ReleaseVerdict verdict) { return ReleaseVerdictName(verdict); }

// Walks a message and writes a line for each field.
class Describer {
 public:
  explicit Describer(std::vector<std::string>* lines) : lines_(lines) {}

  template <typename T>
  void Number(const char* name, const T& value, uint64_t = 0) {
    Add(name, std::to_string(RawOf(value)));
  }
  void Flag(const char* name, const bool& value) { Add(name, value ? "1" : "0"); }
  template <typename T>
  void Choice(const char* name, const T& value, T) {
    Add(name, Concat(RawOf(value), " ", NameOf(value)));
  }
  void Pool(const char* name, const PoolIndex& pool) { Add(name, std::to_string(pool.value())); }
  void Page(const char* name, const PageRef& page) {
    Add(name, Concat("pool ", page.pool.value(), ", record ", page.record.value(), ", generation ",
                     page.generation.value()));
  }
  void Text(const char* name, std::string_view text, uint64_t) {
    Add(name, Concat(text.size(), " bytes ", layout::Quoted{text}));
  }
  void Json(const char* name, const std::string& text, uint64_t) {
    Add(name, Concat(text.size(), " bytes ", text));
  }
  void Uuid(const char* name, const layout::Uuid& uuid) { Add(name, layout::UuidText(uuid)); }
  void Block(const char* name, const uint64_t& offset) {
    Add(name, Concat("at ", layout::Hex{offset}));
  }
  template <typename T>
  void List(const char* name, const std::vector<T>& list, uint64_t) {
    Add(name, Concat(list.size(), " items"));
    const std::string outer = indent_;
    const size_t shown = std::min(list.size(), kItemsDescribedMax);
    for (size_t i = 0; i < shown; ++i) {
      indent_ = Concat(outer, name, "[", i, "].");
      Walk(*this, list[i]);
    }
    indent_ = outer;
    if (list.size() > shown) Add(name, Concat("and ", list.size() - shown, " more"));
  }
  void Rest() { Add("rest", "of another protocol version, not read"); }

 private:
  void Add(std::string_view name, std::string_view value) {
    lines_->push_back(Concat("  ", indent_, name, ": ", value));
  }

  std::vector<std::string>* const lines_;
  std::string indent_;  // of the list that the walk is in
};

}  // namespace

Result<std::vector<std::string>> DescribeFrame(std::span<const std::byte> frame) {
  layout::FrameHeader header;
  MARU_RETURN_IF_ERROR(DecodeHeader(frame, &header));
  const bool is_reply = (header.type & layout::kReplyBit) != 0;
  const auto type = static_cast<MessageType>(header.type & ~layout::kReplyBit);
  std::vector<std::string> lines = {
      Concat("message: ", MessageTypeName(type), is_reply ? " reply" : " request", " (",
             static_cast<uint16_t>(type), ")"),
      Concat("status: ", header.status, " ",
             StatusCodeName(static_cast<StatusCode>(header.status))),
      Concat("payload_bytes: ", header.payload_bytes),
      Concat("request_number: ", header.request_number),
      Concat("epoch: ", layout::Hex{header.epoch, 16}),
      "payload:",
  };
  Decoder decoder;
  Describer describer(&lines);
  if (!is_reply) {
    Request request;
    MARU_RETURN_IF_ERROR(decoder.DecodeRequest(frame, &header, &request));
    std::visit([&](const auto& m) { Walk(describer, m); }, request);
    return lines;
  }
  Reply reply;
  Status told;
  MARU_RETURN_IF_ERROR(decoder.DecodeReply(frame, &header, &told, &reply));
  if (!told.ok()) {
    lines.push_back(Concat("  error: ", layout::Quoted{told.message()}));
  } else {
    std::visit([&](const auto& m) { Walk(describer, m); }, reply);
  }
  return lines;
}

}  // namespace maru::wire
