// What `maru serve` and the commands that are like it share.
#pragma once

#include <string>

#include "tools/command.h"

namespace maru::tools {

inline constexpr OptionRow kServeOptions[] = {
    {"pool", "SPEC", "auto",
     "A pool: auto, shm:size=4GiB, shm:NAME,size=4GiB, file:PATH,size=4GiB (with ,checksum: stores "
     "carry the hash of their bytes); may be given several times, filled in order",
     Takes::kMany},
    {"socket", "SOCKET", "",
     "Listen there: a PATH, which has an abstract socket beside it, or @NAME (default: "
     "/tmp/maru-UID.sock)",
     Takes::kOne, "MARU_SOCKET"},
    {"socket-group", "NAME", "", "Admit the members of this group; socket and pools get mode 0660",
     Takes::kOne},
    {"eviction", "lru|none", "lru",
     "When a pool is full: retire the least recently used keys, or refuse", Takes::kOne},
    {"fresh", nullptr, "", "Make the pools anew instead of going on with what is in them",
     Takes::kNothing},
    {"listen", "URL", "",
     "Serve clients of upstream's metadata protocol there, or none (default: tcp://127.0.0.1:5555; "
     "when that is taken, the server says so and goes on without)",
     Takes::kOne},
    {"rm-listen", "ADDRESS", "",
     "Serve clients of upstream's resource-manager protocol there, or none (default: "
     "127.0.0.1:9850; when that is taken, any free port, which clients are told at --listen)",
     Takes::kOne},
    {"allow-remote", nullptr, "",
     "Let --listen and --rm-listen name addresses that other hosts reach, without any protection",
     Takes::kNothing},
    {"wire-hold", "SECONDS", "60",
     "Keep a page, and the room of a region that was given back, for so long when a client of "
     "upstream's, which holds no lease, was told of keys there",
     Takes::kOne},
    {"region-size", "SIZE", "64MiB", "Cut regions of at least this size", Takes::kOne},
    {"log-level", "LEVEL", "info", "Log to standard error from debug, info, warning or error on",
     Takes::kOne, "MARU_LOG_LEVEL"},
    {kConfigFlag, "FILE", "", "Read options from FILE, lines of KEY = VALUE", Takes::kOne},
    {"metrics", "ADDRESS", "none", "Not in this version: maru stat --json has the numbers",
     Takes::kOne},
};

// To standard error. As upstream's servers read it: in upper case as well, and "warn".
Status SetUpLog(const std::string& level_name);

// Serves until a stop signal. REQUIRES: a value, or none, for each row above.
Result<Exit> Serve(const Arguments& arguments);
// The same for a command that gives the resource manager's address by another option.
Result<Exit> ServeWith(const Arguments& arguments, const std::string& rm_option);

}  // namespace maru::tools
