#include "engine/audits.h"

#include <string>
#include <utility>

namespace maru::engine {

Status Audits::Ask(const Client& client, const wire::AuditRequest& request,
                   wire::AuditReply* reply) {
  auto at = under_way_.end();
  if (request.audit == 0) {
    EndOf(client);  // one for each client: it has forgotten the other
    EndOver();
    if (under_way_.size() == kAuditsMax) {
      return ResourceExhausted(std::to_string(kAuditsMax) +
                               " audits are under way already: try again when one has ended");
    }
    const auto bytes = request.verify_bytes ? AuditRun::Bytes::kVerify : AuditRun::Bytes::kLeave;
    at = under_way_
             .emplace(++last_number_,
                      UnderWay{client.serial, core_->now_ns,
                               std::make_unique<AuditRun>(core_, bytes, client.serial)})
             .first;
  } else {
    at = under_way_.find(request.audit);
    if (at == under_way_.end() || at->second.client != client.serial) {
      return NotFound("no audit " + std::to_string(request.audit) +
                      " of this client is under way: it is to be begun again");
    }
  }
  at->second.asked_ns = core_->now_ns;
  AuditRun& run = *at->second.run;
  const bool done = run.Step(core_->options.audit_work);
  run.Reply(reply);
  reply->audit = done ? 0 : at->first;
  if (done) under_way_.erase(at);
  return OkStatus();
}

void Audits::EndOf(const Client& client) {
  std::erase_if(under_way_,
                [&client](const auto& entry) { return entry.second.client == client.serial; });
}

void Audits::EndOver() {
  std::erase_if(under_way_, [this](const auto& entry) {
    const UnderWay& audit = entry.second;
    const Client* const client = core_->clients.FromSerial(audit.client);
    return client == nullptr || client->serial != audit.client || !client->connection.has_value() ||
           core_->now_ns - audit.asked_ns >= kIdleNs;
  });
}

}  // namespace maru::engine
