// maru bench --markdown: the tables of docs/performance.md.

#include <algorithm>
#include <set>
#include <tuple>

#include "os/machine.h"
#include "os/process.h"
#include "tools/bench.h"

namespace maru::tools {

namespace {

using Cells = std::vector<std::string>;

void AddLine(const Cells& cells, std::string* out) {
  *out += "|";
  for (const std::string& cell : cells) *out += " " + cell + (cell.empty() ? "|" : " |");
  *out += "\n";
}

class MarkdownTable {
 public:
  explicit MarkdownTable(const Cells& header) : columns_(header.size()) {
    AddLine(header, &text_);
    text_ += "|";
    for (size_t i = 0; i < columns_; ++i) text_ += "---|";
    text_ += "\n";
  }
  void Add(const Cells& cells) {
    AddLine(cells, &text_);
    ++rows_;
  }
  // Under a heading; nothing without rows.
  std::string Under(const std::string& heading) const {
    return rows_ == 0 ? "" : "### " + heading + "\n\n" + text_ + "\n";
  }

 private:
  const size_t columns_;
  size_t rows_ = 0;
  std::string text_;
};

// "0.44 us / 0.61 us, 2.10 M", then the limit and how often it is taken.
void AddTimes(const BenchRow* row, const char* per_second, Cells* cells) {
  if (row == nullptr) {
    cells->insert(cells->end(), {"", "", ""});
    return;
  }
  std::string times = TimeText(row->p50_ns) + " / " + TimeText(row->p99_ns);
  if (row->per_second > 0) times += ", " + CountText(row->per_second) + per_second;
  cells->insert(cells->end(), {times, TimeText(row->limit_ns),
                               row->times_limit > 0 ? FixedText(row->times_limit, 2) : ""});
}

const BenchRow* Find(const std::vector<BenchRow>& rows, const BenchRow& like,
                     const std::string& operation, const std::string& placement) {
  const auto at = std::ranges::find_if(rows, [&](const BenchRow& row) {
    return row.operation == operation && row.placement == placement && row.keys == like.keys &&
           row.readers == like.readers && row.batch == like.batch;
  });
  return at == rows.end() ? nullptr : &*at;
}

std::vector<std::string> Placements(const std::vector<BenchRow>& rows) {
  std::vector<std::string> names;
  for (const BenchRow& row : rows) {
    if (row.section != "socket" || std::ranges::count(names, row.placement) > 0) continue;
    names.push_back(row.placement);
  }
  return names;
}

// A line for each number of keys, readers and keys a call: in the catalogue, and by message.
std::string LookupTable(const std::vector<BenchRow>& rows, const std::string& heading,
                        const std::string& shared, const std::string& message) {
  Cells header = {"keys", "readers", "batch", "catalogue: p50 / p99, keys/s", "reads", "times"};
  const std::vector<std::string> placements = message.empty() ? Cells() : Placements(rows);
  for (const std::string& placement : placements) {
    header.insert(header.end(),
                  {"socket, " + placement + ": p50 / p99, keys/s", "bare trip", "times"});
  }
  MarkdownTable table(header);
  std::set<std::tuple<uint64_t, uint32_t, uint32_t>> told;
  for (const BenchRow& row : rows) {
    if (row.operation != shared && row.operation != message) continue;
    if (!told.emplace(row.keys, row.readers, row.batch).second) continue;
    Cells cells = {KeysText(row.keys), std::to_string(row.readers), std::to_string(row.batch)};
    AddTimes(Find(rows, row, shared, ""), "/s", &cells);
    for (const std::string& placement : placements) {
      AddTimes(Find(rows, row, message, placement), "/s", &cells);
    }
    table.Add(cells);
  }
  return table.Under(heading);
}

std::string MessageTable(const std::vector<BenchRow>& rows) {
  Cells header = {"work", "keys", "batch"};
  const std::vector<std::string> placements = Placements(rows);
  for (const std::string& placement : placements) {
    header.insert(header.end(), {placement + ": p50 / p99, keys/s", "bare trip", "times"});
  }
  MarkdownTable table(header);
  for (const BenchRow& row : rows) {
    if (row.section != "socket" || row.placement != placements.front()) continue;
    if (row.operation.starts_with("find")) continue;  // beside the catalogue
    Cells cells = {row.operation, KeysText(row.keys), std::to_string(row.batch)};
    for (const std::string& placement : placements) {
      AddTimes(Find(rows, row, row.operation, placement), "/s", &cells);
    }
    table.Add(cells);
  }
  return table.Under("Messages");
}

std::string OtherTable(const std::vector<BenchRow>& rows, const std::string& section,
                       const std::string& heading) {
  MarkdownTable table({"work", "keys", "p50 / p99", "limit", "times", "value"});
  for (const BenchRow& row : rows) {
    if (row.section != section) continue;
    Cells cells = {row.operation, KeysText(row.keys)};
    if (row.p50_ns > 0) {
      AddTimes(&row, " keys/s", &cells);
    } else {
      cells.insert(cells.end(), {"", "", ""});
    }
    cells.push_back(row.unit.empty() ? "" : FixedText(row.value, 2) + " " + row.unit);
    table.Add(cells);
  }
  return table.Under(heading);
}

std::string GoalTable(const std::vector<BenchRow>& rows) {
  MarkdownTable table(
      {"work", "keys", "batch", "where", "goal", "", "p50 / p99", "limit", "times", "value"});
  for (const BenchRow& row : rows) {
    if (row.goal.empty()) continue;
    Cells cells = {
        row.operation, KeysText(row.keys), row.batch > 0 ? std::to_string(row.batch) : "",
        row.placement, row.goal,           row.goal_met ? "met" : "**missed**"};
    AddTimes(row.p50_ns > 0 ? &row : nullptr, "/s", &cells);
    cells.push_back(row.unit.empty() ? "" : FixedText(row.value, 2) + " " + row.unit);
    table.Add(cells);
  }
  return table.Under("Goals");
}

// What stands behind "NAME<spaces>:" in a file of /proc; "unknown" without it.
std::string ProcValue(const std::string& path, const std::string& name) {
  constexpr size_t kTextMax = 1 << 20;
  const std::string text = os::ReadTextFile(path, kTextMax).value_or("");
  const size_t at = text.find(name);
  const size_t colon = text.find(':', at);
  if (at == std::string::npos || colon == std::string::npos) return "unknown";
  const size_t from = text.find_first_not_of(" \t", colon + 1);
  return from == std::string::npos ? "unknown" : text.substr(from, text.find('\n', from) - from);
}

std::string MachineText(const BenchSpec& spec) {
  constexpr size_t kReleaseMax = 256;
  std::string release = os::ReadTextFile("/proc/sys/kernel/osrelease", kReleaseMax).value_or("");
  release.resize(std::min(release.size(), release.find_first_of("-\n")));
  const uint64_t memory_kib =
      std::strtoull(ProcValue("/proc/meminfo", "MemTotal").c_str(), nullptr, 10);
  std::string text = std::to_string(spec.cores.size()) + " cores of " +
                     ProcValue("/proc/cpuinfo", "model name") + ", " +
                     std::to_string(memory_kib >> 20) + " GiB, Linux " + release +
                     ". Medians over " + std::to_string(spec.repetitions) +
                     " repetitions; `times` is ours divided by the limit, in each of them.";
  for (const uint64_t keys : spec.left_out) {
    text += " " + KeysText(keys) + " keys were left out for want of memory.";
  }
  return text;
}

}  // namespace

std::string BenchMarkdown(const BenchSpec& spec, const std::vector<BenchRow>& rows) {
  std::string text = MachineText(spec) + "\n\n" + GoalTable(rows) +
                     LookupTable(rows, "Look-ups that hit", "exists, hit", "find, hit") +
                     LookupTable(rows, "Look-ups that miss", "exists, miss", "find, miss") +
                     LookupTable(rows, "Retrieve and release", "retrieve and release", "") +
                     MessageTable(rows) + OtherTable(rows, "payload", "Payload of 1 MiB") +
                     OtherTable(rows, "server", "Server");
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

}  // namespace maru::tools
