// How a command tells its error: an exit code, and with --json one line, which a parent process
// reads back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "maru/status.h"
#include "tools/command.h"

namespace maru::tools {

Exit ExitOf(const Status& status);

// {"error": "NotFound", "message": ..., "exit_code": 1}
std::string ErrorLine(const Status& status);
// The error of such a line; nothing when it is none.
std::optional<Status> ParseErrorLine(std::string_view line);

}  // namespace maru::tools
