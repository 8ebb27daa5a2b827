// Requests of any content, written by a naive encoder with any width of numbers, any order of
// fields, str or bin, and unknown fields among them, decode to what was written.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>

#include "base/utf8.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/resource_manager_codec.h"
#include "wire/compat/test_upstream.h"

namespace maru::wire::compat {
namespace {

using Write = std::function<void(Bytes&)>;

void PutByte(Bytes& out, int byte) { out.push_back(static_cast<std::byte>(byte)); }

void PutBig(Bytes& out, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) PutByte(out, static_cast<int>(value >> (8 * i) & 0xff));
}

// In one of the widths that hold it.
void PutNumber(Bytes& out, uint64_t value) {
  std::vector<Write> ways;
  if (value <= 0x7f) ways.push_back([=](Bytes& to) { PutByte(to, static_cast<int>(value)); });
  for (int log = 0; log < 4; ++log) {
    const int bytes = 1 << log;
    const uint64_t unsigned_max = ~uint64_t{0} >> (64 - 8 * bytes);
    for (const bool is_signed : {false, true}) {
      if (value > (is_signed ? unsigned_max / 2 : unsigned_max)) continue;
      ways.push_back([=](Bytes& to) {
        PutByte(to, (is_signed ? 0xd0 : 0xcc) + log);
        PutBig(to, value, bytes);
      });
    }
  }
  rc::gen::elementOf(ways).operator*()(out);
}

void PutText(Bytes& out, std::string_view text) {
  const bool bin = *rc::gen::arbitrary<bool>();
  const int width = text.size() > 0xff ? *rc::gen::element(1, 2) : *rc::gen::element(0, 1, 2);
  if (!bin && text.size() <= 31 && *rc::gen::arbitrary<bool>()) {
    PutByte(out, 0xa0 | static_cast<int>(text.size()));
  } else {
    PutByte(out, (bin ? 0xc4 : 0xd9) + width);
    PutBig(out, text.size(), 1 << width);
  }
  for (const char c : text) PutByte(out, static_cast<unsigned char>(c));
}

void PutCount(Bytes& out, size_t count, int fixed, int tag16) {
  if (count <= 15 && *rc::gen::arbitrary<bool>()) return PutByte(out, fixed | int(count));
  const bool wide = *rc::gen::arbitrary<bool>();
  PutByte(out, tag16 + (wide ? 1 : 0));
  PutBig(out, count, wide ? 4 : 2);
}

void PutUnknown(Bytes& out, int depth = 0) {
  switch (*rc::gen::inRange(0, depth < 3 ? 6 : 4)) {
    case 0: return PutByte(out, 0xc0);
    case 1: return PutNumber(out, *rc::gen::arbitrary<uint64_t>());
    case 2: return PutText(out, *rc::gen::arbitrary<std::string>());
    case 3: PutByte(out, 0xcb); return PutBig(out, *rc::gen::arbitrary<uint64_t>(), 8);
    case 4: {
      const auto count = *rc::gen::inRange<size_t>(0, 20);
      PutCount(out, count, 0x90, 0xdc);
      for (size_t i = 0; i < count; ++i) PutUnknown(out, depth + 1);
      return;
    }
    default: {
      const auto count = *rc::gen::inRange<size_t>(0, 4);
      PutCount(out, count, 0x80, 0xde);
      for (size_t i = 0; i < 2 * count; ++i) PutUnknown(out, depth + 1);
    }
  }
}

using Named = std::pair<std::string, Write>;

Named NumberField(const char* name, uint64_t value) {
  return {name, [=](Bytes& out) { PutNumber(out, value); }};
}
Named TextField(const char* name, std::string_view value) {
  return {name, [=](Bytes& out) { PutText(out, value); }};
}

// The fields in any order, and unknown ones among them.
void PutMap(Bytes& out, std::vector<Named> fields) {
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) {
    fields.push_back({"unknown" + std::to_string(i), [](Bytes& to) { PutUnknown(to); }});
  }
  for (size_t i = fields.size(); i > 1; --i) {
    std::swap(fields[i - 1], fields[*rc::gen::inRange<size_t>(0, i)]);
  }
  PutCount(out, fields.size(), 0x80, 0xde);
  for (const auto& [name, write] : fields) {
    PutText(out, name);
    write(out);
  }
}

template <typename T>
void ExpectSame(uint8_t type, const Bytes& payload, const T& expected) {
  const auto sequence = *rc::gen::arbitrary<uint32_t>();
  const Bytes message = Message(type, sequence, payload);
  MetadataHeader header;
  MetadataRequest request;
  const Status status = DecodeMetadataRequest(message, &header, &request);
  if (!status.ok()) RC_FAIL(status.ToString());
  RC_ASSERT(header == (MetadataHeader{type, 0, sequence}));
  RC_ASSERT(std::get<T>(request) == expected);
}

// Edges of widths are as likely as all numbers between them.
rc::Gen<uint64_t> AnyNumber() {
  return rc::gen::map(rc::gen::pair(rc::gen::inRange(0, 64), rc::gen::inRange(-2, 3)),
                      [](std::pair<int, int> edge) {
                        return (uint64_t{1} << edge.first) + static_cast<uint64_t>(edge.second);
                      });
}

