// maru bench: rows as tables for people, as JSON for machines.

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/bench.h"
#include "tools/output.h"

namespace maru::tools {

std::string FixedText(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

// 0.42 us, 13.5 us, 1.2 ms.
std::string TimeText(double nanoseconds) {
  if (nanoseconds == 0) return "";
  if (nanoseconds < 1e6) return FixedText(nanoseconds / 1e3, nanoseconds < 10e3 ? 2 : 1) + " us";
  return FixedText(nanoseconds / 1e6, 2) + " ms";
}

std::string CountText(double count) {
  if (count == 0) return "";
  if (count >= 1e6) return FixedText(count / 1e6, 2) + " M";
  if (count >= 1e4) return FixedText(count / 1e3, 0) + " k";
  return FixedText(count, 0);
}

std::string KeysText(uint64_t keys) {
  if (keys == 0) return "";
  if (keys % 1'000'000 == 0) return std::to_string(keys / 1'000'000) + "M";
  if (keys % 1000 == 0) return std::to_string(keys / 1000) + "k";
  return std::to_string(keys);
}

namespace {

void PrintJson(const BenchSpec& spec, const std::vector<BenchRow>& rows) {
  nlohmann::ordered_json json;
  json["cores"] = spec.cores.size();
  json["repetitions"] = spec.repetitions;
  json["keys_left_out"] = spec.left_out;
  json["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    nlohmann::ordered_json one;
    one["section"] = row.section;
    one["operation"] = row.operation;
    if (row.keys > 0) one["keys"] = row.keys;
    if (row.readers > 0) one["processes"] = row.readers;
    if (row.batch > 0) one["batch"] = row.batch;
    if (!row.placement.empty()) one["placement"] = row.placement;
    if (row.p50_ns > 0) one["p50_ns"] = row.p50_ns;
    if (row.p99_ns > 0) one["p99_ns"] = row.p99_ns;
    if (row.per_second > 0) one["per_second"] = row.per_second;
    if (row.limit_ns > 0) one["limit_ns"] = row.limit_ns;
    if (row.times_limit > 0) one["times_limit"] = row.times_limit;
    if (!row.unit.empty()) one["value"] = row.value;
    if (!row.unit.empty()) one["unit"] = row.unit;
    if (!row.goal.empty()) one["goal"] = row.goal;
    if (!row.goal.empty()) one["goal_met"] = row.goal_met;
    json["rows"].push_back(std::move(one));
  }
  PrintLine(json.dump(2));
}

void PrintSection(const char* section, const char* about, const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> lines = {{"operation", "keys", "procs", "batch", "where",
                                                  "p50", "p99", "per s", "limit", "times", "value",
                                                  "goal"}};
  for (const BenchRow& row : rows) {
    if (row.section != section) continue;
    lines.push_back(
        {row.operation, KeysText(row.keys), row.readers > 0 ? std::to_string(row.readers) : "",
         row.batch > 0 ? std::to_string(row.batch) : "", row.placement, TimeText(row.p50_ns),
         TimeText(row.p99_ns), CountText(row.per_second), TimeText(row.limit_ns),
         row.times_limit > 0 ? FixedText(row.times_limit, 2) : "",
         row.unit.empty() ? "" : FixedText(row.value, 2) + " " + row.unit,
         row.goal.empty() ? "" : row.goal + (row.goal_met ? ": met" : ": MISSED")});
  }
  if (lines.size() == 1) return;
  // Columns that say nothing here are left out.
  std::vector<std::vector<std::string>> shown(lines.size());
  for (size_t column = 0; column < lines[0].size(); ++column) {
    const bool used = std::any_of(lines.begin() + 1, lines.end(),
                                  [&](const auto& line) { return !line[column].empty(); });
    for (size_t i = 0; used && i < lines.size(); ++i) shown[i].push_back(lines[i][column]);
  }
  Table table(shown[0]);
  for (size_t i = 1; i < shown.size(); ++i) table.Add(shown[i]);
  PrintLine("");
  PrintLine(about);
  Print(table.ToString());
}

}  // namespace

void PrintBench(const BenchSpec& spec, const std::vector<BenchRow>& rows, BenchForm form) {
  if (form == BenchForm::kJson) return PrintJson(spec, rows);
  if (form == BenchForm::kMarkdown) return PrintLine(BenchMarkdown(spec, rows));
  PrintSection("catalogue", "Catalogue: no message. Limit: random reads of as many cache lines.",
               rows);
  PrintSection("socket",
               "Unix socket. Limit: a bare round trip of the same sizes on the same cores.", rows);
  PrintSection("payload", "Payload of 1 MiB. Limit: memcpy between the same addresses.", rows);
  PrintSection("server", "Server.", rows);
  for (const uint64_t keys : spec.left_out) {
    PrintLine(KeysText(keys) + " keys are left out: there is no memory for them.");
  }
}

}  // namespace maru::tools
