// Asks for memory that will be read soon. A hint: any address will do, nothing happens at one that
// is not mapped.
#pragma once

namespace maru {

// g++ takes a function that only prefetches for one without effect, and removes calls of it that it
// does not inline. The empty statement is an effect.
inline void Prefetch(const void* address) {
  __builtin_prefetch(address);
  asm volatile("" : : "r"(address));
}

}  // namespace maru
