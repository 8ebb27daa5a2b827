#include "wire/compat/metadata_codec.h"

#include <gmock/gmock.h>

#include <limits>

#include "base/check.h"
#include "base/testing.h"
#include "wire/compat/test_upstream.h"

namespace maru::wire::compat {
namespace {

constexpr uint8_t kRegister = 0x10;
constexpr uint8_t kExists = 0x12;
constexpr uint8_t kBatchExists = 0x22;

Bytes Payload(std::initializer_list<int> bytes) {
  Bytes payload;
  for (const int byte : bytes) payload.push_back(static_cast<std::byte>(byte));
  return payload;
}

// What decoding answers: "" for OK.
std::string Refusal(std::span<const std::byte> message) {
  MetadataHeader header;
  MetadataRequest request{PlainRequest{}};
  const Status status = DecodeMetadataRequest(message, &header, &request);
  if (!status.ok()) {
    EXPECT_CODE(status, kDataLoss);
    EXPECT_EQ(request.index(), 0u);
  }
  return std::string(status.message());
}

std::string Refusal(uint8_t type, std::span<const std::byte> payload) {
  return Refusal(Message(type, 1, payload));
}

// REGISTER_KV of key "k" in region 1 with a kv_offset of these bytes.
Bytes RegisterWithOffset(std::initializer_list<int> offset) {
  Bytes payload;
  MsgpackWriter out(&payload);
  out.Map(4);
  out.Text("kv_offset");
  for (const int byte : offset) payload.push_back(static_cast<std::byte>(byte));
  out.Text("key");
  out.Text("k");
  out.Text("region_id");
  out.Number(1);
  out.Text("kv_length");
  out.Number(2);
  return payload;
}

void ExpectOffset(std::initializer_list<int> bytes, uint64_t expected) {
  const Bytes message = Message(kRegister, 1, RegisterWithOffset(bytes));
  MetadataHeader header;
  MetadataRequest request;
  ASSERT_OK(DecodeMetadataRequest(message, &header, &request));
  EXPECT_EQ(std::get<RegisterRequest>(request), (RegisterRequest{{{"k", 1, expected, 2}}}));
}

TEST(MetadataDecode, TakesWholeNumbersOfAnyWidth) {
  ExpectOffset({0x07}, 7);
  ExpectOffset({0xcc, 0x07}, 7);
  ExpectOffset({0xcd, 0x00, 0x07}, 7);
  ExpectOffset({0xce, 0x80, 0x00, 0x00, 0x07}, 0x80000007);
  ExpectOffset({0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, ~uint64_t{0});
  ExpectOffset({0xd0, 0x7f}, 127);
  ExpectOffset({0xd1, 0x7f, 0xff}, 0x7fff);
  ExpectOffset({0xd2, 0x00, 0x00, 0x00, 0x07}, 7);
  ExpectOffset({0xd3, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00}, uint64_t{1} << 40);
}

TEST(MetadataDecode, RefusesOtherNumbersWithTheirValue) {
  const auto offset = [](std::initializer_list<int> bytes) {
    return Refusal(kRegister, RegisterWithOffset(bytes));
  };
  const std::string expected = ", a whole number from 0 to 2^64-1 was expected";
  EXPECT_EQ(offset({0xff}), "message type 0x10: kv_offset is -1" + expected);
  EXPECT_EQ(offset({0xd0, 0x80}), "message type 0x10: kv_offset is -128" + expected);
  EXPECT_EQ(offset({0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0}),
            "message type 0x10: kv_offset is -9223372036854775808" + expected);
  EXPECT_EQ(offset({0xcb, 0x43, 0xf0, 0, 0, 0, 0, 0, 0}),
            "message type 0x10: kv_offset is the float 1.8446744073709552e+19" + expected);
  EXPECT_EQ(offset({0xc3}), "message type 0x10: kv_offset is true" + expected);
  EXPECT_EQ(offset({0xa1, '7'}), "message type 0x10: kv_offset is a text of 1 bytes" + expected);
  EXPECT_EQ(offset({0xc0}), "message type 0x10: kv_offset is missing");
}

TEST(MetadataDecode, TakesKeysOfMapsAsBinAndPassesOverUnknownFields) {
  // {bin "key": bin "k\0", "later": [{"a": 1.5}, ext], 7-byte ext}
  const Bytes payload = Payload({0x82, 0xc4, 3,    'k', 'e', 'y',  0xc4, 2,    'k',  0,    //
                                 0xa5, 'l',  'a',  't', 'e', 'r',  0x92, 0x81, 0xa1, 'a',  //
                                 0xca, 0x3f, 0xc0, 0,   0,   0xd4, 5,    0});
  const Bytes message = Message(kExists, 3, payload);
  MetadataHeader header;
  MetadataRequest request;
  ASSERT_OK(DecodeMetadataRequest(message, &header, &request));
  EXPECT_EQ(std::get<KeysRequest>(request).keys,
            std::vector<std::string_view>{std::string_view("k\0", 2)});
  EXPECT_EQ(header, (MetadataHeader{kExists, 0, 3}));
}

TEST(MetadataDecode, OfTwoFieldsAlikeTheLastHolds) {
  const Bytes message = Message(kExists, 3,
                                Payload({0x82, 0xa3, 'k', 'e', 'y', 0xa1, 'a',  //
                                         0xa3, 'k', 'e', 'y', 0xa1, 'b'}));
  MetadataHeader header;
  MetadataRequest request;
  ASSERT_OK(DecodeMetadataRequest(message, &header, &request));
  EXPECT_EQ(std::get<KeysRequest>(request).keys, std::vector<std::string_view>{"b"});
}

TEST(MetadataDecode, PassesOverFieldsWhoseNamesAreNoTexts) {
  const Bytes keyed = KeyPayload("k");
  Bytes payload = Payload({0x83, 0x05, 0x91, 0xc0, 0xc3, 0x06});
  payload.insert(payload.end(), keyed.begin() + 1, keyed.end());
  EXPECT_EQ(Refusal(kExists, payload), "");
}

TEST(MetadataDecode, LooksAtNothingThatStorageCarries) {
  for (const Bytes& payload : {Payload({0x91, 0x05}), Payload({0xc1}), Bytes(300)}) {
    EXPECT_EQ(Refusal(0x30, payload), "");
  }
}

TEST(MetadataDecode, RefusesALatencyThatIsNone) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto refusal = [](double latency_us) {
    const Bytes report = EncodeReportStatsRequest(7, {{{"c", "store", "ok", 1, latency_us}}});
    return Refusal(report);
  };
  EXPECT_EQ(refusal(0), "");
  EXPECT_EQ(refusal(2.5), "");
  for (const double wrong : {-1.0, kInfinity, -kInfinity, kInfinity - kInfinity}) {
    EXPECT_NE(refusal(wrong).find("a number from 0 was expected"), std::string::npos) << wrong;
  }
}

TEST(MetadataDecode, TakesNilAndAbsentForOptionalFieldsAndNumbersForLeases) {
  Bytes payload;
  MsgpackWriter out(&payload);
  out.Map(3);
  out.Text("instance_id");
  payload.push_back(std::byte{0xc0});
  out.Text("lease_id");
  out.Number(77);
  out.Text("lease_release");
  out.Number(1);
  const Bytes message = Message(0xF1, 1, payload);
  MetadataHeader header;
  MetadataRequest request;
  ASSERT_OK(DecodeMetadataRequest(message, &header, &request));
  EXPECT_EQ(std::get<HeartbeatRequest>(request), (HeartbeatRequest{"", "77", true}));
  // No payload at all is an empty map.
  ASSERT_OK(DecodeMetadataRequest(Message(0xFE, 1, {}), &header, &request));
  EXPECT_EQ(std::get<HandshakeRequest>(request), HandshakeRequest{});
  EXPECT_EQ(Refusal(kExists, {}), "message type 0x12: key is missing");
}

TEST(MetadataDecode, RefusesHeaders) {
  const Bytes good = Message(kExists, 9, KeyPayload("k"));
  EXPECT_EQ(Refusal(good), "");
  EXPECT_EQ(Refusal(std::span(good).first(15)),
            "a message of 15 bytes is shorter than a header, 16 bytes");
  EXPECT_EQ(Refusal(std::span(good).first(20)), "payload length says 7 bytes, 4 follow the header");
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_EQ(Refusal(longer), "payload length says 7 bytes, 8 follow the header");
  Bytes bad = good;
  bad[0] = std::byte{0xce};
  EXPECT_EQ(Refusal(bad), "magic is 0xce00, expected 0xcf00");
  MetadataHeader header;
  EXPECT_CODE(DecodeMetadataHeader(bad, &header), kDataLoss);
  EXPECT_EQ(header.sequence, 9u) << "known even so, for the answer";
  bad = good;
  bad[2] = std::byte{2};
  EXPECT_EQ(Refusal(bad), "version is 2, expected 1");
  EXPECT_EQ(Refusal(Message(kExists, 1, KeyPayload("k"), kFlagCompressed)),
            "the payload is compressed, which no known client does");
  EXPECT_EQ(Refusal(0x07, KeyPayload("k")), "message type 0x07: no such message type");
  EXPECT_EQ(Refusal(0x90, KeyPayload("k")), "message type 0x90: no such message type");
  EXPECT_EQ(Refusal(Bytes(kMetadataMessageBytesMax + 1)), "magic is 0x0000, expected 0xcf00");
  EXPECT_EQ(Refusal(kExists, Bytes(kMetadataMessageBytesMax)),
            "message has 16777232 bytes, at most 16777216");
}

TEST(MetadataDecode, RefusesPayloadsThatAreNoMap) {
  EXPECT_EQ(Refusal(kExists, Payload({0x07})),
            "message type 0x12: the payload is 7, a map was expected");
  EXPECT_EQ(Refusal(kExists, Payload({0xc1})),
            "message type 0x12: the byte 0xc1 begins no MessagePack item");
  EXPECT_EQ(Refusal(kExists, Payload({0x81, 0x91, 0x05, 0x06})),
            "message type 0x12: an array of 1 is the key of a map, a text was expected");
  EXPECT_EQ(Refusal(kExists, Payload({0x81, 0xa3, 'k', 'e', 'y', 0xa1})),
            "message type 0x12: a text of 1 bytes begins where only 0 bytes are left");
  Bytes trailing = KeyPayload("k");
  trailing.push_back(std::byte{0});
  EXPECT_EQ(Refusal(kExists, trailing), "message type 0x12: 1 bytes follow the map");
  Bytes pairs;
  MsgpackWriter out(&pairs);
  out.Map(kMapPairsMax + 1);
  for (uint32_t i = 0; i <= kMapPairsMax; ++i) {
    out.Text("x");
    out.Number(i);
  }
  EXPECT_EQ(Refusal(kExists, pairs), "message type 0x12: the payload has 257 pairs, at most 256");
}

TEST(MetadataDecode, RefusesCountsThatLie) {
  EXPECT_EQ(Refusal(kBatchExists,
                    Payload({0x81, 0xa4, 'k', 'e', 'y', 's', 0xdd, 0xff, 0xff, 0xff, 0xff})),
            "message type 0x22: an array of 4294967295 items begins where only 0 bytes are left");
  EXPECT_EQ(Refusal(kBatchExists, Payload({0xdf, 0x80, 0, 0, 0})),
            "message type 0x22: a map of 2147483648 items begins where only 0 bytes are left");
  EXPECT_EQ(Refusal(kExists, Payload({0x81, 0xa3, 'k', 'e', 'y', 0xdb, 0xff, 0xff, 0xff, 0xff})),
            "message type 0x12: a text of 4294967295 bytes begins where only 0 bytes are left");
}

TEST(MetadataDecode, RefusesWhatIsBeyondItsLimit) {
  EXPECT_EQ(Refusal(kExists, KeyPayload(std::string(kKeyBytesMax, 'k'))), "");
  EXPECT_EQ(Refusal(kExists, KeyPayload(std::string(kKeyBytesMax + 1, 'k'))),
            "message type 0x12: key has 65537 bytes, at most 65536");
  const auto batch = [](size_t keys) {
    Bytes payload;
    MsgpackWriter out(&payload);
    out.Map(1);
    out.Text("keys");
    out.Array(keys);
    for (size_t i = 0; i < keys; ++i) out.Text("");
    return payload;
  };
  EXPECT_EQ(Refusal(kBatchExists, batch(kBatchItemsMax)), "");
  EXPECT_EQ(Refusal(kBatchExists, batch(kBatchItemsMax + 1)),
            "message type 0x22: keys has 65537 items, at most 65536");
  const auto passed_over = [](uint32_t items) {  // beside a map, two names, an array and the key
    Bytes payload;
    MsgpackWriter out(&payload);
    out.Map(2);
    out.Text("x");
    out.Array(items);
    payload.resize(payload.size() + items, std::byte{0xc0});
    out.Text("key");
    out.Text("k");
    return payload;
  };
  EXPECT_EQ(Refusal(kExists, passed_over(kItemsMax - 5)), "");
  EXPECT_EQ(Refusal(kExists, passed_over(kItemsMax - 4)),
            "message type 0x12: there are more than 1048576 items");
  Bytes deep = Payload({0x81, 0xa1, 'x'});
  deep.resize(deep.size() + kNestingMax, std::byte{0x91});
  Bytes within = deep;
  within.push_back(std::byte{0x90});
  EXPECT_EQ(Refusal(0xF0, std::span(within).first(3 + kNestingMax - 1)),
            "message type 0xf0: an array of 1 items begins where only 0 bytes are left");
  EXPECT_EQ(Refusal(0xF0, within),
            "message type 0xf0: maps and arrays lie more than 32 deep in each other");
}

// Fields are added as time goes by.
TEST(MetadataDecode, TakesTheLargestBatchWithThreeUnknownFieldsAnEntry) {
  Bytes payload;
  MsgpackWriter out(&payload);
  out.Map(1);
  out.Text("entries");
  out.Array(kBatchItemsMax);
  for (uint32_t i = 0; i < kBatchItemsMax; ++i) {
    out.Map(7);
    out.Text("key");
    out.Text(std::to_string(i));
    for (const char* const name : {"region_id", "kv_offset", "kv_length", "x", "y", "z"}) {
      out.Text(name);
      out.Number(i);
    }
  }
  EXPECT_EQ(Refusal(static_cast<uint8_t>(MetadataType::kBatchRegister), payload), "");
}

TEST(MetadataDecode, RefusesNamesThatAreNoUtf8AndTakesSuchKeys) {
  const std::string wrong = "a\xFF";
  const auto refusal = [&](uint8_t type, std::string_view field) {
    Bytes payload;
    MsgpackWriter out(&payload);
    out.Map(3);
    for (const std::string_view name : {"instance_id", "size", "region_id"}) {
      out.Text(name);
      name == "instance_id" ? out.Text("a") : out.Number(1);
    }
    payload[0] = std::byte{0x84};
    out.Text(field);
    out.Text(wrong);
    return Refusal(type, payload);
  };
  const auto expected = [](std::string_view type, std::string_view field) {
    return "message type " + std::string(type) + ": " + std::string(field) +
           " is a text of 2 bytes that is no UTF-8";
  };
  for (const std::string_view field : {"instance_id", "lease_id"}) {
    EXPECT_EQ(refusal(0x01, field), expected("0x01", field));
    EXPECT_EQ(refusal(0xF1, field), expected("0xf1", field));
  }
  EXPECT_EQ(refusal(0x03, "instance_id"), expected("0x03", "instance_id"));
  EXPECT_EQ(refusal(0x04, "exclude_instance_id"), expected("0x04", "exclude_instance_id"));
  EXPECT_EQ(refusal(0xFE, "client_version"), expected("0xfe", "client_version"));
  EXPECT_EQ(refusal(0xFE, "instance_id"), expected("0xfe", "instance_id"));
  for (const std::string_view field : {"client_id", "op_type", "result"}) {
    Bytes payload;
    MsgpackWriter out(&payload);
    out.Map(1);
    out.Text("entries");
    out.Array(1);
    out.Map(3);
    for (const std::string_view name : {"client_id", "op_type", "result"}) {
      out.Text(name);
      out.Text(name == field ? wrong : "\xC3\xA9");
    }
    EXPECT_EQ(Refusal(0xF2, payload), expected("0xf2", "entries[0]." + std::string(field)));
  }
  EXPECT_EQ(Refusal(kExists, KeyPayload(wrong)), "");
}

// 42, "42", -7 and the largest there is are four keys.
TEST(MetadataDecode, KeysMayBeWholeNumbers) {
  const Bytes payload = Payload({0x81, 0xa4, 'k',  'e',  'y',  's',  0x94, 0x2a, 0xa2, '4', '2',
                                 0xf9, 0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
  const Bytes message = Message(kBatchExists, 1, payload);
  MetadataHeader header;
  MetadataRequest decoded;
  ASSERT_TRUE(DecodeMetadataRequest(message, &header, &decoded).ok());
  // The texts stay where they are when the request is moved.
  const MetadataRequest request = std::move(decoded);
  EXPECT_THAT(std::get<KeysRequest>(request).keys, testing::ElementsAre("\xC1"
                                                                        "42",
                                                                        "42", "\xC1-7",
                                                                        "\xC1"
                                                                        "18446744073709551615"));
  // Nothing else may be one.
  EXPECT_EQ(Refusal(0xFE, Payload({0x81, 0xab, 'i', 'n', 's', 't', 'a', 'n', 'c', 'e', '_', 'i',
                                   'd', 0x2a})),
            "message type 0xfe: instance_id is 42, a text was expected");
}

TEST(MetadataDecode, NamesThePlaceInABatch) {
  Bytes payload = Payload({0x81, 0xa4, 'k', 'e', 'y', 's', 0x92, 0xa1, 'k', 0xc3});
  MsgpackWriter out(&payload);
  EXPECT_EQ(Refusal(kBatchExists, payload),
            "message type 0x22: keys[1] is true, a text or a whole number was expected");
  payload.clear();
  out.Map(1);
  out.Text("entries");
  out.Array(1);
  out.Map(1);
  out.Text("key");
  out.Text("k");
  EXPECT_EQ(Refusal(0x20, payload), "message type 0x20: entries[0].region_id is missing");
  payload.clear();
  out.Map(1);
  out.Text("entries");
  out.Array(1);
  out.Text("x");
  EXPECT_EQ(Refusal(0x20, payload),
            "message type 0x20: entries[0] is a text of 1 bytes, a map was expected");
}

TEST(MetadataEncode, RepeatsSequenceAndFlagsAndSetsTheReplyBit) {
  for (const int type : {0x12, 0x14}) {
    const auto number = static_cast<uint8_t>(type);
    const Bytes reply =
        EncodeMetadataReply({number, kFlagUrgent | kFlagBatch, 0xfffffffe}, ExistsReply{true});
    MetadataHeader header;
    ASSERT_OK(DecodeMetadataHeader(reply, &header));
    EXPECT_EQ(header, (MetadataHeader{static_cast<uint8_t>(number | 0x80), 5, 0xfffffffe}));
    EXPECT_TRUE(PayloadOf(reply).Bool("exists"));
  }
}

TEST(MetadataEncode, TellsWhatIsOptionalOnlyWhereItIs) {
  const Bytes bare = EncodeMetadataReply({0xFE, 0, 1}, HandshakeReply{.rm_address = "host:1"});
  EXPECT_EQ(PayloadOf(bare).pairs.size(), 2u);
  const HandshakeReply full{
      "host:1", "0.1.0", {"leases"}, 7, LocalRoad{"/run/s", "name", "boot", "uuid", "ns"}, ""};
  const Bytes message = EncodeMetadataReply({0xFE, 0, 1}, full);
  const Tree tree = PayloadOf(message);
  EXPECT_EQ(tree.pairs.size(), 6u);
  EXPECT_EQ(tree.Number("server_epoch"), 7u);
  EXPECT_EQ(tree.At("capabilities").items.at(0).item.text, "leases");
  EXPECT_EQ(tree.At("maru").Text("namespace"), "ns");
  EXPECT_EQ(tree.At("maru").Text("socket"), "/run/s");
  const Bytes declined = EncodeMetadataReply({0x30, 0, 1}, SuccessReply{false, "not offered"});
  EXPECT_EQ(PayloadOf(declined).Text("error"), "not offered");
  EXPECT_EQ(PayloadOf(EncodeMetadataReply({0x03, 0, 1}, SuccessReply{true, ""})).pairs.size(), 1u);
}

TEST(MetadataEncode, TellsStatisticsAndUsage) {
  StatsReply stats{1,
                   2,
                   3,
                   4,
                   5,
                   {{"_all", {{"retrieve", 9, 4096, 12.5, {{"hit", 8}}}}}},
                   PoolSizes{1 << 30, 1 << 29}};
  const Bytes message = EncodeMetadataReply({0xF0, 0, 1}, stats);
  const Tree tree = PayloadOf(message);
  const Tree& counters =
      tree.At("stats_manager").At("clients").At("_all").At("operations").At("retrieve");
  EXPECT_EQ(counters.Number("count"), 9u);
  EXPECT_EQ(counters.At("total_latency_us").item.real, 12.5);
  EXPECT_EQ(counters.At("results").Number("hit"), 8u);
  EXPECT_EQ(tree.At("cxl_pool").Number("free_size"), uint64_t{1} << 29);
  const UsageReply usage{{{"a", 1, 2, 3, {{"/dev/dax0.0", 2}}}}, {10, 5}};
  const Bytes usage_message = EncodeMetadataReply({0xF3, 0, 1}, usage);
  const Tree instance = PayloadOf(usage_message).At("instances").items.at(0);
  EXPECT_EQ(instance.At("devices").Number("/dev/dax0.0"), 2u);
  const Bytes beat = EncodeMetadataReply({0xF1, 0, 1}, HeartbeatReply{30, false});
  EXPECT_EQ(PayloadOf(beat).At("lease_ttl").item.real, 30);
  EXPECT_FALSE(PayloadOf(beat).Bool("lease_expired"));
}

TEST(MetadataEncode, TellsTextsThatAreNoUtf8InUtf8) {
  const std::string wrong = "a\xFF", told = "a\xEF\xBF\xBD";
  StatsReply stats;
  stats.clients = {{wrong, {{wrong, 1, 2, 3, {{wrong, 1}}}}}};
  const Bytes message = EncodeMetadataReply({0xF0, 0, 1}, stats);
  const Tree tree = PayloadOf(message);
  const Tree& counters = tree.At("stats_manager").At("clients").At(told).At("operations").At(told);
  EXPECT_EQ(counters.At("results").Number(told), 1u);
  const UsageReply usage{{{wrong, 1, 2, 3, {{wrong, 2}}}}, {10, 5}};
  const Bytes usage_message = EncodeMetadataReply({0xF3, 0, 1}, usage);
  const Tree instance = PayloadOf(usage_message).At("instances").items.at(0);
  EXPECT_EQ(instance.Text("instance_id"), told);
  EXPECT_EQ(instance.At("devices").Number(told), 2u);
  const Bytes error = EncodeMetadataReply({0x10, 0, 1}, ErrorReply{wrong});
  EXPECT_EQ(PayloadOf(error).Text("error"), told);
}

TEST(MetadataEncode, AnswersEachTypeWithItsOwnReplyOnly) {
  EXPECT_DEATH(EncodeMetadataReply({0x12, 0, 1}, LookupReply{}), "to a request of type 18");
  EncodeMetadataReply({0x07, 0, 1}, ErrorReply{"no such type"});  // an error answers anything
}

TEST(StatsRequests, WhatAHandlerReportsIsWhatTheServerReads) {
  const ReportStatsRequest told = {
      {{"client", "retrieve", "hit", 4096, 1.5}, {"", "", "", uint64_t{1} << 40, 0}}};
  MetadataHeader header;
  MetadataRequest request;
  const Bytes report = EncodeReportStatsRequest(7, told);
  ASSERT_OK(DecodeMetadataRequest(report, &header, &request));
  EXPECT_EQ(header.type, static_cast<uint8_t>(MetadataType::kReportStats));
  EXPECT_EQ(header.sequence, 7u);
  EXPECT_EQ(std::get<ReportStatsRequest>(request), told);

  const Bytes question = EncodeGetStatsRequest(8);
  ASSERT_OK(DecodeMetadataRequest(question, &header, &request));
  EXPECT_EQ(header.type, static_cast<uint8_t>(MetadataType::kGetStats));
  EXPECT_TRUE(std::holds_alternative<PlainRequest>(request));
}

}  // namespace
}  // namespace maru::wire::compat
