#include "os/machine.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "os/errno_status.h"
#include "os/file.h"

namespace maru::os {
namespace {

constexpr std::size_t kSmallFileMax = 64 * 1024;
constexpr std::size_t kNumberTextMax = 64;
constexpr std::size_t kNodeNameBytesMax = 64;
constexpr std::size_t kBootIdTextBytes = 2 * kBootIdBytes + 4;
constexpr int kGroupDepthMax = 64;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> NumberIn(const std::string& path) {
  const Result<std::string> text = ReadTextFile(path, kNumberTextMax);
  std::uint64_t number = 0;
  if (!text.ok()) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc()) return std::nullopt;  // "max", for one
  return number;
}

// The lowest NAME from ROOT down to ROOT/PATH. Inside a container the group's own path may not
// exist below the mount; then ROOT's own file holds.
std::uint64_t LowestOnPath(const std::string& root, std::string path, const std::string& name) {
  std::uint64_t lowest = kUnlimited;
  for (int depth = 0; depth < kGroupDepthMax; ++depth) {
    lowest = std::min(lowest, NumberIn(root + path + "/" + name).value_or(kUnlimited));
    if (path.empty()) break;
    path.resize(path.rfind('/'));
  }
  return lowest;
}

bool NamesController(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == wanted) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

}  // namespace

std::uint64_t internal::CgroupLimitBytes(const std::string& cgroup_root,
                                         const std::string& self_cgroup) {
  std::uint64_t lowest = kUnlimited;
  std::string_view rest = self_cgroup;
  // Lines are HIERARCHY:CONTROLLERS:/PATH (cgroups(7)).
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    if (path.empty() || path[0] != '/') continue;
    if (path == "/") path.clear();
    if (controllers.empty()) {
      lowest = std::min(lowest, LowestOnPath(cgroup_root, path, "memory.max"));
      // Where version 1 and 2 are mounted side by side.
      lowest = std::min(lowest, LowestOnPath(cgroup_root + "/unified", path, "memory.max"));
    } else if (NamesController(controllers, "memory")) {
      lowest =
          std::min(lowest, LowestOnPath(cgroup_root + "/memory", path, "memory.limit_in_bytes"));
    }
  }
  return lowest;
}

Result<std::uint64_t> MemoryLimitBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_size = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_size <= 0) return ErrnoStatus(errno, "read the size of", "memory");
  const std::uint64_t physical =
      static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size);
  const Result<std::string> groups = ReadTextFile("/proc/self/cgroup", kSmallFileMax);
  if (!groups.ok()) return physical;  // a kernel without control groups
  return std::min(physical, internal::CgroupLimitBytes("/sys/fs/cgroup", *groups));
}

Result<std::string> BootId() {
  MARU_ASSIGN_OR_RETURN(std::string text,
                        ReadTextFile("/proc/sys/kernel/random/boot_id", kNumberTextMax));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() != kBootIdTextBytes) return DataLoss("the boot id is no UUID: " + text);
  return text;
}

std::string HostName() {
  const Result<std::string> file =
      ReadTextFile("/proc/sys/kernel/hostname", kNodeNameBytesMax + 1);  // with its line end
  std::string name = file.ok() ? *file : "localhost";
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

Result<std::string> HostIdentity() {
  MARU_ASSIGN_OR_RETURN(const std::string boot, BootId());
  return HostName() + "/" + boot;
}

bool SameHost(std::string_view one, std::string_view other) {
  // The boot id alone is what all containers of a machine see alike and no other machine has.
  const auto boot_of = [](std::string_view identity) {
    const std::size_t slash = identity.rfind('/');
    if (slash == std::string_view::npos) return std::string_view();
    const std::string_view boot = identity.substr(slash + 1);
    return boot.size() == kBootIdTextBytes ? boot : std::string_view();
  };
  return !boot_of(one).empty() && boot_of(one) == boot_of(other);
}

std::string_view HostNameIn(std::string_view identity) {
  return identity.substr(0, identity.rfind('/'));
}

Result<std::vector<int>> AllowedCpus() {
  alignas(cpu_set_t) std::array<std::uint8_t, kCpusMax / 8> mask{};
  auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
  if (::sched_getaffinity(0, mask.size(), set) != 0) {
    return ErrnoStatus(errno, "read the processors", "");
  }
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < kCpusMax; ++cpu) {
    if ((mask[cpu / 8] >> (cpu % 8) & 1) != 0) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

Status RunOnCpus(std::span<const int> cpus) { return RunProcessOnCpus(0, cpus); }

Status RunProcessOnCpus(std::int32_t pid, std::span<const int> cpus) {
  alignas(cpu_set_t) std::array<std::uint8_t, kCpusMax / 8> mask{};
  std::string text;
  for (const int cpu : cpus) {
    if (cpu < 0 || static_cast<std::size_t>(cpu) >= kCpusMax) {
      return InvalidArgument("there is no processor " + std::to_string(cpu));
    }
    const auto at = static_cast<std::size_t>(cpu);
    mask[at / 8] = static_cast<std::uint8_t>(mask[at / 8] | 1u << (at % 8));
    text += (text.empty() ? "" : ",") + std::to_string(cpu);
  }
  auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
  if (::sched_setaffinity(pid, mask.size(), set) != 0) {
    return ErrnoStatus(errno, "run on processors", text, "see: nproc, taskset -p");
  }
  return OkStatus();
}

Status PlaceOnNode(std::span<std::byte> mapping, int node) {
  constexpr int kNodesMax = 1024;
  if (node < 0 || node >= kNodesMax) {
    return InvalidArgument("there is no memory node " + std::to_string(node));
  }
  std::array<unsigned long, kNodesMax / 64> mask{};
  mask[static_cast<std::size_t>(node) / 64] = 1ul << (node % 64);
  // The C library has no wrapper; the count is one more than the kernel's highest bit.
  if (::syscall(SYS_mbind, mapping.data(), mapping.size(), MPOL_BIND, mask.data(), kNodesMax + 1,
                0) != 0) {
    return ErrnoStatus(errno, "place memory on", "node " + std::to_string(node),
                       "see: ls /sys/devices/system/node");
  }
  return OkStatus();
}

Result<std::vector<DaxDevice>> DaxDevices(const std::string& sysfs) {
  MARU_ASSIGN_OR_RETURN(const PathKind kind, KindOf(sysfs));
  std::vector<DaxDevice> devices;
  if (kind == PathKind::kMissing) return devices;
  MARU_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(sysfs, kDaxDevicesMax));
  for (const std::string& name : names) {
    const std::string folder = sysfs + "/" + name + "/";
    DaxDevice device;
    device.path = "/dev/" + name;
    device.size_bytes = NumberIn(folder + "size").value_or(0);
    device.align_bytes = NumberIn(folder + "align").value_or(0);
    const std::optional<std::uint64_t> node = NumberIn(folder + "target_node");
    if (node.has_value() && *node < kCpusMax) device.node = static_cast<int>(*node);
    if (device.size_bytes > 0) devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace maru::os
