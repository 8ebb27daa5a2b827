#include "pool/pool_image.h"

#include <charconv>
#include <utility>

#include "layout/text.h"
#include "os/machine.h"
#include "os/ofd_lock.h"
#include "pool/pool_file.h"

namespace maru::pool {

Result<PoolImage> PoolImage::Open(const std::string& path) {
  MARU_ASSIGN_OR_RETURN(PoolFile opened, OpenPoolFile(path, os::Access::kRead));
  MARU_ASSIGN_OR_RETURN(os::Mapping mapping,
                        os::Mapping::Map(opened.file, 0, opened.superblock.pool_bytes, {}));
  return PoolImage(std::move(opened.file), std::move(mapping), opened.superblock);
}

PoolImage::PoolImage(os::File file, os::Mapping mapping, const layout::Superblock& superblock)
    : file_(std::move(file)),
      mapping_(std::move(mapping)),
      superblock_(superblock),
      view_(mapping_.data(), mapping_.size()) {}

Result<PoolUse> PoolImage::Use() const {
  MARU_ASSIGN_OR_RETURN(const os::LockState state,
                        os::TestByte(file_.fd(), layout::kServerLivenessOffset));
  return state == os::LockState::kHeld ? PoolUse::kServed : PoolUse::kAtRest;
}

Result<bool> PoolImage::ClientLives(ClientSlot slot) const {
  MARU_ASSIGN_OR_RETURN(const os::LockState state,
                        os::TestByte(file_.fd(), layout::kLivenessOffset + slot.value()));
  return state == os::LockState::kHeld;
}

Result<std::array<uint64_t, 2>> MachineBootId() {
  MARU_ASSIGN_OR_RETURN(const std::string text, os::BootId());
  constexpr size_t kDigits = 16;  // of one word
  std::string digits;
  for (const char c : text) {
    if (c != '-') digits += c;
  }
  std::array<uint64_t, 2> words{};
  for (size_t i = 0; i < words.size(); ++i) {
    const char* first = digits.data() + i * kDigits;
    if (digits.size() != words.size() * kDigits ||
        std::from_chars(first, first + kDigits, words[i], 16).ptr != first + kDigits) {
      return DataLoss(
          layout::Concat("the machine's boot id is ", layout::Quoted{text}, ", not 32 hex digits"));
    }
  }
  return words;
}

}  // namespace maru::pool
