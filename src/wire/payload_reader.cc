#include "wire/payload_reader.h"

#include "layout/text.h"

namespace maru::wire {

using layout::Concat;

void PayloadReader::Fail(const char* name, std::string_view what) {
  left_ = 0;  // nothing more is read
  if (!error_.empty()) return;
  std::string path;
  for (const Level* level = level_; level != nullptr; level = level->outer) {
    path.insert(0, Concat(level->name, "[", level->index, "]."));
  }
  error_ = Concat(path, name, what);
}

void PayloadReader::FailShort(const char* name, size_t bytes) {
  Fail(name, Concat(" takes ", bytes, " bytes, only ", left_, " are left"));
}

void PayloadReader::FailValue(const char* name, uint64_t value, uint64_t min, uint64_t max) {
  Fail(name, Concat(" is ", value, ", expected ", min, " to ", max));
}

void PayloadReader::FailPool(const char* name, uint32_t pool) {
  Fail(name, Concat(" is in pool ", pool, ", expected 0 to ", layout::kPoolsMax - 1));
}

void PayloadReader::FailLength(const char* name, uint64_t bytes, uint64_t max) {
  Fail(name, Concat(" has ", bytes, " bytes, at most ", max));
}

void PayloadReader::FailCount(const char* name, uint64_t count, uint64_t max) {
  Fail(name, Concat(" has ", count, " items, at most ", max));
}

void PayloadReader::FailShortList(const char* name, uint64_t count, uint64_t item_bytes) {
  Fail(name, Concat(" has ", count, " items of ", item_bytes, " bytes or more, only ", left_,
                    " bytes are left"));
}

void PayloadReader::FailTrailing() {
  if (error_.empty()) error_ = Concat(left_, " bytes follow the last field");
}

}  // namespace maru::wire
