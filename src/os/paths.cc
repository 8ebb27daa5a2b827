// What os/file.h does by path.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <memory>

#include "base/bytes.h"
#include "os/errno_status.h"
#include "os/file.h"
#include "os/open_at_once.h"

namespace maru::os {

Result<std::string> AbsolutePath(const std::string& path) {
  if (path.starts_with('/')) return path;
  std::array<char, PATH_MAX> folder{};
  if (::getcwd(folder.data(), folder.size()) == nullptr) {
    return ErrnoStatus(errno, "read the working directory", "");
  }
  return std::string(folder.data()) + "/" + path;
}

Result<std::uint64_t> FreeSpaceBytes(const std::string& path) {
  struct statvfs facts{};
  if (RetryInterrupted([&] { return ::statvfs(path.c_str(), &facts); }) != 0) {
    return ErrnoStatus(errno, "read the free space of", path);
  }
  return static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
}

Status RemoveFile(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return ErrnoStatus(errno, "remove", path);
  return OkStatus();
}

Status RenameFile(const std::string& from, const std::string& to, WhenThere when_there) {
  const unsigned flags = when_there == WhenThere::kRefuse ? RENAME_NOREPLACE : 0;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) != 0) {
    return ErrnoStatus(errno, "rename", from + " to " + to);
  }
  return OkStatus();
}

Status MakeDirectory(const std::string& path, std::uint32_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) return OkStatus();
  if (errno == EEXIST) {
    const Result<PathKind> kind = KindOf(path);
    if (kind.ok() && *kind == PathKind::kDirectory) return OkStatus();
    errno = EEXIST;
  }
  return ErrnoStatus(errno, "make the folder", path);
}

Result<std::vector<std::string>> ListDirectory(const std::string& path, std::size_t names_max) {
  struct Closer {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  const std::unique_ptr<DIR, Closer> folder(::opendir(path.c_str()));
  if (folder == nullptr) return ErrnoStatus(errno, "list", path);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    // Safe: the stream is this call's own.
    const dirent* entry = ::readdir(folder.get());  // NOLINT(concurrency-mt-unsafe)
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == names_max) {
      return ResourceExhausted(path + " holds more than " + std::to_string(names_max) + " names");
    }
    names.emplace_back(name);
  }
  if (errno != 0) return ErrnoStatus(errno, "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> ReadTextFile(const std::string& path, std::size_t bytes_max) {
  // Follows links, as /proc, /sys and an operator's configuration are full of them.
  MARU_ASSIGN_OR_RETURN(const UniqueFd fd, OpenAtOnce(path, O_RDONLY));
  std::string text;
  char chunk[4096];
  while (true) {
    const ssize_t got = RetryInterrupted([&] { return ::read(fd.get(), chunk, sizeof(chunk)); });
    if (got < 0) return ErrnoStatus(errno, "read", path);
    if (got == 0) return text;
    if (static_cast<std::size_t>(got) > bytes_max - text.size()) {
      return ResourceExhausted(path + " is larger than " + std::to_string(bytes_max) + " bytes");
    }
    text.append(chunk, static_cast<std::size_t>(got));
  }
}

Status WriteTextFile(const std::string& path, std::string_view text, std::uint32_t mode) {
  const std::string draft = path + ".new." + std::to_string(::getpid());
  ::unlink(draft.c_str());  // of a process that had this pid and died here
  MARU_ASSIGN_OR_RETURN(const File file, File::Create(draft, mode));
  Status status = file.WriteAt(AsBytes(text), 0);
  if (status.ok()) status = file.Sync();
  if (status.ok()) status = RenameFile(draft, path, WhenThere::kReplace);
  if (!status.ok()) ::unlink(draft.c_str());
  return status;
}

}  // namespace maru::os
