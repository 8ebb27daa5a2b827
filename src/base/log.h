#pragma once

// Writing to the installed log sink (maru/log.h). Thread-safe; one relaxed load when the level is
// off. Not for use in a forked child.

#include <string_view>

#include "maru/log.h"

namespace maru {

// True when a line of LEVEL would reach a sink: ask before building a costly line.
bool LogEnabled(LogLevel level);

void Log(LogLevel level, std::string_view line);

inline void LogDebug(std::string_view line) { Log(LogLevel::kDebug, line); }
inline void LogInfo(std::string_view line) { Log(LogLevel::kInfo, line); }
inline void LogWarning(std::string_view line) { Log(LogLevel::kWarning, line); }
inline void LogError(std::string_view line) { Log(LogLevel::kError, line); }

}  // namespace maru
