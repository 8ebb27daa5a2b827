#include "catalogue/key.h"

#include "base/bytes.h"
#include "base/check.h"
#include "layout/geometry.h"

namespace maru::catalogue {

namespace {

Status CheckLength(std::string_view what, std::size_t length, std::size_t limit) {
  if (length <= limit) [[likely]]
    return OkStatus();
  return InvalidArgument(std::string(what) + " has " + std::to_string(length) +
                         " bytes, the limit is " + std::to_string(limit));
}

}  // namespace

Namespace::Namespace(std::string_view text)
    : text_(text), seed_(text.empty() ? 0 : HashBytes64(AsBytes(text))) {}

KeyRef MakeKeyRef(const Namespace& name_space, std::string_view key) {
  MARU_DCHECK_LE(key.size(), layout::kKeyBytesMax);
  MARU_DCHECK_LE(name_space.text().size(), layout::kNamespaceBytesMax);
  return {name_space.text(), key, HashBytes128(AsBytes(key), name_space.seed())};
}

Status CheckKey(std::string_view key) {
  return CheckLength("the key", key.size(), layout::kKeyBytesMax);
}

Status CheckNamespace(std::string_view text) {
  return CheckLength("the namespace", text.size(), layout::kNamespaceBytesMax);
}

}  // namespace maru::catalogue
