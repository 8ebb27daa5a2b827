#include "catalogue/text_slabs.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "catalogue/publication_points.h"

namespace maru::catalogue {

namespace {
constexpr uint32_t Words(uint32_t text_class) { return (TextBlocks(text_class) + 63) / 64; }
}  // namespace

void TextSlabs::AddRegion(uint64_t offset_bytes, uint64_t length_bytes) {
  for (uint64_t at = 0; at < length_bytes; at += layout::kUnitBytes) {
    const uint64_t unit = (offset_bytes + at) / layout::kUnitBytes;
    const auto first = static_cast<uint32_t>(slabs_.size());
    MARU_CHECK(unit_slab_.emplace(unit, first).second) << "text unit " << unit << " twice";
    for (uint64_t i = 0; i < kSlabsPerUnit; ++i) {
      slabs_.emplace_back().unit = static_cast<uint32_t>(unit);
    }
    // Popped from the end: the lowest slab of a unit is used first.
    for (uint64_t i = kSlabsPerUnit; i > 0; --i) {
      empty_.push_back(first + static_cast<uint32_t>(i - 1));
    }
  }
}

TextSlabs::Block TextSlabs::Find(uint64_t offset_bytes, uint32_t text_class) const {
  const auto unit = unit_slab_.find(offset_bytes / layout::kUnitBytes);
  if (unit == unit_slab_.end()) return {};
  const uint64_t in_unit = offset_bytes % layout::kUnitBytes;
  const uint64_t in_slab = in_unit % layout::kTextSlabBytes;
  const uint32_t block_bytes = kTextClassBytes[text_class];
  if (in_slab % block_bytes != 0 || in_slab / block_bytes >= TextBlocks(text_class)) return {};
  return {unit->second + static_cast<uint32_t>(in_unit / layout::kTextSlabBytes),
          static_cast<uint32_t>(in_slab / block_bytes)};
}

uint64_t TextSlabs::Offset(uint32_t slab, uint32_t index) const {
  return slabs_[slab].unit * layout::kUnitBytes + slab % kSlabsPerUnit * layout::kTextSlabBytes +
         uint64_t{index} * kTextClassBytes[slabs_[slab].size_class];
}

void TextSlabs::Assign(Slab& slab, uint32_t text_class) {
  slab.size_class = static_cast<uint8_t>(text_class);
  slab.used_bits = std::make_unique<uint64_t[]>(Words(text_class));
  slab.first_word = 0;
  bits_bytes_ += Words(text_class) * sizeof(uint64_t);
}

Status TextSlabs::Adopt(uint64_t offset_bytes, uint64_t text_bytes) {
  if (text_bytes > kTextBytesMax) {
    return DataLoss("a text of " + std::to_string(text_bytes) + " bytes");
  }
  const uint32_t text_class = TextClass(text_bytes);
  const Block block = Find(offset_bytes, text_class);
  if (block.slab == kNowhere) {
    return DataLoss("no text of " + std::to_string(text_bytes) + " bytes can lie at " +
                    std::to_string(offset_bytes));
  }
  Slab& slab = slabs_[block.slab];
  if (slab.size_class == kNoClass) Assign(slab, text_class);
  if (slab.size_class != text_class) {
    return DataLoss("the text at " + std::to_string(offset_bytes) + " has " +
                    std::to_string(text_bytes) + " bytes, its slab holds texts up to " +
                    std::to_string(kTextClassBytes[slab.size_class]));
  }
  if (Used(slab, block.index)) {
    return DataLoss("the text at " + std::to_string(offset_bytes) + " belongs to two records");
  }
  slab.used_bits[block.index / 64] |= uint64_t{1} << (block.index % 64);
  ++slab.used;
  used_bytes_ += kTextClassBytes[text_class];
  return OkStatus();
}

void TextSlabs::Settle() {
  empty_.clear();
  for (uint32_t i = static_cast<uint32_t>(slabs_.size()); i > 0; --i) {
    Slab& slab = slabs_[i - 1];
    if (slab.used == 0) {
      MARU_CHECK_EQ(slab.size_class, kNoClass);
      empty_.push_back(i - 1);
    } else if (slab.used < TextBlocks(slab.size_class)) {
      AddPartial(i - 1);
    }
  }
}

void TextSlabs::AddPartial(uint32_t slab) {
  std::vector<uint32_t>& list = partial_[slabs_[slab].size_class];
  slabs_[slab].partial_at = static_cast<uint32_t>(list.size());
  list.push_back(slab);
}

void TextSlabs::RemovePartial(uint32_t slab) {
  std::vector<uint32_t>& list = partial_[slabs_[slab].size_class];
  const uint32_t at = slabs_[slab].partial_at;
  MARU_CHECK_LT(at, list.size());
  list[at] = list.back();
  slabs_[list[at]].partial_at = at;
  list.pop_back();
  slabs_[slab].partial_at = kNowhere;
}

Result<uint32_t> TextSlabs::FreshSlab(uint32_t text_class) {
  if (empty_.empty()) {
    MARU_ASSIGN_OR_RETURN(const SpaceSource::Room room,
                          space_->Carve(layout::RegionKind::kText, layout::kUnitBytes));
    MARU_CHECK_EQ(room.length_bytes, layout::kUnitBytes);
    AddRegion(room.offset_bytes, room.length_bytes);
    MARU_PUBLICATION_POINT(points::kTextCarved);
  }
  const uint32_t slab = empty_.back();
  empty_.pop_back();
  Assign(slabs_[slab], text_class);
  AddPartial(slab);
  return slab;
}

Result<uint64_t> TextSlabs::Allocate(uint64_t text_bytes) {
  MARU_CHECK_LE(text_bytes, kTextBytesMax);
  const uint32_t text_class = TextClass(text_bytes);
  uint32_t at = 0;
  if (partial_[text_class].empty()) {
    MARU_ASSIGN_OR_RETURN(at, FreshSlab(text_class));
  } else {
    at = partial_[text_class].back();
  }
  Slab& slab = slabs_[at];
  const uint32_t blocks = TextBlocks(text_class);
  MARU_CHECK_LT(slab.used, blocks);
  while (slab.used_bits[slab.first_word] == ~uint64_t{0}) ++slab.first_word;
  const uint32_t index = slab.first_word * 64u +
                         static_cast<uint32_t>(std::countr_one(slab.used_bits[slab.first_word]));
  MARU_CHECK_LT(index, blocks);
  slab.used_bits[index / 64] |= uint64_t{1} << (index % 64);
  if (++slab.used == blocks) RemovePartial(at);
  used_bytes_ += kTextClassBytes[text_class];
  return Offset(at, index);
}

void TextSlabs::Free(uint64_t offset_bytes, uint64_t text_bytes) {
  const uint32_t text_class = TextClass(text_bytes);
  const Block block = Find(offset_bytes, text_class);
  MARU_CHECK_NE(block.slab, kNowhere) << "text at " << offset_bytes;
  Slab& slab = slabs_[block.slab];
  MARU_CHECK_EQ(slab.size_class, text_class);
  MARU_CHECK(Used(slab, block.index)) << "text at " << offset_bytes << " freed twice";
  const uint32_t word = block.index / 64;
  slab.used_bits[word] &= ~(uint64_t{1} << (block.index % 64));
  if (word < slab.first_word) slab.first_word = static_cast<uint16_t>(word);
  if (slab.used-- == TextBlocks(text_class) && !slab.closed) AddPartial(block.slab);
  used_bytes_ -= kTextClassBytes[text_class];
  if (slab.used > 0) return;
  if (!slab.closed) RemovePartial(block.slab);
  slab.closed = false;
  slab.used_bits.reset();
  slab.size_class = kNoClass;
  bits_bytes_ -= Words(text_class) * sizeof(uint64_t);
  empty_.push_back(block.slab);
}

bool TextSlabs::Fits(uint64_t text_bytes) const {
  return !empty_.empty() || !partial_[TextClass(text_bytes)].empty();
}

std::vector<uint64_t> TextSlabs::Sparsest(size_t count_max) const {
  std::vector<uint32_t> slabs;
  for (uint32_t i = 0; i < slabs_.size(); ++i) {
    if (slabs_[i].used > 0) slabs.push_back(i);
  }
  const size_t count = std::min(count_max, slabs.size());
  std::ranges::partial_sort(slabs, slabs.begin() + static_cast<ptrdiff_t>(count), {},
                            [this](uint32_t slab) { return slabs_[slab].used; });
  std::vector<uint64_t> offsets;
  for (size_t i = 0; i < count; ++i) offsets.push_back(Offset(slabs[i], 0));
  return offsets;
}

TextSlabs::Slab& TextSlabs::At(uint64_t slab_offset_bytes) {
  const auto unit = unit_slab_.find(slab_offset_bytes / layout::kUnitBytes);
  MARU_CHECK(unit != unit_slab_.end()) << "no text at " << slab_offset_bytes;
  return slabs_[unit->second + slab_offset_bytes % layout::kUnitBytes / layout::kTextSlabBytes];
}

void TextSlabs::Close(uint64_t slab_offset_bytes) {
  Slab& slab = At(slab_offset_bytes);
  MARU_CHECK(slab.used > 0 && !slab.closed);
  if (slab.used < TextBlocks(slab.size_class)) {
    RemovePartial(static_cast<uint32_t>(&slab - slabs_.data()));
  }
  slab.closed = true;
}

void TextSlabs::Open(uint64_t slab_offset_bytes) {
  Slab& slab = At(slab_offset_bytes);
  if (!slab.closed) return;
  slab.closed = false;
  if (slab.used < TextBlocks(slab.size_class)) {
    AddPartial(static_cast<uint32_t>(&slab - slabs_.data()));
  }
}

bool TextSlabs::Holds(uint64_t offset_bytes, uint64_t text_bytes) const {
  if (text_bytes > kTextBytesMax) return false;
  const uint32_t text_class = TextClass(text_bytes);
  const Block block = Find(offset_bytes, text_class);
  if (block.slab == kNowhere) return false;
  const Slab& slab = slabs_[block.slab];
  return slab.size_class == text_class && Used(slab, block.index);
}

uint64_t TextSlabs::heap_bytes() const {
  constexpr uint64_t kMapNodeBytes = 32, kMallocBytes = 16;
  uint64_t bytes = sizeof(*this) + slabs_.capacity() * sizeof(Slab) + bits_bytes_ +
                   unit_slab_.size() * (kMapNodeBytes + sizeof(void*)) +
                   empty_.capacity() * sizeof(uint32_t);
  for (const std::vector<uint32_t>& list : partial_) bytes += list.capacity() * sizeof(uint32_t);
  for (const Slab& slab : slabs_) bytes += slab.used_bits != nullptr ? kMallocBytes : 0;
  return bytes;
}

}  // namespace maru::catalogue
