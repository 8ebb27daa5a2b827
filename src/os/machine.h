#pragma once

// What the machine has, within the limits set to this process.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maru/result.h"

namespace maru::os {

inline constexpr std::size_t kBootIdBytes = 16;
inline constexpr std::size_t kCpusMax = 4096;
inline constexpr std::size_t kDaxDevicesMax = 1024;

// Another one after each boot of the machine; the text form of a UUID.
Result<std::string> BootId();

// As people know it; "localhost" where the kernel does not tell.
std::string HostName();

// Names this machine since its boot, for other processes to compare: "HOST-NAME/BOOT-ID", at most
// kHostIdentityBytesMax. Containers of one machine may differ in the name, which is for people.
inline constexpr std::size_t kHostIdentityBytesMax = 64 + 1 + 36;
Result<std::string> HostIdentity();
// Whether two texts of HostIdentity are of one machine. False for what is no such text.
bool SameHost(std::string_view one, std::string_view other);
// The part of such a text that people know the machine by.
std::string_view HostNameIn(std::string_view identity);

// The physical memory, or the lowest limit of the control groups (version 1 or 2) that hold this
// process, whichever is less.
Result<std::uint64_t> MemoryLimitBytes();

// The processors this thread may run on, ascending.
Result<std::vector<int>> AllowedCpus();
// Keeps the calling thread, and those it starts from now on, on these processors.
Status RunOnCpus(std::span<const int> cpus);
// The same for the first thread of another process.
Status RunProcessOnCpus(std::int32_t pid, std::span<const int> cpus);

// Places the pages of a mapping that are not backed yet on NODE. InvalidArgument for a node that
// the machine does not have.
Status PlaceOnNode(std::span<std::byte> mapping, int node);

struct DaxDevice {
  std::string path;  // /dev/dax0.0
  std::uint64_t size_bytes = 0;
  std::uint64_t align_bytes = 0;
  int node = -1;  // of its memory
};

// The character devices of directly accessible memory; empty where there are none.
Result<std::vector<DaxDevice>> DaxDevices(const std::string& sysfs = "/sys/bus/dax/devices");

namespace internal {
// MemoryLimitBytes with the files of another root and the text of /proc/self/cgroup given.
std::uint64_t CgroupLimitBytes(const std::string& cgroup_root, const std::string& self_cgroup);
}  // namespace internal

}  // namespace maru::os
