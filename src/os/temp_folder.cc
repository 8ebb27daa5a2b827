#include "os/temp_folder.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "os/errno_status.h"

namespace maru::os {

TempFolder::TempFolder(std::string path) : path_(std::move(path)), owner_pid_(::getpid()) {}

TempFolder::TempFolder(TempFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), owner_pid_(other.owner_pid_) {}

TempFolder::~TempFolder() {
  if (path_.empty() || owner_pid_ != ::getpid()) return;
  std::error_code ignored;  // what cannot be removed stays for the system's own cleaning
  std::filesystem::remove_all(path_, ignored);
}

Result<TempFolder> TempFolder::Create(const std::string& parent) {
  std::string path = parent;
  if (path.empty()) {
    // Read before threads that would change the environment: a demo's or a test's beginning.
    const char* const set = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
    path = set != nullptr && *set != '\0' ? set : "/tmp";
  }
  path += "/maru-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "make the folder", path);
  return TempFolder(std::move(path));
}

}  // namespace maru::os
