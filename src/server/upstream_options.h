// Where a daemon serves upstream's two protocols.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "maru/status.h"

namespace maru::server {

inline constexpr const char* kMetadataAddress = "tcp://127.0.0.1:5555";
inline constexpr const char* kResourceManagerAddress = "127.0.0.1:9850";

// Somebody else listens at the address.
enum class WhenTaken : uint8_t {
  kRefuse,     // the daemon does not start
  kDoWithout,  // it starts, and says so once
};

// Who may reach a listener.
enum class Reach : uint8_t {
  kThisHost,  // an address that other hosts reach is refused
  kAnyHost,
};

struct ListenOptions {
  std::string address;  // empty: not served
  WhenTaken when_taken = WhenTaken::kRefuse;
  std::string option = {};  // that gives it, for messages
};

struct UpstreamOptions {
  ListenOptions metadata = {.option = "--listen"};  // "tcp://127.0.0.1:5555"; port 0: any free one
  // "127.0.0.1:9850". One that is taken and may be done without is replaced by any free port where
  // the metadata protocol is served: its clients learn it at the handshake and map nothing without.
  ListenOptions resource_manager = {.option = "--rm-listen"};
  Reach reach = Reach::kThisHost;

  bool any() const { return !metadata.address.empty() || !resource_manager.address.empty(); }
};

// InvalidArgument names the option, the address and what is wrong with it: it cannot be read, or
// others than this host reach it and may not. An empty one is right.
Status CheckMetadataAddress(std::string_view option, std::string_view address, Reach reach);
Status CheckUpstreamOptions(const UpstreamOptions& options);

}  // namespace maru::server
