// The messages of upstream's resource-manager protocol (docs/formats/upstream_resource_manager.md)
// as plain structs. Texts of a request point into the payload that it was decoded from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wire/compat/metadata.h"

namespace maru::wire::compat {

inline constexpr uint32_t kRmMagic = 0x4D415255;
inline constexpr uint16_t kRmVersion = 2;
inline constexpr uint32_t kRmHeaderBytes = 12;
inline constexpr uint32_t kRmPayloadBytesMax = 8192;  // of a request and of a reply
inline constexpr uint32_t kRmPathBytesMax = 4096;
inline constexpr uint32_t kRmClientIdBytesMax = 256;
inline constexpr uint32_t kRmErrorBytesMax = 1024;  // longer texts are cut
inline constexpr uint32_t kRmUuidBytesMax = 64;
inline constexpr uint32_t kRmAddressBytesMax = 256;
inline constexpr uint32_t kRmOpenPathsMax = 64;
inline constexpr uint64_t kRmOpenLeaseMsMax = 86'400'000;

enum class RmType : uint16_t {
  kAllocRequest = 1,
  kAllocReply = 2,
  kFreeRequest = 3,
  kFreeReply = 4,
  kStatsRequest = 5,
  kStatsReply = 6,
  kAccessRequest = 9,
  kAccessReply = 10,
  kErrorReply = 255,
  // Ours, far from upstream's: between `maru server` and its daemon.
  kOpenRequest = 0x4D01,
  kOpenReply = 0x4D02,
};

// What went wrong, in the numbers of Linux's errno, negative.
enum class RmStatus : int32_t {
  kOk = 0,
  kNoEntry = -2,
  kNoMemory = -12,
  kAccess = -13,
  kNoDevice = -19,
  kInvalid = -22,
  kNoDescriptors = -24,
  kInUse = -98,
};

enum class RmAccess : uint32_t { kLocal = 0 };
enum class RmPoolType : uint32_t { kDevDax = 0, kFsDax = 1 };

struct RmAllocRequest {
  uint64_t size_bytes = 0;
  std::string_view path;  // empty: any pool
  std::string_view client_id;
  uint64_t request_id = 0;
  friend bool operator==(const RmAllocRequest&, const RmAllocRequest&) = default;
};
struct RmFreeRequest {
  Handle handle;
  std::string_view client_id;
  uint64_t request_id = 0;
  friend bool operator==(const RmFreeRequest&, const RmFreeRequest&) = default;
};
struct RmStatsRequest {
  friend bool operator==(const RmStatsRequest&, const RmStatsRequest&) = default;
};
struct RmAccessRequest {
  Handle handle;
  std::string_view client_id;  // empty: not told
  friend bool operator==(const RmAccessRequest&, const RmAccessRequest&) = default;
};

// A metadata endpoint at an address, for as long as the connection lives.
struct RmOpenRequest {
  std::string_view client_id;
  std::string_view address;             // "tcp://127.0.0.1:5555"
  std::vector<std::string_view> paths;  // of the pools to take regions from; empty: any
  // Of clients' leases, 0: they have none; nullopt: what the daemon takes.
  std::optional<uint64_t> lease_ms;
  friend bool operator==(const RmOpenRequest&, const RmOpenRequest&) = default;
};

using RmRequest = std::variant<std::monostate, RmAllocRequest, RmFreeRequest, RmStatsRequest,
                               RmAccessRequest, RmOpenRequest>;

// Of the request; empty where it tells none.
std::string_view ClientIdOf(const RmRequest& request);

struct RmErrorReply {
  RmStatus status = RmStatus::kInvalid;
  std::string message;
};
// A failed allocation is one of these with a status and zeros, as upstream answers it.
struct RmAllocReply {
  RmStatus status = RmStatus::kOk;
  RmAccess access = RmAccess::kLocal;
  Handle handle;
  uint64_t requested_bytes = 0;
  std::string path;
  std::string uuid;  // of the device, as text; empty for a file
};
struct RmFreeReply {
  RmStatus status = RmStatus::kOk;
};
struct RmPool {
  std::string path;
  RmPoolType type = RmPoolType::kFsDax;
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t align_bytes = 0;
};
struct RmStatsReply {
  std::vector<RmPool> pools;  // those that do not fit into a payload are left out
};
struct RmAccessReply {
  RmStatus status = RmStatus::kOk;
  std::string path;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  std::string uuid;
};

struct RmOpenReply {
  RmStatus status = RmStatus::kOk;
  std::string address;  // with the port that was chosen
  std::string message;  // why it is not open
};

using RmReply =
    std::variant<RmErrorReply, RmAllocReply, RmFreeReply, RmStatsReply, RmAccessReply, RmOpenReply>;

}  // namespace maru::wire::compat
