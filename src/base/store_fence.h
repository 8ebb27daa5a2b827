// Orders stores to memory that others read, non-temporal ones among them.
#pragma once

namespace maru {

// Every store of this thread before it, whatever its kind, can be seen before any store after it.
//
// On x86 neither a release store nor std::atomic_thread_fence is promised to wait for non-temporal
// stores (movnti, AVX streaming copies): they stand outside the machine's usual order until sfence.
// So this is an instruction and no fence of C++; among atomics it orders nothing that a release
// store does not, and no rule of docs/memory_model.md rests on it but that of a page's bytes.
inline void StoreFence() {
#if defined(__x86_64__) || defined(__i386__)
  asm volatile("sfence" : : : "memory");
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("dmb ishst" : : : "memory");
#else
#error "which instruction orders plain and non-temporal stores on this processor?"
#endif
}

}  // namespace maru
