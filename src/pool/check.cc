#include "pool/check.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/units.h"
#include "layout/describe.h"
#include "layout/text.h"
#include "layout/validate.h"
#include "pool/check_catalogue.h"

namespace maru::pool {
namespace {

using layout::Concat;
using layout::RegionKind;

void CheckRegions(const RegionScan& scan, CheckReport* report) {
  for (const std::string& offence : scan.offences) report->offences.Add(offence);
  report->offences.count += scan.offence_count - scan.offences.size();
  report->regions = scan.regions.size();
  for (const RegionSlot slot : scan.unnamed_tables) {
    report->mends.Add(Concat("region slot ", slot.value(),
                             ": a region table that is not in use yet becomes free"));
  }
  for (const RegionSlot slot : scan.unfilled) {
    report->mends.Add(
        Concat("region slot ", slot.value(), ": the units that have no pages yet become free"));
  }
  for (const RegionSlot slot : scan.other_ids) {
    report->mends.Add(Concat("region slot ", slot.value(),
                             ": gets a region id of the pool's own (renumbering was cut short)"));
  }
}

void CheckClients(const catalogue::PoolView& view, CheckReport* report) {
  for (uint16_t number = 0; number < layout::kClientSlots; ++number) {
    const layout::ClientValues client = layout::ReadClient(*view.Client(ClientSlot(number)));
    const Status status = layout::ValidateClientRecord(client);
    if (!status.ok()) report->offences.Add(Concat("client slot ", number, ": ", status.message()));
    report->clients += client.client_id != 0;
  }
}

// One unit of a lease region: blocks and their owners.
void CheckLeaseUnit(const catalogue::PoolView& view, uint64_t unit_offset_bytes,
                    std::set<uint64_t>* owners, CheckReport* report) {
  const layout::LeaseDirectory& directory = *view.Leases(unit_offset_bytes);
  for (uint32_t i = 0; i < layout::kLeaseBlocksPerUnit; ++i) {
    const layout::BlockOwner owner(directory.owners[i].load(std::memory_order_relaxed));
    const std::string block =
        Concat("lease block at ", layout::Hex{unit_offset_bytes + i * layout::kLeaseBlockBytes},
               ", ", layout::DescribeOwner(owner), ": ");
    const Status status = layout::ValidateBlockOwner(owner, i);
    if (!status.ok()) {
      report->offences.Add(block + std::string(status.message()));
    } else if (owner.free()) {
      continue;
    } else if (layout::ReadClient(*view.Client(ClientSlot(owner.client_slot()))).client_id !=
               owner.client_id()) {
      report->mends.Add(block + "that client is gone, the block becomes free");
    } else if (!owners->insert(owner.bits()).second) {
      report->offences.Add(block + "there is another");
    }
  }
}

void CheckLeases(const catalogue::PoolView& view, const std::vector<Region>& regions,
                 CheckReport* report) {
  std::set<uint64_t> owners;
  for (const Region& region : regions) {
    if (region.kind != RegionKind::kLeases) continue;
    for (uint64_t at = 0; at < region.length_bytes; at += layout::kUnitBytes) {
      CheckLeaseUnit(view, region.offset_bytes + at, &owners, report);
    }
  }
}

Status CheckBoot(const PoolImage& image, CheckReport* report) {
  const layout::RootValues root = layout::ReadRoot(image.view().root());
  report->never_served = root.starts == 0;
  report->clean = root.clean == 1 || report->never_served;
  if (report->clean) return OkStatus();
  MARU_ASSIGN_OR_RETURN(const auto boot_id, MachineBootId());
  report->rebooted = root.boot_id[0] != boot_id[0] || root.boot_id[1] != boot_id[1];
  if (!report->rebooted) return OkStatus();
  const bool checksums = (image.superblock().flags & layout::kFlagChecksums) != 0;
  report->mends.Add(Concat(
      "not closed before the machine went down: a start keeps ",
      checksums ? "only keys whose checksum verifies" : "no key, the pool has no checksums"));
  return OkStatus();
}

Status RefuseServed(const PoolImage& image) {
  MARU_ASSIGN_OR_RETURN(const PoolUse use, image.Use());
  if (use == PoolUse::kAtRest) return OkStatus();
  return FailedPrecondition(Concat("pool ", image.path(),
                                   " is being served and changes meanwhile: `maru audit` checks it "
                                   "in service"));
}

}  // namespace

void FindingList::Add(std::string finding) {
  if (listed.size() < kListedMax) listed.push_back(std::move(finding));
  ++count;
}

void CheckMapped(const catalogue::PoolView& view, VerifyBytes verify, CheckReport* report,
                 const CheckProgress& progress) {
  const RegionScan scan = ScanRegions(view.base(), view.bytes());
  CheckRegions(scan, report);
  CheckClients(view, report);
  // What lies in regions that overlap has no meaning.
  if (!report->ok()) return;
  CheckLeases(view, scan.regions, report);
  CatalogueCheck(view, scan.regions, verify, report, progress).Run();
}

Result<CheckReport> CheckPool(const std::string& path, VerifyBytes verify,
                              const CheckProgress& progress) {
  MARU_ASSIGN_OR_RETURN(const PoolImage image, PoolImage::Open(path));
  MARU_RETURN_IF_ERROR(RefuseServed(image));
  CheckReport report;
  report.path = path;
  MARU_RETURN_IF_ERROR(CheckBoot(image, &report));
  CheckMapped(image.view(), verify, &report, progress);
  // What was found counts only if no server has come in the meantime.
  MARU_RETURN_IF_ERROR(RefuseServed(image));
  return report;
}

std::vector<std::string> DescribeCheck(const CheckReport& report) {
  std::vector<std::string> lines = {
      Concat("pool: ", report.path),
      Concat("closed in order: ", report.never_served ? "never served yet"
                                  : report.clean      ? "yes"
                                                      : "no"),
      Concat("regions: ", report.regions),
      Concat("pages: ", report.pages, " (", StatesText(report.states), ")"),
      Concat("keys: ", report.keys, ", ", FormatSize(report.text_bytes), " of text, ",
             report.index_entries, " index entries"),
      Concat("extents: ", report.extents, ", ", FormatSize(report.extent_bytes)),
      Concat("clients: ", report.clients),
      Concat("verified: ", report.verified_pages, " pages, ", FormatSize(report.verified_bytes)),
  };
  const auto list = [&lines](const FindingList& findings, std::string_view what) {
    for (const std::string& finding : findings.listed) lines.push_back(Concat(what, finding));
    const uint64_t rest = findings.count - findings.listed.size();
    if (rest > 0) lines.push_back(Concat(what, "and ", rest, " more"));
  };
  list(report.mends, "a start mends: ");
  list(report.offences, "damage: ");
  lines.push_back(report.ok() ? "sound" : Concat("damaged: ", report.offences.count, " findings"));
  return lines;
}

}  // namespace maru::pool
