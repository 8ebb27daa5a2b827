// maru audit: whether what is there adds up.

#include "tools/audit.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/output.h"
#include "tools/progress.h"

namespace maru::tools {

Result<wire::AuditReply> WholeAudit(Client& client, AuditBytes bytes,
                                    const AuditProgress& progress) {
  constexpr int kBeginningsMax = 4;
  wire::AuditRequest request;
  request.verify_bytes = bytes == AuditBytes::kVerify;
  constexpr int kTurnsMax = 3000;
  constexpr std::chrono::milliseconds kTurn(20);
  int beginnings = 1, turns = 0;
  while (true) {
    Result<wire::AuditReply> reply = Ask<wire::AuditReply>(client, request);
    if (reply.ok() && reply->audit == 0) return reply;
    if (reply.ok()) {
      if (progress) progress(reply->work_done, reply->work_in_all);
      request.audit = reply->audit;
      continue;
    }
    // As many as there may be are under way: it waits for its turn, which comes within their time.
    const bool crowded =
        reply.status().code() == StatusCode::kResourceExhausted && request.audit == 0;
    if (crowded && ++turns < kTurnsMax) {
      std::this_thread::sleep_for(kTurn);
      continue;
    }
    // Its end came with the server or the connection.
    const bool gone = reply.status().code() == StatusCode::kNotFound && request.audit != 0;
    if (!gone || beginnings == kBeginningsMax) return reply.status();
    ++beginnings;
    request.audit = 0;
  }
}

namespace {

using Json = nlohmann::json;

constexpr OptionRow kOptions[] = {
    {"bytes", nullptr, "", "Check the bytes of every key against their checksum too",
     Takes::kNothing},
};

void PrintAudit(const Json& json) {
  constexpr const char* kStates[] = {"pages", "free",     "quarantined", "granted",
                                     "live",  "retiring", "condemned",   "worn"};
  std::vector<std::string> header = {"pool"};
  header.insert(header.end(), std::begin(kStates), std::end(kStates));
  Table table(std::move(header));
  for (const Json& pool : json.at("pools")) {
    std::vector<std::string> row = {Printable(pool.value("name", "-"))};
    for (const char* const state : kStates) {
      row.push_back(std::to_string(pool.value(state, uint64_t{0})));
    }
    table.Add(std::move(row));
  }
  Print(table.ToString());
  for (const Json& what : json.at("unchecked")) {
    PrintLine("unchecked: " + Printable(what.get<std::string>()));
  }
  for (const Json& what : json.at("offenders")) {
    PrintLine("broken: " + Printable(what.get<std::string>()));
  }
}

// What the bytes said, where they were asked for: of keys without a checksum, nothing.
Exit ExitOfAudit(const wire::AuditReply& reply, AuditBytes bytes, const Json& json) {
  if (!reply.clean) return Exit::kBroken;
  const bool unknown = json.at("keys").get<uint64_t>() > 0 && json.at("keys_verified") == 0;
  return bytes == AuditBytes::kVerify && unknown ? Exit::kNotThere : Exit::kDone;
}

Result<Exit> Run(const Arguments& arguments) {
  const AuditBytes bytes = arguments.Has("bytes") ? AuditBytes::kVerify : AuditBytes::kLeave;
  MARU_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments, {}));
  Progress progress(" of the pools is checked", Progress::Elsewhere::kNothing);
  const bool quiet = arguments.json();
  const auto reply = WholeAudit(*client, bytes, [&progress, quiet](uint64_t done, uint64_t all) {
    if (!quiet) progress.ShowShare(done, all);
  });
  progress.Clear();
  if (!reply.ok()) return reply.status();
  const Json json = Json::parse(reply->json, nullptr, false);
  if (json.is_discarded()) return DataLoss("the server's answer is no JSON");
  if (arguments.json()) {
    PrintLine(json.dump(2, ' ', false, Json::error_handler_t::replace));
    return ExitOfAudit(*reply, bytes, json);
  }
  PrintAudit(json);
  if (bytes == AuditBytes::kVerify) {
    PrintLine("bytes verified of " + std::to_string(json.at("keys_verified").get<uint64_t>()) +
              " of " + std::to_string(json.at("keys").get<uint64_t>()) +
              " keys; stores have a checksum in pools made with ,checksum alone");
  }
  PrintLine(reply->clean ? "clean: every page is in exactly one state, index and records agree"
                         : "NOT clean");
  return ExitOfAudit(*reply, bytes, json);
}

}  // namespace

extern const Command kAudit = {
    "audit",
    "Check on a running server that every page is accounted for",
    "Nobody waits for it: the server goes on by itself between two of its small steps, and what\n"
    "changes meanwhile is taken in. Exit code 4 when something does not add up; the offenders are\n"
    "named. Exit code 1 when --bytes could verify no key, as in pools without checksums.",
    kOptions,
    {},
    &Run};

}  // namespace maru::tools
