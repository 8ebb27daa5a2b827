#include "server/upstream_options.h"

#include "maru/result.h"
#include "os/tcp_socket.h"

namespace maru::server {

namespace {

constexpr std::string_view kScheme = "tcp://";

// What whoever reaches a protocol can do.
constexpr std::string_view kMetadataPower = "reads and deletes every key";
constexpr std::string_view kManagerPower = "takes regions of the pools and opens further addresses";

Status CheckAddress(std::string_view option, std::string_view address, std::string_view scheme,
                    std::string_view power, Reach reach) {
  if (address.empty()) return OkStatus();
  const std::string named = std::string(option) + " " + std::string(address.substr(0, 64));
  if (!address.starts_with(scheme)) {
    return InvalidArgument(named + ": wanted is tcp://ADDRESS:PORT, as in " + kMetadataAddress);
  }
  const Result<os::TcpAddress> parsed = os::TcpAddress::Parse(address.substr(scheme.size()));
  if (!parsed.ok()) return InvalidArgument(named + ": " + std::string(parsed.status().message()));
  if (parsed->is_loopback() || reach == Reach::kAnyHost) return OkStatus();
  return InvalidArgument(named + ": other hosts reach that address, and whoever reaches it " +
                         std::string(power) +
                         "; --allow-remote of maru serve, or of the resource manager "
                         "(maru-resource-manager), allows it");
}

}  // namespace

Status CheckMetadataAddress(std::string_view option, std::string_view address, Reach reach) {
  return CheckAddress(option, address, kScheme, kMetadataPower, reach);
}

Status CheckUpstreamOptions(const UpstreamOptions& options) {
  const ListenOptions& metadata = options.metadata;
  MARU_RETURN_IF_ERROR(CheckMetadataAddress(metadata.option, metadata.address, options.reach));
  const ListenOptions& manager = options.resource_manager;
  return CheckAddress(manager.option, manager.address, "", kManagerPower, options.reach);
}

}  // namespace maru::server
