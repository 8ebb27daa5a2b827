#include "pool/inspect.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "layout/describe.h"
#include "layout/text.h"

namespace maru::pool {
namespace {

using layout::Concat;
using layout::PageState;
using layout::RegionKind;

void CountPages(const catalogue::PoolView& view, const Region& region, StateCounts* counts) {
  for (uint32_t i = 0; i < region.page_count; ++i) {
    const layout::PageRecord* page = view.Record(RecordNumber(region.first_record.value() + i));
    if (page == nullptr) continue;
    // Relaxed: a count, of one moment for each page.
    const layout::StateWord word(page->state_word.load(std::memory_order_relaxed));
    const auto state = static_cast<uint8_t>(word.state());
    if (state <= layout::kPageStateLast) ++(*counts)[state];
  }
}

void AddRegions(const catalogue::PoolView& view, PoolReport* report) {
  std::array<PoolReport::Kind, layout::kRegionKindLast + 1> kinds{};
  report->free_bytes = view.bytes() - layout::kHeadBytes;
  for (const Region& region : report->regions) {
    PoolReport::Kind& kind = kinds[static_cast<uint8_t>(region.kind)];
    kind.kind = region.kind;
    ++kind.regions;
    kind.bytes += region.length_bytes;
    report->free_bytes -= std::min(report->free_bytes, region.length_bytes);
    if (region.kind != RegionKind::kPages) continue;
    PoolReport::PageSize& size = report->page_sizes[region.page_bytes];
    ++size.regions;
    CountPages(view, region, &size.states);
  }
  for (const PoolReport::Kind& kind : kinds) {
    if (kind.regions > 0) report->kinds.push_back(kind);
  }
}

Status AddClients(const PoolImage& image, PoolReport* report) {
  for (uint16_t number = 0; number < layout::kClientSlots; ++number) {
    const ClientSlot slot(number);
    const layout::ClientValues values = layout::ReadClient(*image.view().Client(slot));
    if (values.client_id == 0) continue;
    MARU_ASSIGN_OR_RETURN(const bool lives, image.ClientLives(slot));
    report->clients.push_back({slot, values, lives});
  }
  return OkStatus();
}

using Lines = std::vector<std::string>;

void AddIndented(const layout::Lines& from, Lines* lines) {
  for (const std::string& line : from) lines->push_back("  " + line);
}

std::string RegionLine(const Region& region) {
  std::string line =
      Concat("  slot ", region.slot.value(), ": ", layout::RegionKindName(region.kind), ", ",
             FormatSize(region.length_bytes), " at ", layout::Hex{region.offset_bytes});
  if (region.has_id()) line += Concat(", id ", region.id.value());
  if (region.kind == RegionKind::kPages) {
    line += Concat(", ", region.page_count, " pages of ", region.page_bytes,
                   " bytes, records from ", region.first_record.value());
  }
  if (region.kind == RegionKind::kClientCut) {
    line += Concat(", ", layout::Quoted{region.instance_id}, " over the ",
                   layout::RegionRoadName(region.road), " protocol");
    if (region.owner == ClientId(0)) line += ", without an owner";
    if (!region.lease_id.empty() && region.road == layout::RegionRoad::kMetadata) {
      line += Concat(", lease ", layout::Quoted{region.lease_id});
    }
  }
  return line;
}

std::string ClientLine(const PoolReport::Client& client) {
  const auto* label = client.values.label;
  const auto* end = std::find(label, label + layout::kLabelBytes, uint8_t{0});
  const std::string_view text(reinterpret_cast<const char*>(label),
                              static_cast<size_t>(end - label));
  return Concat("  slot ", client.slot.value(), ": client ", client.values.client_id, " ",
                layout::Quoted{text}, ", pid ", client.values.process & 0xFFFFFFFF, ", uid ",
                client.values.process >> 32, client.lives ? ", lives" : ", gone");
}

}  // namespace

uint64_t SumOf(const StateCounts& counts) {
  uint64_t sum = 0;
  for (const uint64_t count : counts) sum += count;
  return sum;
}

std::string StatesText(const StateCounts& counts) {
  std::string text;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    if (!text.empty()) text += ", ";
    text += Concat(counts[i], " ", layout::PageStateName(static_cast<PageState>(i)));
  }
  return text.empty() ? "none" : text;
}

Result<PoolReport> InspectPool(const std::string& path) {
  MARU_ASSIGN_OR_RETURN(const PoolImage image, PoolImage::Open(path));
  PoolReport report;
  report.path = path;
  MARU_ASSIGN_OR_RETURN(report.use, image.Use());
  report.superblock = image.superblock();
  report.root = layout::ReadRoot(image.view().root());
  RegionScan scan = ScanRegions(image.view().base(), image.view().bytes());
  report.regions = std::move(scan.regions);
  report.offences = std::move(scan.offences);
  AddRegions(image.view(), &report);
  MARU_RETURN_IF_ERROR(AddClients(image, &report));
  return report;
}

Lines DescribePool(const PoolReport& report) {
  Lines lines = {
      Concat("pool: ", report.path),
      Concat("use: ", report.use == PoolUse::kServed ? "being served" : "at rest",
             report.root.clean == 1 ? ", closed in order"
             : report.use == PoolUse::kServed || report.root.starts == 0
                 ? ""
                 : ", not closed by its last server"),
      "superblock:",
  };
  AddIndented(layout::DescribeSuperblock(report.superblock), &lines);
  lines.emplace_back("root:");
  AddIndented(layout::DescribeRoot(report.root), &lines);
  lines.emplace_back("room:");
  lines.push_back(Concat("  head: ", FormatSize(layout::kHeadBytes)));
  for (const PoolReport::Kind& kind : report.kinds) {
    lines.push_back(Concat("  ", layout::RegionKindName(kind.kind), ": ", FormatSize(kind.bytes),
                           " in ", kind.regions, " regions"));
  }
  lines.push_back(Concat("  free: ", FormatSize(report.free_bytes)));
  lines.emplace_back("pages:");
  for (const auto& [page_bytes, size] : report.page_sizes) {
    lines.push_back(Concat("  of ", page_bytes, " bytes: ", SumOf(size.states), " in ",
                           size.regions, " regions: ", StatesText(size.states)));
  }
  lines.emplace_back("clients:");
  for (const PoolReport::Client& client : report.clients) lines.push_back(ClientLine(client));
  lines.emplace_back("regions:");
  for (const Region& region : report.regions) lines.push_back(RegionLine(region));
  for (const std::string& offence : report.offences) lines.push_back("damage: " + offence);
  return lines;
}

}  // namespace maru::pool
