#include "tools/files.h"

#include <cerrno>
#include <cstdio>
#include <vector>

#include "base/units.h"
#include "os/errno_status.h"

namespace maru::tools {

Result<std::string> ReadAll(const std::string& path, uint64_t bytes_max, std::string_view remedy) {
  const bool standard = path == "-";
  std::FILE* const file = standard ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) return os::ErrnoStatus(errno, "open", path);
  std::string bytes;
  std::vector<char> chunk(1 << 20);
  size_t got = 0;
  while (bytes.size() <= bytes_max && (got = std::fread(chunk.data(), 1, chunk.size(), file)) > 0) {
    bytes.append(chunk.data(), got);
  }
  const int error = std::ferror(file) != 0 ? errno : 0;
  if (!standard) std::fclose(file);
  if (error != 0) return os::ErrnoStatus(error, "read", path);
  if (bytes.size() <= bytes_max) return bytes;
  return InvalidArgument("the input " + path + " has more than " + FormatSize(bytes_max) +
                         ", the most that is read" + std::string(remedy));
}

Status WriteAll(const std::string& path, std::span<const std::byte> bytes) {
  const bool standard = path == "-";
  std::FILE* const file = standard ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) return os::ErrnoStatus(errno, "open", path);
  bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  written = std::fflush(file) == 0 && written;
  const int error = written ? 0 : errno;
  if (!standard) std::fclose(file);
  return written ? OkStatus() : os::ErrnoStatus(error, "write", path);
}

}  // namespace maru::tools
