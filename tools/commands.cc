#include "tools/commands.h"

namespace maru::tools {

namespace {

// First what also those have that ask no server. --server is what ClientOptions::server_url takes.
constexpr OptionRow kCommon[] = {
    {"json", nullptr, "", "Print JSON for machines, errors too (those on standard error)",
     Takes::kNothing},
    {"server", "URL", "",
     "The server: tcp://HOST:PORT of its metadata endpoint, or its socket: PATH, or @NAME as `maru "
     "serve` tells it (default: MARU_SOCKET, /tmp/maru-UID.sock)",
     Takes::kOne, "MARU_SERVER"},
    {"server-user", "USER", "",
     "The user that the server may run as beside root and the own one; a name or a number",
     Takes::kOne, "MARU_SERVER_USER"},
};

}  // namespace

std::span<const OptionRow> CommonOptions() { return kCommon; }

std::span<const Command* const> Commands() {
  static constexpr const Command* kAll[] = {&kServe,
                                            &kResourceManager,
                                            &kServer,
                                            &kDemo,
                                            &kPut,
                                            &kGet,
                                            &kExists,
                                            &kRemove,
                                            &kUnpin,
                                            &kList,
                                            &kRelease,
                                            &kStat,
                                            &kTop,
                                            &kAudit,
                                            &kReplay,
                                            &kBench,
                                            &kPoolInit,
                                            &kPoolInspect,
                                            &kPoolCheck,
                                            &kPoolDump,
                                            &kPoolRenumber,
                                            &kFrame,
                                            &kReplayInstance,
                                            &kBenchWorker,
                                            &kReference};
  return kAll;
}

}  // namespace maru::tools
