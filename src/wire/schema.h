// The payload of each message, described once: Walk names its fields in the order of their bytes.
// Sizes, the encoder, the decoder and the test of docs/formats/frame.md are visitors that walk it.
//
// A visitor V has Number, Flag, Choice, Pool, Page, Text, Json, Uuid, Block, List and Rest. M is
// the message, const for visitors that do not fill it.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "layout/frame.h"
#include "layout/geometry.h"
#include "wire/messages.h"

namespace maru::wire {

template <typename M, typename T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

// Items of lists.

template <typename V, Is<PageRef> M>
constexpr void Walk(V& v, M& m) {
  v.Page("page", m);
}

template <typename V, Is<std::string_view> M>
constexpr void Walk(V& v, M& m) {
  v.Text("key", m, layout::kKeyBytesMax);
}

template <typename V, Is<uint64_t> M>
constexpr void Walk(V& v, M& m) {
  v.Block("block", m);
}

template <typename V, Is<uint8_t> M>
constexpr void Walk(V& v, M& m) {
  v.Number("flag", m, 1);
}

template <typename V, Is<DeleteOutcome> M>
constexpr void Walk(V& v, M& m) {
  v.Choice("outcome", m, DeleteOutcome::kPinned);
}

template <typename V, Is<AttachedPool> M>
constexpr void Walk(V& v, M& m) {
  v.Uuid("uuid", m.uuid);
  v.Number("pool_bytes", m.pool_bytes, layout::kPoolBytesMax);
  v.Number("flags", m.flags);
  v.Number("region_id_base", m.region_id_base, layout::kRegionIdMax);
  v.List("lease_blocks", m.lease_blocks, layout::kLeaseBlocksPerClientMax);
}

template <typename V, Is<SettleReply::Item> M>
constexpr void Walk(V& v, M& m) {
  v.Choice("verdict", m.verdict, SettleVerdict::kGone);
  v.Number("generation", m.generation);
}

template <typename V, Is<RegisterEntry> M>
constexpr void Walk(V& v, M& m) {
  v.Page("page", m.page);
  v.Number("length_bytes", m.length_bytes);
  v.Number("checksum", m.checksum);
  v.Text("key", m.key, layout::kKeyBytesMax);
}

template <typename V, Is<RegisterReply::Item> M>
constexpr void Walk(V& v, M& m) {
  v.Choice("outcome", m.outcome, RegisterOutcome::kRejected);
  v.Number("generation", m.generation);
}

template <typename V, Is<FindReply::Item> M>
constexpr void Walk(V& v, M& m) {
  v.Flag("found", m.found);
  v.Page("page", m.page);
}

template <typename V, Is<ListReply::Item> M>
constexpr void Walk(V& v, M& m) {
  v.Page("page", m.page);
  v.Number("length_bytes", m.length_bytes);
  v.Text("key", m.key, layout::kKeyBytesMax);
}

template <typename V, Is<ReleaseReply::Item> M>
constexpr void Walk(V& v, M& m) {
  v.Number("region", m.region, layout::kRegionIdMax);
  v.Number("length_bytes", m.length_bytes, layout::kPoolBytesMax);
  v.Number("keys", m.keys);
  v.Number("condemned", m.condemned);
  v.Number("hold_ms", m.hold_ms);
  v.Choice("verdict", m.verdict, ReleaseVerdict::kConnected);
}

// Requests.

// A client of another protocol version is told so by the server: from its request only the versions
// are read, which keep their place for ever.
template <typename V, Is<AttachRequest> M>
constexpr void Walk(V& v, M& m) {
  v.Number("protocol_version", m.protocol_version);
  v.Number("layout_version", m.layout_version);
  if (m.protocol_version != layout::kProtocolVersion) return v.Rest();
  v.Number("budget_bytes", m.budget_bytes);
  v.Number("previous_client", m.previous_client);
  v.Uuid("previous_pool", m.previous_pool);
  v.Text("label", m.label, layout::kLabelBytes - 1);
  v.Text("name_space", m.name_space, layout::kNamespaceBytesMax);
}

template <typename V, Is<SettleRequest> M>
constexpr void Walk(V& v, M& m) {
  v.Flag("last", m.last);
  v.List("pages", m.pages, kPagesPerMessageMax);
}

template <typename V, Is<GrantRequest> M>
constexpr void Walk(V& v, M& m) {
  v.Number("page_bytes", m.page_bytes);
  v.Number("count", m.count);
}

template <typename V, Is<RegisterRequest> M>
constexpr void Walk(V& v, M& m) {
  v.Number("refill_page_bytes", m.refill_page_bytes);
  v.Number("refill_count", m.refill_count);
  v.List("entries", m.entries, kKeysPerMessageMax);
}

template <typename V, typename M>
  requires Is<M, GiveBackRequest> || Is<M, ResolveRequest>
constexpr void Walk(V& v, M& m) {
  v.List("pages", m.pages, kPagesPerMessageMax);
}

template <typename V, Is<FreeRequest> M>
constexpr void Walk(V& v, M& m) {
  v.Page("page", m.page);
}

template <typename V, typename M>
  requires Is<M, FindRequest> || Is<M, DeleteRequest> || Is<M, UnpinRequest>
constexpr void Walk(V& v, M& m) {
  v.List("keys", m.keys, kKeysPerMessageMax);
}

template <typename V, Is<GrowLeasesRequest> M>
constexpr void Walk(V& v, M& m) {
  v.Pool("pool", m.pool);
  v.Number("blocks", m.blocks);
}

template <typename V, Is<PingRequest> M>
constexpr void Walk(V&, M&) {}

template <typename V, Is<InspectRequest> M>
constexpr void Walk(V& v, M& m) {
  v.Choice("topic", m.topic, InspectTopic::kCondemned);
  v.Number("cursor", m.cursor);
}

template <typename V, Is<ListRequest> M>
constexpr void Walk(V& v, M& m) {
  v.Number("cursor", m.cursor);
  v.Number("count_max", m.count_max);
  v.Text("prefix", m.prefix, layout::kKeyBytesMax);
}

template <typename V, Is<AuditRequest> M>
constexpr void Walk(V& v, M& m) {
  v.Flag("verify_bytes", m.verify_bytes);
  v.Number("audit", m.audit);
}

template <typename V, Is<ReleaseRequest> M>
constexpr void Walk(V& v, M& m) {
  v.Choice("mode", m.mode, ReleaseMode::kForce);
  v.Number("from_region", m.from_region);
  v.Number("region", m.region, layout::kRegionIdMax);
  v.Text("instance_id", m.instance_id, kInstanceIdBytesMax);
}

// Replies.

template <typename V, Is<AttachReply> M>
constexpr void Walk(V& v, M& m) {
  v.Number("client", m.client);
  v.Number("slot", m.slot, layout::kClientSlots - 1);
  v.Flag("same_client", m.same_client);
  v.Text("server_version", m.server_version, kServerVersionBytesMax);
  v.List("pools", m.pools, layout::kPoolsMax);
}

template <typename V, Is<SettleReply> M>
constexpr void Walk(V& v, M& m) {
  v.List("items", m.items, kPagesPerMessageMax);
}

template <typename V, Is<GrantReply> M>
constexpr void Walk(V& v, M& m) {
  v.List("pages", m.pages, kPagesPerMessageMax);
}

template <typename V, Is<RegisterReply> M>
constexpr void Walk(V& v, M& m) {
  v.List("items", m.items, kKeysPerMessageMax);
  v.List("refill", m.refill, kPagesPerMessageMax);
}

template <typename V, Is<GiveBackReply> M>
constexpr void Walk(V& v, M& m) {
  v.Number("returned", m.returned);
}

template <typename V, Is<FreeReply> M>
constexpr void Walk(V& v, M& m) {
  v.Choice("outcome", m.outcome, FreeOutcome::kStale);
}

template <typename V, Is<ResolveReply> M>
constexpr void Walk(V& v, M& m) {
  v.List("live", m.live, kPagesPerMessageMax);
}

template <typename V, Is<FindReply> M>
constexpr void Walk(V& v, M& m) {
  v.List("items", m.items, kKeysPerMessageMax);
}

template <typename V, Is<DeleteReply> M>
constexpr void Walk(V& v, M& m) {
  v.List("outcomes", m.outcomes, kKeysPerMessageMax);
}

template <typename V, Is<GrowLeasesReply> M>
constexpr void Walk(V& v, M& m) {
  v.List("offsets", m.offsets, layout::kLeaseBlocksPerClientMax);
}

template <typename V, Is<PingReply> M>
constexpr void Walk(V& v, M& m) {
  v.Number("uptime_ms", m.uptime_ms);
}

template <typename V, Is<InspectReply> M>
constexpr void Walk(V& v, M& m) {
  v.Number("next_cursor", m.next_cursor);
  v.Json("json", m.json, kJsonBytesMax);
}

template <typename V, Is<ListReply> M>
constexpr void Walk(V& v, M& m) {
  v.Number("next_cursor", m.next_cursor);
  v.List("items", m.items, kKeysPerMessageMax);
}

template <typename V, Is<AuditReply> M>
constexpr void Walk(V& v, M& m) {
  v.Number("audit", m.audit);
  v.Number("work_done", m.work_done);
  v.Number("work_in_all", m.work_in_all);
  v.Flag("clean", m.clean);
  v.Json("json", m.json, kJsonBytesMax);
}

template <typename V, Is<UnpinReply> M>
constexpr void Walk(V& v, M& m) {
  v.List("unpinned", m.unpinned, kKeysPerMessageMax);
}

template <typename V, Is<ReleaseReply> M>
constexpr void Walk(V& v, M& m) {
  v.Number("next_region", m.next_region);
  v.List("items", m.items, kRegionsPerReleaseMax);
}

template <typename V, Is<std::monostate> M>
constexpr void Walk(V&, M&) {}

// A list is its count (u32), then its items; a text is its bytes (u32), then those.
inline constexpr uint32_t kCountBytes = 4;
inline constexpr uint32_t kUuidBytes = 16;
inline constexpr uint32_t kBlockWireBytes = 4;  // offset / kLeaseBlockBytes
static_assert(layout::kPoolBytesMax / layout::kLeaseBlockBytes <= 0xFFFFFFFF);

// The number that stands on the wire for an integer, a strong id or an enum.
template <typename T>
constexpr auto RawOf(const T& value) {
  if constexpr (requires { value.value(); }) {
    return value.value();
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<std::underlying_type_t<T>>(value);
  } else {
    return value;
  }
}
template <typename T>
using Raw = decltype(RawOf(std::declval<T>()));

// Adds up the bytes of a payload.
class PayloadSize {
 public:
  constexpr uint64_t bytes() const { return bytes_; }

