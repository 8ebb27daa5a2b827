#include <algorithm>

#include "engine/inspect.h"
#include "engine/record_cursor.h"
#include "layout/frame.h"

namespace maru::engine {

Status Inspection::List(const Client& client, const wire::ListRequest& request,
                        wire::ListReply* reply) const {
  // One reply is one frame: what an item takes beside its key, and what the rest of it takes.
  constexpr uint64_t kItemBytes = 48;
  constexpr uint64_t kReplyBytesMax = layout::kPayloadBytesMax - 1024;
  const uint32_t count_max =
      request.count_max == 0 ? kKeysPerList : std::min(request.count_max, kKeysPerList);
  uint64_t bytes = 0;
  RecordCursor at(*core_, request.cursor, kRecordsPerStep);
  wire::PageRef page;
  while (reply->items.size() < count_max && at.Next(layout::PageState::kLive, &page)) {
    const Stock& stock = *core_->stocks[page.pool.value()];
    const catalogue::Writer::StoredKey stored = stock.writer().KeyOf(page.record);
    if (stored.name_space != client.name_space.text()) continue;
    if (!stored.key.starts_with(request.prefix)) continue;
    bytes += stored.key.size() + kItemBytes;
    if (bytes > kReplyBytesMax) {
      at.Unread();
      break;
    }
    const layout::PageRecord* const record = stock.pool().view().Record(page.record);
    reply->storage.emplace_back(stored.key);
    // Relaxed: this process wrote it.
    reply->items.push_back({{}, record->length_bytes.load(std::memory_order_relaxed), page});
  }
  reply->next_cursor = at.cursor();
  // Not before: the texts move while their vector grows.
  for (size_t i = 0; i < reply->items.size(); ++i) reply->items[i].key = reply->storage[i];
  return OkStatus();
}

}  // namespace maru::engine
