#include "tools/error_line.h"

#include <nlohmann/json.hpp>

#include "tools/output.h"

namespace maru::tools {

Exit ExitOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument: return Exit::kUsage;
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded: return Exit::kNoServer;
    case StatusCode::kInternal:
    case StatusCode::kDataLoss: return Exit::kBroken;
    default: return Exit::kNotThere;
  }
}

std::string ErrorLine(const Status& status) {
  return "{\"error\": " + JsonString(StatusCodeName(status.code())) +
         ", \"message\": " + JsonString(status.message()) +
         ", \"exit_code\": " + std::to_string(static_cast<int>(ExitOf(status))) + "}";
}

std::optional<Status> ParseErrorLine(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto error = json.find("error"), message = json.find("message");
  if (error == json.end() || !error->is_string()) return std::nullopt;
  if (message == json.end() || !message->is_string()) return std::nullopt;
  for (uint8_t number = 1; number <= kStatusCodeMax; ++number) {
    const auto code = static_cast<StatusCode>(number);
    if (StatusCodeName(code) == error->get_ref<const std::string&>()) {
      return Status(code, message->get_ref<const std::string&>());
    }
  }
  return std::nullopt;
}

}  // namespace maru::tools
