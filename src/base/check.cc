#include "base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace maru {
namespace {

// Released by SetCheckHandler, acquired by FailCheck: what the handler needs is set up before.
std::atomic<CheckHandler> current_handler{nullptr};

}  // namespace

std::string CheckFailure::ToString() const {
  std::string text(file);
  text += ':';
  text += std::to_string(line);
  text += ": check failed: ";
  text += condition;
  if (!message.empty()) text.append(" (").append(message).append(")");
  return text;
}

CheckHandler SetCheckHandler(CheckHandler handler) {
  return current_handler.exchange(handler, std::memory_order_acq_rel);
}

void FailCheck(const CheckFailure& failure) {
  if (const CheckHandler handler = current_handler.load(std::memory_order_acquire)) {
    handler(failure);
  } else {
    std::string text = failure.ToString();
    text += '\n';
    std::fputs(text.c_str(), stderr);
  }
  std::abort();
}

void internal::CheckMessage::AppendPointer(std::string& out, const void* pointer) {
  char text[2 + 2 * sizeof(void*) + 1];
  std::snprintf(text, sizeof(text), "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(pointer)));
  out += text;
}

}  // namespace maru
