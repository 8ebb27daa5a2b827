#include "native/endpoint.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/handshake.h"
#include "client/server_address.h"
#include "native/errors.h"
#include "native/waits.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/msgpack_reader.h"

namespace maru::python {

namespace nb = nanobind;
using wire::compat::MsgpackItem;
using wire::compat::MsgpackKind;
using wire::compat::MsgpackReader;

namespace {

constexpr uint32_t kSequence = 1;

// operation, result, bytes, microseconds
using Told = std::tuple<std::string, std::string, uint64_t, double>;

std::vector<std::byte> Ask(const std::string& server_url, const std::vector<std::byte>& request,
                           uint32_t timeout_ms) {
  Result<std::vector<std::byte>> reply = [&]() -> Result<std::vector<std::byte>> {
    const WithoutLock released;
    MARU_ASSIGN_OR_RETURN(const client::ServerAddress server, client::ParseServer(server_url));
    if (!server.socket.empty()) {
      return FailedPrecondition(server.text + " is no metadata endpoint, which takes statistics");
    }
    return client::AskEndpoint(server, request, timeout_ms);
  }();
  if (!reply.ok()) Raise(reply.status());
  return *std::move(reply);
}

void ReportStats(const std::string& server_url, const std::string& client_id,
                 const std::vector<Told>& told, uint32_t timeout_ms) {
  wire::compat::ReportStatsRequest request;
  request.entries.reserve(told.size());
  for (const auto& [operation, result, size_bytes, latency_us] : told) {
    request.entries.push_back({client_id, operation, result, size_bytes, latency_us});
  }
  Ask(server_url, wire::compat::EncodeReportStatsRequest(kSequence, request), timeout_ms);
}

[[noreturn]] void Malformed(const std::string& what) {
  Raise(DataLoss("the answer to GET_STATS: " + what));
}

// One item with all that it holds.
nb::object Object(MsgpackReader* reader, uint32_t depth) {
  MsgpackItem item;
  if (depth > wire::compat::kNestingMax) Malformed("maps lie too deep in each other");
  if (!reader->Next(&item)) Malformed(reader->error());
  switch (item.kind) {
    case MsgpackKind::kNil: return nb::none();
    case MsgpackKind::kBool: return nb::bool_(item.number != 0);
    case MsgpackKind::kUnsigned: return nb::int_(item.number);
    case MsgpackKind::kNegative: return nb::int_(static_cast<int64_t>(item.number));
    case MsgpackKind::kReal: return nb::float_(item.real);
    case MsgpackKind::kText:
    case MsgpackKind::kExtension:
      return nb::steal(PyUnicode_DecodeUTF8(
          item.text.data(), static_cast<Py_ssize_t>(item.text.size()), "backslashreplace"));
    case MsgpackKind::kArray: {
      nb::list list;
      for (uint64_t i = 0; i < item.number; ++i) list.append(Object(reader, depth + 1));
      return list;
    }
    case MsgpackKind::kMap: break;
  }
  nb::dict map;
  for (uint64_t i = 0; i < item.number; ++i) {
    const nb::object key = Object(reader, depth + 1);
    map[key] = Object(reader, depth + 1);
  }
  return map;
}

nb::object EndpointStats(const std::string& server_url, uint32_t timeout_ms) {
  const std::vector<std::byte> message =
      Ask(server_url, wire::compat::EncodeGetStatsRequest(kSequence), timeout_ms);
  wire::compat::MetadataHeader header;
  const Status read = wire::compat::DecodeMetadataHeader(message, &header);
  if (!read.ok()) Malformed(std::string(read.message()));
  const std::span<const std::byte> payload(message);
  MsgpackReader reader(payload.subspan(wire::compat::kMetadataHeaderBytes));
  return Object(&reader, 0);
}

}  // namespace

void DefineEndpoint(nb::module_ module) {
  module.def("_report_stats", &ReportStats, nb::arg("server_url"), nb::arg("client_id"),
             nb::arg("told"), nb::arg("timeout_ms"),
             "Tells the metadata endpoint of calls: operation, result, bytes, microseconds each.");
  module.def("_endpoint_stats", &EndpointStats, nb::arg("server_url"), nb::arg("timeout_ms"),
             nb::sig("def _endpoint_stats(server_url: str, timeout_ms: int) -> "
                     "dict[str, typing.Any]"),
             "The metadata endpoint's answer to GET_STATS.");
}

}  // namespace maru::python
