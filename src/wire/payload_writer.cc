#include "wire/payload_writer.h"

#include "layout/text.h"

namespace maru::wire {

using layout::Concat;

void PayloadWriter::Fail(std::string text) {
  if (error_.empty()) error_ = std::move(text);
}

void PayloadWriter::FailValue(const char* name, uint64_t value, uint64_t min, uint64_t max) {
  Fail(Concat(name, " is ", value, ", expected ", min, " to ", max));
}

void PayloadWriter::FailLength(const char* name, uint64_t bytes, uint64_t max) {
  Fail(Concat(name, " has ", bytes, " bytes, at most ", max));
}

void PayloadWriter::FailCount(const char* name, uint64_t count, uint64_t max) {
  Fail(Concat(name, " has ", count, " items, at most ", max));
}

void PayloadWriter::FailBlock(const char* name, uint64_t offset_bytes) {
  Fail(Concat(name, " at offset ", offset_bytes, " is no lease block"));
}

}  // namespace maru::wire