std::vector<Named> FieldsOf(const RegisterEntry& entry) {
  return {TextField("key", entry.key), NumberField("region_id", entry.region_id),
          NumberField("kv_offset", entry.offset_bytes),
          NumberField("kv_length", entry.length_bytes)};
}

TEST(UpstreamRoundTrip, Register) {
  EXPECT_TRUE(rc::check("registrations, single and in batches", [] {
    const auto keys = *rc::gen::arbitrary<std::vector<std::string>>();
    RegisterRequest expected;
    for (const std::string& key : keys) {
      expected.entries.push_back({key, *AnyNumber(), *AnyNumber(), *AnyNumber()});
    }
    Bytes payload;
    PutMap(payload, {{"entries", [&](Bytes& out) {
                        PutCount(out, expected.entries.size(), 0x90, 0xdc);
                        for (const auto& entry : expected.entries) PutMap(out, FieldsOf(entry));
                      }}});
    ExpectSame(0x20, payload, expected);
    if (expected.entries.empty()) return;
    expected.entries.resize(1);
    payload.clear();
    PutMap(payload, FieldsOf(expected.entries[0]));
    ExpectSame(0x10, payload, expected);
  }));
}

TEST(UpstreamRoundTrip, Keys) {
  EXPECT_TRUE(rc::check("batches of keys", [] {
    const auto keys = *rc::gen::arbitrary<std::vector<std::string>>();
    const KeysRequest expected{{keys.begin(), keys.end()}};
    Bytes payload;
    PutMap(payload, {{"keys", [&](Bytes& out) {
                        PutCount(out, keys.size(), 0x90, 0xdc);
                        for (const std::string& key : keys) PutText(out, key);
                      }}});
    ExpectSame(static_cast<uint8_t>(*rc::gen::inRange(0x21, 0x25)), payload, expected);
  }));
}

TEST(UpstreamRoundTrip, Alloc) {
  EXPECT_TRUE(rc::check("allocations", [] {
    const std::string id = ReplaceNonUtf8(*rc::gen::arbitrary<std::string>());
    const std::string lease = ReplaceNonUtf8(*rc::gen::arbitrary<std::string>());
    const AllocRequest expected{id, *AnyNumber(), lease};
    Bytes payload;
    PutMap(payload, {TextField("instance_id", id), NumberField("size", expected.size_bytes),
                     TextField("lease_id", expected.lease_id)});
    ExpectSame(0x01, payload, expected);
  }));
}

TEST(UpstreamRoundTrip, BytesAreNeverMoreThanAnError) {
  EXPECT_TRUE(rc::check("any bytes", [] {
    const auto bytes = *rc::gen::arbitrary<std::vector<uint8_t>>();
    const auto type = *rc::gen::arbitrary<uint8_t>();
    MetadataHeader header;
    MetadataRequest request;
    const Status status =
        DecodeMetadataRequest(Message(type, 1, std::as_bytes(std::span(bytes))), &header, &request);
    RC_ASSERT(status.ok() == (request.index() != 0));
    RC_ASSERT(status.ok() || status.code() == StatusCode::kDataLoss);
  }));
}

void PutLittle(Bytes& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) PutByte(out, static_cast<int>(value >> (8 * i) & 0xff));
}

TEST(UpstreamRoundTrip, ResourceManager) {
  EXPECT_TRUE(rc::check("requests", [] {
    const auto id = *rc::gen::container<std::string>(rc::gen::inRange('\x01', '\x7f'));  // UTF-8
    const auto path = *rc::gen::arbitrary<std::string>();
    const Handle handle{*AnyNumber(), *AnyNumber(), *AnyNumber(), *AnyNumber()};
    const uint64_t size = *AnyNumber();
    const uint64_t request_id = *AnyNumber();
    const auto put_text = [](Bytes& out, std::string_view text) {
      for (const char c : text) PutByte(out, static_cast<unsigned char>(c));
    };
    Bytes tail;
    PutLittle(tail, id.size(), 2);
    put_text(tail, id);
    PutLittle(tail, request_id, 8);
    Bytes alloc;
    PutLittle(alloc, size, 8);
    PutLittle(alloc, path.size(), 8);  // with the reserved field
    put_text(alloc, path);
    alloc.insert(alloc.end(), tail.begin(), tail.end());
    Bytes free;
    for (const uint64_t number :
         {handle.region_id, handle.offset_bytes, handle.length_bytes, handle.auth_token}) {
      PutLittle(free, number, 8);
    }
    free.insert(free.end(), tail.begin(), tail.end());
    RmRequest request;
    RC_ASSERT(DecodeRmRequest(1, alloc, &request).ok());
    RC_ASSERT(std::get<RmAllocRequest>(request) == (RmAllocRequest{size, path, id, request_id}));
    RC_ASSERT(DecodeRmRequest(3, free, &request).ok());
    RC_ASSERT(std::get<RmFreeRequest>(request) == (RmFreeRequest{handle, id, request_id}));
    RC_ASSERT(DecodeRmRequest(9, free, &request).ok());
    RC_ASSERT(std::get<RmAccessRequest>(request) == (RmAccessRequest{handle, id}));
  }));
}

}  // namespace
}  // namespace maru::wire::compat
