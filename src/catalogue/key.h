// A key as the catalogue sees it: namespace, key and their hash. The text that is stored is the
// namespace followed by the key; the sizes in the record tell them apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "maru/status.h"

namespace maru::catalogue {

// A namespace with its hash seed, made once for each client. The seed depends on the text alone, so
// a key hashes the same in every pool.
class Namespace {
 public:
  Namespace() : Namespace(std::string_view{}) {}
  explicit Namespace(std::string_view text);
  std::string_view text() const { return text_; }
  uint64_t seed() const { return seed_; }

 private:
  std::string text_;
  uint64_t seed_ = 0;
};

// Does not own its texts.
struct KeyRef {
  std::string_view name_space;
  std::string_view key;
  Hash128 hash;
};

// XXH3 (128 bits) of the key, seeded by the namespace. REQUIRES: sizes within CheckKey.
KeyRef MakeKeyRef(const Namespace& name_space, std::string_view key);

// Keys are opaque bytes, 0 to 65,536 of them. InvalidArgument names the length and the limit.
Status CheckKey(std::string_view key);
Status CheckNamespace(std::string_view text);

}  // namespace maru::catalogue
