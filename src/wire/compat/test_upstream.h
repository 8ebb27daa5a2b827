// What tests of upstream's protocols share: any MessagePack as a tree, and messages made by hand.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/compat/metadata.h"
#include "wire/compat/msgpack_reader.h"
#include "wire/compat/msgpack_writer.h"

namespace maru::wire::compat {

using Bytes = std::vector<std::byte>;

struct NamedTree;

struct Tree {
  MsgpackItem item;
  std::vector<NamedTree> pairs;
  std::vector<Tree> items;

  const Tree& At(std::string_view name) const;
  uint64_t Number(std::string_view name) const;
  bool Bool(std::string_view name) const;
  std::string Text(std::string_view name) const;
};

struct NamedTree {
  std::string name;
  Tree value;
};

inline const Tree& Tree::At(std::string_view name) const {
  for (const NamedTree& pair : pairs) {
    if (pair.name == name) return pair.value;
  }
  ADD_FAILURE() << "no field " << name;
  static const Tree kNone;
  return kNone;
}
inline uint64_t Tree::Number(std::string_view name) const {
  EXPECT_EQ(At(name).item.kind, MsgpackKind::kUnsigned) << name;
  return At(name).item.number;
}
inline bool Tree::Bool(std::string_view name) const {
  EXPECT_EQ(At(name).item.kind, MsgpackKind::kBool) << name;
  return At(name).item.number == 1;
}
inline std::string Tree::Text(std::string_view name) const {
  EXPECT_EQ(At(name).item.kind, MsgpackKind::kText) << name;
  return std::string(At(name).item.text);
}

inline Tree ReadTree(MsgpackReader& reader) {
  Tree tree;
  EXPECT_TRUE(reader.Next(&tree.item)) << reader.error();
  if (!reader.error().empty()) return tree;
  if (tree.item.kind == MsgpackKind::kMap) {
    for (uint64_t i = 0; i < tree.item.number; ++i) {
      MsgpackItem key;
      EXPECT_TRUE(reader.Next(&key)) << reader.error();
      std::string name(key.text);
      tree.pairs.push_back({std::move(name), ReadTree(reader)});
    }
  } else if (tree.item.kind == MsgpackKind::kArray) {
    for (uint64_t i = 0; i < tree.item.number; ++i) tree.items.push_back(ReadTree(reader));
  }
  return tree;
}

// The payload of a message.
inline Tree PayloadOf(std::span<const std::byte> message) {
  MsgpackReader reader(message.subspan(kMetadataHeaderBytes));
  Tree tree = ReadTree(reader);
  EXPECT_EQ(reader.bytes_left(), 0u);
  return tree;
}

inline Bytes Message(uint8_t type, uint32_t sequence, std::span<const std::byte> payload,
                     uint8_t flags = 0) {
  const auto size = static_cast<uint32_t>(payload.size());
  Bytes message;
  for (const uint32_t byte : {0xCFu, 0x00u, 0x01u, uint32_t{type}, uint32_t{flags}, 0u, 0u, 0u}) {
    message.push_back(static_cast<std::byte>(byte));
  }
  for (const uint32_t number : {sequence, size}) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      message.push_back(static_cast<std::byte>(number >> shift));
    }
  }
  message.insert(message.end(), payload.begin(), payload.end());
  return message;
}

// Of {"key": key}.
inline Bytes KeyPayload(std::string_view key) {
  Bytes payload;
  MsgpackWriter out(&payload);
  out.Map(1);
  out.Text("key");
  out.Text(key);
  return payload;
}

}  // namespace maru::wire::compat
