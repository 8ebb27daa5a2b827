#include "os/secret_file.h"

#include <sys/random.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"
#include "os/errno_status.h"
#include "os/file.h"

namespace maru::os {
namespace {

Result<std::vector<std::byte>> Load(const std::string& path, std::size_t key_bytes) {
  MARU_ASSIGN_OR_RETURN(const File file, File::Open(path, Access::kRead));
  MARU_ASSIGN_OR_RETURN(const FileFacts facts, file.Facts());
  if ((facts.mode & ~kModeOwner) != 0 || facts.uid != ::geteuid()) {
    return PermissionDenied("key file " + path +
                            " is not this user's alone; chown and chmod 600 it, or remove it to "
                            "have a new one made");
  }
  if (facts.size_bytes != key_bytes) {
    return DataLoss("key file " + path + " has " + std::to_string(facts.size_bytes) +
                    " bytes, expected " + std::to_string(key_bytes) +
                    "; remove it to have a new one made");
  }
  std::vector<std::byte> key(key_bytes);
  MARU_RETURN_IF_ERROR(file.ReadExactlyAt(key, 0));
  return key;
}

// The file appears under its name when it is whole: a link to a finished one beside it, which fails
// when another process was first.
Status Make(const std::string& path, std::size_t key_bytes) {
  std::vector<std::byte> key(key_bytes);
  const ssize_t drawn = RetryInterrupted([&] { return ::getrandom(key.data(), key.size(), 0); });
  if (drawn < 0) return ErrnoStatus(errno, "draw random bytes", "");
  MARU_CHECK_EQ(static_cast<std::size_t>(drawn), key.size());  // so few come at once
  const std::string part = path + "." + std::to_string(::getpid());
  Status stale = RemoveFile(part);  // of a process of this id that was killed here
  if (!stale.ok() && stale.code() != StatusCode::kNotFound) return stale;
  MARU_ASSIGN_OR_RETURN(const File file, File::Create(part));
  Status made = file.WriteAt(key, 0);
  if (made.ok()) made = file.Sync();
  if (made.ok() && ::link(part.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    made = ErrnoStatus(errno, "create", path);
  }
  Status removed = RemoveFile(part);
  return made.ok() ? removed : made;
}

}  // namespace

Result<std::vector<std::byte>> LoadOrMakeSecret(const std::string& path, std::size_t key_bytes) {
  MARU_CHECK(key_bytes > 0 && key_bytes <= kSecretBytesMax);
  Result<std::vector<std::byte>> key = Load(path, key_bytes);
  if (key.ok() || key.status().code() != StatusCode::kNotFound) return key;
  MARU_RETURN_IF_ERROR(Make(path, key_bytes));
  return Load(path, key_bytes);
}

}  // namespace maru::os
