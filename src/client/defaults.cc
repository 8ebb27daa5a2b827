#include "client/defaults.h"

#include <cstdlib>

#include "catalogue/key.h"
#include "layout/geometry.h"
#include "os/machine.h"
#include "os/process.h"

namespace maru::client {

namespace {
constexpr uint32_t kTimeoutMsMax = 3'600'000;
constexpr uint64_t kPageBytesMax = 1ull << 40;
}  // namespace

std::string DefaultSocketPath() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): as safe as whoever changes the environment makes it.
  const char* const named = std::getenv("MARU_SOCKET");
  if (named != nullptr && named[0] != '\0') return named;
  return "/tmp/maru-" + std::to_string(os::UserId()) + ".sock";
}

Result<std::optional<uint32_t>> TrustedServerUser(const ClientOptions& options) {
  std::string user = options.server_user;
  if (user.empty()) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): as above.
    const char* const named = std::getenv("MARU_SERVER_USER");
    if (named == nullptr || named[0] == '\0') return std::optional<uint32_t>();
    user = named;
  }
  MARU_ASSIGN_OR_RETURN(const uint32_t uid, os::FindUser(user));
  return std::optional<uint32_t>(uid);
}

std::string DefaultLabel() {
  const std::string label = os::HostName() + ":" + std::to_string(os::ProcessId());
  return label.substr(0, layout::kLabelBytes - 1);
}

Status CheckOptions(const ClientOptions& options) {
  if (options.label.size() >= layout::kLabelBytes) {
    return InvalidArgument("label of " + std::to_string(options.label.size()) + " bytes: at most " +
                           std::to_string(layout::kLabelBytes - 1));
  }
  MARU_RETURN_IF_ERROR(catalogue::CheckNamespace(options.name_space));
  if (options.page_bytes < layout::kPageBytesMin || options.page_bytes > kPageBytesMax) {
    return InvalidArgument("page_bytes " + std::to_string(options.page_bytes) + ": " +
                           std::to_string(layout::kPageBytesMin) + " to " +
                           std::to_string(kPageBytesMax) + " are possible");
  }
  if (options.budget_bytes != 0 && options.budget_bytes < options.page_bytes) {
    return InvalidArgument("budget_bytes " + std::to_string(options.budget_bytes) +
                           " is less than one page of " + std::to_string(options.page_bytes));
  }
  if (options.timeout_ms == 0 || options.timeout_ms > kTimeoutMsMax) {
    return InvalidArgument("timeout_ms " + std::to_string(options.timeout_ms) + ": 1 to " +
                           std::to_string(kTimeoutMsMax) + " are possible");
  }
  return OkStatus();
}

}  // namespace maru::client
