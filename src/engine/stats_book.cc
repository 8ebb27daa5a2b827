#include "engine/stats_book.h"

#include <algorithm>
#include <limits>

namespace maru::engine {

namespace {

constexpr std::string_view kAll = "_all", kOther = "_other";
constexpr uint64_t kBytesMax = std::numeric_limits<uint64_t>::max();
constexpr double kLatencyMax = std::numeric_limits<double>::max();

}  // namespace

template <typename Value>
Value& StatsBook::Place(std::map<std::string, Value, std::less<>>* places, std::string_view name,
                        size_t max) {
  const auto found = places->find(name);
  if (found != places->end()) return found->second;
  const bool fits =
      places->size() < max && names_ < kNamesMax && name_bytes_ + name.size() <= kNameBytesMax;
  if (!fits) return (*places)[std::string(kOther)];
  ++names_;
  name_bytes_ += name.size();
  return (*places)[std::string(name)];
}

void StatsBook::AddTo(Operations* operations, const wire::compat::StatsEntry& entry) {
  Operation& operation = Place(operations, entry.op_type, kOperationsMax);
  ++operation.count;
  operation.size_bytes += std::min(entry.size_bytes, kBytesMax - operation.size_bytes);
  operation.latency_us += std::min(entry.latency_us, kLatencyMax - operation.latency_us);
  ++Place(&operation.results, entry.result, kResultsMax);
}

void StatsBook::Add(const wire::compat::StatsEntry& entry) {
  AddTo(&all_, entry);
  if (entry.client_id.empty() || entry.client_id == kAll) return;
  AddTo(&Place(&clients_, entry.client_id, kClientsMax), entry);
}

std::vector<wire::compat::ClientCounters> StatsBook::Show() const {
  std::vector<wire::compat::ClientCounters> shown;
  const auto show = [&shown](std::string_view name, const Operations& operations) {
    wire::compat::ClientCounters& client = shown.emplace_back();
    client.client_id = name;
    for (const auto& [what, sums] : operations) {
      client.operations.push_back({what,
                                   sums.count,
                                   sums.size_bytes,
                                   sums.latency_us,
                                   {sums.results.begin(), sums.results.end()}});
    }
  };
  show(kAll, all_);
  for (const auto& [name, operations] : clients_) show(name, operations);
  return shown;
}

StatsBook& StatsBooks::Of(uint64_t endpoint) {
  if (!books_.contains(endpoint) && books_.size() >= kBooksMax) {
    books_.erase(std::ranges::min_element(books_, {},
                                          [](const auto& entry) { return entry.second.written; }));
  }
  Shelved& shelved = books_[endpoint];
  shelved.written = ++written_;
  return shelved.book;
}

std::vector<wire::compat::ClientCounters> StatsBooks::Show(uint64_t endpoint) const {
  const auto found = books_.find(endpoint);
  return found == books_.end() ? StatsBook().Show() : found->second.book.Show();
}

}  // namespace maru::engine
