// Which pools a daemon serves, from the words of its command line.
//
//   auto                     /dev/shm/maru-UID, sized by what the machine has to spare
//   shm:size=4GiB            /dev/shm/maru-UID of that size; shm:NAME,size=... another file there
//   file:PATH,size=4GiB      any file; without size it must be there
//
// dax:, fsdax: and numa: are told apart and refused until this version serves them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "maru/result.h"
#include "server/server.h"

namespace maru::server {

// What `auto` may use, read from the machine.
struct Machine {
  uint64_t memory_bytes = 0;    // physical, or the lowest limit of a control group
  uint64_t shm_free_bytes = 0;  // free in /dev/shm, 0 where there is none
  uint32_t uid = 0;
};
Result<Machine> ReadMachine();

// A quarter of memory, 4 GiB, 90% of what is free in /dev/shm: the least of them, in whole units.
// ResourceExhausted below 32 MiB, with the way to raise it.
Result<uint64_t> AutoPoolBytes(const Machine& machine);

enum class Start : uint8_t {
  kGoOn,   // with what is in the pool
  kFresh,  // made anew
};

// InvalidArgument names the text and what is wrong with it.
Result<PoolSpec> ParsePoolSpec(std::string_view text, const Machine& machine, Start start);

}  // namespace maru::server
