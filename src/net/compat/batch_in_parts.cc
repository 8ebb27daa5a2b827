#include "net/compat/batch_in_parts.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "base/check.h"

namespace maru::net::compat {

namespace compat = wire::compat;

namespace {

template <typename T>
std::vector<T> Slice(const std::vector<T>& all, size_t from) {
  const auto begin = all.begin() + static_cast<ptrdiff_t>(from);
  const size_t count = std::min(BatchInParts::kItemsMax, all.size() - from);
  return {begin, begin + static_cast<ptrdiff_t>(count)};
}

// Bytes of a std::vector<bool> of so many.
size_t BitsOf(size_t items) { return (items + 7) / 8; }

void Append(std::vector<bool>& whole, const std::vector<bool>& part) {
  whole.insert(whole.end(), part.begin(), part.end());
}

}  // namespace

size_t BatchInParts::ItemsOf(const compat::MetadataRequest& request) {
  if (const auto* keys = std::get_if<compat::KeysRequest>(&request)) return keys->keys.size();
  if (const auto* entries = std::get_if<compat::RegisterRequest>(&request)) {
    return entries->entries.size();
  }
  if (const auto* report = std::get_if<compat::ReportStatsRequest>(&request)) {
    return report->entries.size();
  }
  return 1;
}

std::unique_ptr<BatchInParts> BatchInParts::Cut(compat::MetadataType type,
                                                compat::MetadataRequest* request) {
  const size_t items = ItemsOf(*request);
  if (items <= kItemsMax) return nullptr;
  return std::unique_ptr<BatchInParts>(new BatchInParts(type, std::move(*request), items));
}

size_t BatchInParts::cost_bytes() const {
  if (const auto* keys = std::get_if<compat::KeysRequest>(&request_)) {
    const bool looks_up = type_ == compat::MetadataType::kBatchLookup;
    return items_ * sizeof(std::string_view) + keys->own_texts.bytes() +
           (looks_up ? items_ * sizeof(compat::LookupReply) : BitsOf(items_));
  }
  if (const auto* entries = std::get_if<compat::RegisterRequest>(&request_)) {
    size_t copied = 0, largest = 0;
    for (size_t i = 0; i < items_; ++i) {
      if (i % kItemsMax == 0) copied = 0;
      copied += entries->entries[i].key.size();
      largest = std::max(largest, copied);
    }
    return items_ * sizeof(compat::RegisterEntry) + entries->own_texts.bytes() + BitsOf(items_) +
           largest;
  }
  return items_ * sizeof(compat::StatsEntry);
}

compat::MetadataRequest BatchInParts::Next() const {
  MARU_CHECK(!done());
  if (const auto* keys = std::get_if<compat::KeysRequest>(&request_)) {
    return compat::KeysRequest{Slice(keys->keys, done_), {}};
  }
  if (const auto* entries = std::get_if<compat::RegisterRequest>(&request_)) {
    return compat::RegisterRequest{Slice(entries->entries, done_), {}};
  }
  return compat::ReportStatsRequest{
      Slice(std::get<compat::ReportStatsRequest>(request_).entries, done_)};
}

void BatchInParts::Take(compat::MetadataReply part) {
  const bool first = done_ == 0;
  done_ = std::min(items_, done_ + kItemsMax);
  if (std::holds_alternative<compat::ErrorReply>(part)) {
    reply_ = std::move(part);  // of the whole, whatever was done before
    done_ = items_;
  } else if (first) {
    reply_ = std::move(part);
    // At once, as it is counted.
    if (auto* const found = std::get_if<compat::BatchLookupReply>(&reply_)) {
      found->entries.reserve(items_);
    }
  } else if (auto* const found = std::get_if<compat::BatchLookupReply>(&reply_)) {
    std::ranges::move(std::get<compat::BatchLookupReply>(part).entries,
                      std::back_inserter(found->entries));
  } else if (auto* const results = std::get_if<compat::ResultsReply>(&reply_)) {
    Append(results->results, std::get<compat::ResultsReply>(part).results);
  } else if (auto* const news = std::get_if<compat::BatchRegisterReply>(&reply_)) {
    Append(news->results, std::get<compat::BatchRegisterReply>(part).results);
  }
  if (type_ == compat::MetadataType::kBatchPin) EndAtMissing();
}

void BatchInParts::EndAtMissing() {
  auto* const pinned = std::get_if<compat::ResultsReply>(&reply_);
  if (pinned == nullptr || std::ranges::find(pinned->results, false) == pinned->results.end()) {
    return;
  }
  pinned->results.resize(items_, false);
  done_ = items_;
}

}  // namespace maru::net::compat
