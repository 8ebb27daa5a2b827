// One instance of a replay, in a process of its own: `maru replay-instance`. It reads the trace,
// takes every n-th request, reads what is there and stores what is not. Its standard output has
// lines that the parent reads: progress, the result, or its error (error_line.h). Where instances
// act at the same moment, each says kReadyLine and waits for a line on its standard input, which
// the parent writes when all are ready and ends when one has failed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "maru/result.h"

namespace maru::tools {

inline constexpr const char* kReadyLine = "ready";

struct InstanceResult {
  uint64_t requests = 0, blocks = 0, hits = 0, shared_hits = 0;
  uint64_t stored = 0, duplicates = 0, refused = 0;
  uint64_t bytes_read = 0, bytes_written = 0;
  uint64_t verification_failures = 0;
  uint64_t races = 0, races_won = 0, races_lost = 0;
};

enum class ShowProgress : uint8_t { kNo, kYes };

struct ReplaySpec {
  std::string trace;
  std::string server;
  std::string server_user;  // as --server-user
  std::string name_space;
  uint64_t page_bytes = 16 * 1024;
  uint32_t instances = 2;
  uint32_t races = 0;         // register races forced at the start, between all instances
  uint64_t requests_max = 0;  // 0: all
  ShowProgress progress = ShowProgress::kYes;
};

struct ReplayResult {
  std::vector<InstanceResult> instances;
  InstanceResult sum;
  double seconds = 0;
};

// Starts the instances, shows progress on standard error, waits for them all. When one fails, the
// others are ended, and its error is the answer.
Result<ReplayResult> RunInstances(const ReplaySpec& spec, uint64_t requests_in_trace);

// Pages that are granted though no instance lives, or in no state at all: from an audit. `clean`
// tells the audit's verdict.
struct LeakReport {
  std::string unchecked;  // why leaked_pages is no number of leaks; empty: it is
  uint64_t leaked_pages = 0;
  bool clean = false;
  std::vector<std::string> offenders;
};
Result<LeakReport> AuditLeaks(const std::string& server, const std::string& server_user = "");

}  // namespace maru::tools
