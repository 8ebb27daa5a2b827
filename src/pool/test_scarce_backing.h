// For tests: plain memory on a machine that is short of it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "pool/memory_backing.h"

namespace maru::pool {

// Outlives the pools that are opened on it, as the machine does.
struct Scarcity {
  uint64_t units_left = ~uint64_t{0};
  std::set<uint64_t> backed;  // units
};

class ScarceBacking final : public Backing {
 public:
  ScarceBacking(std::shared_ptr<PlainMemory> memory, Scarcity* scarcity,
                std::string name = "scarce")
      : memory_(std::move(memory)), scarcity_(scarcity), name_(std::move(name)) {}
  std::byte* base() override { return memory_->base(); }
  uint64_t bytes() const override { return memory_->bytes(); }
  Status Reserve(uint64_t offset_bytes, uint64_t length_bytes, os::PageHint) override {
    std::set<uint64_t> fresh;
    for (uint64_t at = offset_bytes; at < offset_bytes + length_bytes; at += layout::kUnitBytes) {
      if (!scarcity_->backed.contains(at / layout::kUnitBytes)) {
        fresh.insert(at / layout::kUnitBytes);
      }
    }
    if (fresh.size() > scarcity_->units_left) return ResourceExhausted("no memory left");
    scarcity_->units_left -= fresh.size();
    scarcity_->backed.merge(fresh);
    return OkStatus();
  }
  Result<bool> ReserveNew(uint64_t offset_bytes, uint64_t length_bytes) override {
    const size_t before = scarcity_->backed.size();
    MARU_RETURN_IF_ERROR(Reserve(offset_bytes, length_bytes, os::PageHint::kDefault));
    return scarcity_->backed.size() > before;
  }
  Status Discard(uint64_t offset_bytes, uint64_t length_bytes) override {
    for (uint64_t at = offset_bytes; at < offset_bytes + length_bytes; at += layout::kUnitBytes) {
      scarcity_->units_left += scarcity_->backed.erase(at / layout::kUnitBytes);
    }
    return OkStatus();
  }
  std::string name() const override { return name_; }

 private:
  std::shared_ptr<PlainMemory> memory_;
  Scarcity* const scarcity_;
  const std::string name_;
};

}  // namespace maru::pool
