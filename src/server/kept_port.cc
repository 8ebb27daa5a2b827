#include "server/kept_port.h"

#include <array>
#include <charconv>
#include <span>

#include "base/log.h"
#include "os/file.h"
#include "os/process.h"

namespace maru::server {

namespace {

constexpr size_t kTextBytesMax = 16;

std::string PathOf(const std::string& pool) { return pool + ".rm-port"; }

// NotFound: there is none.
Result<uint16_t> Load(const std::string& path) {
  MARU_ASSIGN_OR_RETURN(const os::File file, os::File::Open(path, os::Access::kRead));
  MARU_ASSIGN_OR_RETURN(const os::FileFacts facts, file.Facts());
  if (facts.uid != os::UserId()) return PermissionDenied(path + " is another user's");
  std::array<char, kTextBytesMax> text;
  MARU_ASSIGN_OR_RETURN(const size_t size, file.ReadAt(std::as_writable_bytes(std::span(text)), 0));
  uint16_t port = 0;
  const char* const end = text.data() + size;
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  const bool whole = error == std::errc() && (stop == end || (*stop == '\n' && stop + 1 == end));
  if (!whole || port == 0) return DataLoss(path + " has no number of a port");
  return port;
}

}  // namespace

std::optional<uint16_t> LoadKeptPort(const std::vector<std::string>& pools) {
  for (const std::string& pool : pools) {
    const Result<uint16_t> port = Load(PathOf(pool));
    if (port.ok()) return *port;
    if (port.status().code() != StatusCode::kNotFound) {
      LogWarning("the port of before is not known: " + std::string(port.status().message()));
    }
  }
  return std::nullopt;
}

void KeepPort(const std::vector<std::string>& pools, uint16_t port) {
  const Status kept = os::WriteTextFile(PathOf(pools.front()), std::to_string(port) + "\n");
  if (kept.ok()) return;
  LogWarning("the resource manager may be at another port after a restart: " +
             std::string(kept.message()));
}

void ForgetPort(const std::vector<std::string>& pools) {
  for (const std::string& pool : pools) {
    const Status removed = os::RemoveFile(PathOf(pool));
    if (removed.ok() || removed.code() == StatusCode::kNotFound) continue;
    LogWarning(std::string(removed.message()));
  }
}

}  // namespace maru::server
