// What the processes of the stress test share beside the pool: a board of counters in memory that
// outlives any of them, and what the bytes of a key have to be.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/random.h"

namespace maru::stress {

inline constexpr uint64_t kKeys = 2048;
inline constexpr uint64_t kPageBytes = 512;
inline constexpr uint64_t kWordsMin = 4;

// Relaxed all over: numbers that stand beside each other, read for good when their writers are
// gone.
struct Board {
  std::atomic<uint64_t> stores;         // numbers of stores that were given out
  std::atomic<uint64_t> verified;       // views whose every byte was right when they were taken
  std::atomic<uint64_t> verified_late;  // and again after they were held for a while
  std::atomic<uint64_t> missed;         // keys that were not there
  std::atomic<uint64_t> pinned;
  std::atomic<uint64_t> deleted;
  std::atomic<uint64_t> stored;
  std::atomic<uint64_t> duplicates;
  std::atomic<uint64_t> stop_reading;
  std::atomic<uint64_t> stop_writing;
};

inline void Count(std::atomic<uint64_t>& counter, uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}
inline uint64_t Get(const std::atomic<uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

inline std::string KeyOf(uint64_t number) { return "prompt-" + std::to_string(number); }

// The bytes of one store of a key: its number, then words that follow from both. Stores differ in
// length as well.
inline uint64_t WordsOf(uint64_t store) {
  return kWordsMin + store % (kPageBytes / 8 - kWordsMin + 1);
}
inline uint64_t StateOf(uint64_t key, uint64_t store) { return key << 40 ^ store; }

inline uint64_t Fill(uint64_t key, uint64_t store, uint64_t* words) {
  uint64_t state = StateOf(key, store);
  const uint64_t count = WordsOf(store);
  words[0] = store;
  for (uint64_t i = 1; i < count; ++i) words[i] = SplitMix64(state);
  return count * 8;
}

// What is wrong with the bytes of a key; empty: nothing.
inline std::string Judge(uint64_t key, std::span<const std::byte> bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(bytes.data());
  const uint64_t store = bytes.size() < 8 ? 0 : words[0];
  if (store == 0 || bytes.size() != WordsOf(store) * 8) {
    return std::to_string(bytes.size()) + " bytes that begin with " + std::to_string(store);
  }
  uint64_t state = StateOf(key, store);
  for (uint64_t i = 1; i < bytes.size() / 8; ++i) {
    if (words[i] != SplitMix64(state)) {
      return "word " + std::to_string(i) + " of store " + std::to_string(store) + " is another";
    }
  }
  return "";
}

// The program's roles in a process of their own; what went wrong, empty when nothing did.
// `progress`: a descriptor that gets a byte for each `reads_per_byte` verified reads.
struct Role {
  std::string socket;
  uint64_t seed = 0;
  Board* board = nullptr;
  int progress = -1;
  uint64_t reads_per_byte = 1;
};
std::string RunReader(const Role& role);
std::string RunWriter(const Role& role);

}  // namespace maru::stress
