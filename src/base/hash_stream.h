// XXH3 over bytes that come a part at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace maru {

// HashBytes64 of bytes that come a part at a time.
class HashStream64 {
 public:
  HashStream64();
  ~HashStream64();
  HashStream64(const HashStream64&) = delete;
  HashStream64& operator=(const HashStream64&) = delete;

  void Begin();
  void Add(std::span<const std::byte> bytes);
  std::uint64_t Sum() const;  // of what was added since Begin

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace maru
