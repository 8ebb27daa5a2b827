#include "sim/coverage.h"

#include <algorithm>

#include "catalogue/publication_points.h"

namespace maru::sim {

namespace {

namespace points = catalogue::points;

constexpr std::string_view kPointsOfPool[] = {
    "carve:reserved", "region:slots-high",     "region:fields", "region:word",
    "region:grown",   "region:shortened",      "region:freed",  "region:ordinal",
    "open:boot",      "open:unclean",          "open:epoch",    "pool:cut",
    "pool:client-id", "pool:records-released", "pool:clean",    "text-room:emptied",
};

constexpr std::string_view kFaults[] = {
    "attach lost",        "attach answer lost", "request lost",
    "reply lost",         "request late",       "request repeated",
    "error reply",        "short reply",        "server dies before",
    "server dies during", "server dies after",  "server died at a publication point",
    "server killed",      "process killed",     "a dead process's last write",
};

constexpr std::string_view kTransitions[] = {
    "idle grant recalled", "region freed", "trimmed to quota", "within quota", "quota not met",
};

constexpr std::string_view kOperations[] = {
    "alloc",
    "alloc refused",
    "store true",
    "store false",
    "store refused",
    "batch store true",
    "batch store false",
    "free",
    "free twice",
    "hold on a page",
    "let go",
    "free of stored",
    "store twice",
    "batch store refused",
    "free of stored refused",
    "hit",
    "miss",
    "retrieve refused",
    "exists",
    "batch hit",
    "batch miss",
    "batch retrieve refused",
    "batch exists yes",
    "batch exists no",
    "match prefix all",
    "match prefix some",
    "match prefix none",
    "pin",
    "unpin",
    "pin of a missing key",
    "batch pin",
    "batch pin of a missing key",
    "batch unpin",
    "batch unpin of a key not pinned",
    "delete deleted",
    "delete pinned",
    "delete missing",
    "delete refused",
    "batch delete deleted",
    "batch delete pinned",
    "batch delete missing",
    "batch delete refused",
    "view dropped",
    "background",
    "reconnect",
    "audit step",
    "audit clean",
    "audit refused",
};

constexpr std::string_view kOthers[] = {
    "process started", "process closed",      "server started",  "server stopped in order",
    "interleaved",     "same client goes on", "late frame read", "pages aged",
};

std::vector<std::string> Expected() {
  std::vector<std::string> names;
  for (const std::string& point : ServingPoints()) {
    names.push_back("point " + point);
    names.push_back("death at " + point);
  }
  for (const std::string_view fault : kFaults) names.push_back("fault: " + std::string(fault));
  for (const std::string_view transition : kTransitions) {
    names.push_back("transition: " + std::string(transition));
  }
  for (const std::string_view op : kOperations) names.push_back("op: " + std::string(op));
  names.insert(names.end(), std::begin(kOthers), std::end(kOthers));
  return names;
}

}  // namespace

std::vector<std::string> ServingPoints() {
  std::vector<std::string> all;
  for (const std::string_view point : points::kAllOfWriter) {
    if (point != points::kExtentPlaced && point != points::kExtentFreed) all.emplace_back(point);
  }
  all.insert(all.end(), std::begin(points::kAllOfLeaseAreas), std::end(points::kAllOfLeaseAreas));
  all.insert(all.end(), std::begin(kPointsOfPool), std::end(kPointsOfPool));
  return all;
}

const std::vector<std::string_view>& RarePoints() {
  static const std::vector<std::string_view> rare = {
      points::kChunksCarved,
      points::kChunkNamed,
      points::kRecordHigh,
      points::kPageSlot,
      points::kBound,
      points::kReleased,
      points::kWorn,
      points::kQuarantineEnded,
      points::kTextCarved,
      points::kReverted,
      points::kIndexCarved,
      points::kEntryCopied,
      points::kEntryMoved,
      points::kRecoveredRecord,
      points::kLeasesCarved,
      points::kBlockUnnamed,
      points::kClientFreed,
      "region:slots-high",
      "region:fields",
      "region:word",
      "region:grown",
      "region:shortened",
      "region:freed",
      "region:ordinal",
      "pool:cut",
      "pool:records-released",
      "pool:clean",
      "text-room:emptied",
  };
  return rare;
}

std::vector<std::string> MissingCoverage(const Tally& tally) {
  std::vector<std::string> lines;
  const std::vector<std::string> expected = Expected();
  for (const std::string& name : expected) {
    const auto at = tally.counts().find(name);
    const uint64_t taken = at == tally.counts().end() ? 0 : at->second;
    if (taken >= kTakenMin) continue;
    lines.push_back("taken " + std::to_string(taken) + " times: " + name);
  }
  for (const auto& [name, count] : tally.counts()) {
    // How the states looked between two steps is for people.
    if (name.starts_with("seen ")) continue;
    if (std::find(expected.begin(), expected.end(), name) != expected.end()) continue;
    lines.push_back("not in the lists of sim/coverage.cc: " + name);
  }
  return lines;
}

}  // namespace maru::sim
