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
  if (name == kOther || places->size() >= max || !Fits(name)) {
    return (*places)[std::string(kOther)];
  }
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
  const std::string_view name = entry.client_id;
  if (name.empty() || name == kAll) return;
  auto client = clients_.find(name);
  if (client == clients_.end() && name != kOther) {
    bool fits = clients_.size() < kClientsMax && Fits(name);
    // Each turn takes one out.
    while (!fits && MakePlace()) fits = clients_.size() < kClientsMax && Fits(name);
    if (fits) {
      ++names_;
      name_bytes_ += name.size();
      client = clients_.emplace(std::string(name), Client{}).first;
    }
  }
  if (client == clients_.end()) return AddTo(&other_, entry);
  client->second.reported = ++reports_;
  AddTo(&client->second.operations, entry);
}

bool StatsBook::MakePlace() {
  const auto oldest = std::ranges::min_element(
      clients_, {}, [](const auto& entry) { return entry.second.reported; });
  if (oldest == clients_.end()) return false;
  const auto node = clients_.extract(oldest);
  Forget(node.key());
  for (const auto& [operation, sums] : node.mapped().operations) {
    Forget(operation);
    for (const auto& [result, count] : sums.results) Forget(result);
  }
  AddSums(&other_, node.mapped().operations);
  return true;
}

void StatsBook::Forget(std::string_view name) {
  if (name == kOther) return;  // never counted
  --names_;
  name_bytes_ -= name.size();
}

void StatsBook::AddSums(Operations* to, const Operations& from) {
  for (const auto& [name, sums] : from) {
    Operation& operation = Place(to, name, kOperationsMax);
    operation.count += sums.count;
    operation.size_bytes += std::min(sums.size_bytes, kBytesMax - operation.size_bytes);
    operation.latency_us += std::min(sums.latency_us, kLatencyMax - operation.latency_us);
    for (const auto& [result, count] : sums.results) {
      Place(&operation.results, result, kResultsMax) += count;
    }
  }
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
  for (const auto& [name, client] : clients_) show(name, client.operations);
  if (!other_.empty()) show(kOther, other_);
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