  template <typename T>
  constexpr void Number(const char*, const T&, uint64_t = 0) {
    bytes_ += sizeof(Raw<T>);
  }
  constexpr void Flag(const char*, const bool&) { bytes_ += 1; }
  template <typename T>
  constexpr void Choice(const char*, const T&, T) {
    bytes_ += sizeof(T);
  }
  constexpr void Pool(const char*, const PoolIndex&) { bytes_ += 4; }
  constexpr void Page(const char*, const PageRef&) { bytes_ += kPageRefWireBytes; }
  constexpr void Text(const char*, std::string_view text, uint64_t) {
    bytes_ += kCountBytes + text.size();
  }
  constexpr void Json(const char*, const std::string& text, uint64_t) {
    bytes_ += kCountBytes + text.size();
  }
  constexpr void Uuid(const char*, const layout::Uuid&) { bytes_ += kUuidBytes; }
  constexpr void Block(const char*, const uint64_t&) { bytes_ += kBlockWireBytes; }
  template <typename T>
  constexpr void List(const char*, const std::vector<T>& list, uint64_t) {
    bytes_ += kCountBytes;
    for (const T& item : list) Walk(*this, item);
  }
  constexpr void Rest() {}

 private:
  uint64_t bytes_ = 0;
};

template <typename M>
constexpr uint64_t PayloadBytes(const M& message) {
  PayloadSize size;
  Walk(size, message);
  return size.bytes();
}

// Of an item whose texts and lists are empty.
template <typename T>
inline constexpr uint64_t kItemBytesMin = PayloadBytes(T{});

}  // namespace maru::wire
