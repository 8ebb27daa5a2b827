// A request of so many keys that answering it at once would keep others waiting: cut into parts,
// whose replies are put together again. Each key is answered as in the whole: upstream's batches
// are no transactions.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "wire/compat/metadata.h"

namespace maru::net::compat {

class BatchInParts {
 public:
  static constexpr size_t kItemsMax = 1024;  // keys or entries of one part

  // Keys or entries; 1 of a request that has none.
  static size_t ItemsOf(const wire::compat::MetadataRequest& request);
  // Null where one part is enough, and the request is as it was.
  static std::unique_ptr<BatchInParts> Cut(wire::compat::MetadataType type,
                                           wire::compat::MetadataRequest* request);

  // What it takes beside its message, with its whole reply, and with copies that the service may
  // have to make of the keys of a part (Metadata::BeginRegister).
  size_t cost_bytes() const;

  bool done() const { return done_ >= items_; }
  // The next part. REQUIRES: not done.
  wire::compat::MetadataRequest Next() const;
  // Its reply.
  void Take(wire::compat::MetadataReply part);
  // REQUIRES: done.
  wire::compat::MetadataReply Whole() { return std::move(reply_); }

 private:
  BatchInParts(wire::compat::MetadataType type, wire::compat::MetadataRequest&& request,
               size_t items)
      : type_(type), request_(std::move(request)), items_(items) {}
  // No key behind the first missing one is pinned.
  void EndAtMissing();

  const wire::compat::MetadataType type_;
  const wire::compat::MetadataRequest request_;
  const size_t items_;
  size_t done_ = 0;
  wire::compat::MetadataReply reply_;  // of what is done
};

}  // namespace maru::net::compat
