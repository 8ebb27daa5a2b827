#include "layout/state_word.h"

namespace maru::layout {

bool StateWord::Valid() const {
  constexpr uint64_t kReservedMask = ((1ull << kReservedBits) - 1) << kClientBits;
  const auto number = static_cast<uint8_t>(state());
  if (number > kPageStateLast || (bits_ & kReservedMask) != 0) return false;
  if (generation().value() > kGenerationMax) return false;
  if (state() != PageState::kAbsent && generation().value() == 0) return false;
  return client().value() < (state() == PageState::kGranted ? kClientSlots : 1);
}

}  // namespace maru::layout
