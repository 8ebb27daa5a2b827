// Where options come from beside the line: the environment, a configuration file, the rows'
// defaults.
//
// A configuration file has lines of KEY = VALUE, where KEY is an option's flag. An option that may
// be given several times has a line for each; one without a value takes true or false. Empty lines
// and those that begin with # are passed over.
#pragma once

#include <cstdint>
#include <span>

#include "maru/result.h"
#include "tools/command.h"

namespace maru::tools {

inline constexpr size_t kConfigBytesMax = 1 << 20;

// Gives each of the rows that the line has left open what the first source has that names it.
// `arguments` has what stood on the line, the configuration file's name among it. Errors name the
// file, the line and the key.
Status CompleteArguments(std::span<const OptionRow> rows, Arguments* arguments);

}  // namespace maru::tools
