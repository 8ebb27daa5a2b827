#include "layout/page_record.h"

namespace maru::layout {

bool KeySizes::Valid(uint64_t bits) {
  const KeySizes sizes = Unpack(bits);
  return sizes.Pack() == bits && sizes.key_bytes <= kKeyBytesMax &&
         sizes.namespace_bytes <= kNamespaceBytesMax;
}

}  // namespace maru::layout
