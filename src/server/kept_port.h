// The port that the resource manager chose because its own was taken, kept beside the pool in a
// file of its own: its clients are told once where it is, so the next server tries the same first.
//
// Nothing but a number in text. One that cannot be read or kept costs no start: the log tells.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maru::server {

// Beside the first of those pools that has one; nullopt: none has.
std::optional<uint16_t> LoadKeptPort(const std::vector<std::string>& pools);
// Beside the first one alone.
void KeepPort(const std::vector<std::string>& pools, uint16_t port);
void ForgetPort(const std::vector<std::string>& pools);

}  // namespace maru::server
