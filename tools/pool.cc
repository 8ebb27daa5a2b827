// maru pool init, inspect, check, renumber: a pool at rest.

#include "base/units.h"
#include "layout/describe.h"
#include "layout/geometry.h"
#include "pool/check.h"
#include "pool/inspect.h"
#include "pool/new_pool.h"
#include "pool/pool_file.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/pool_json.h"
#include "tools/progress.h"

namespace maru::tools {

namespace {

constexpr PositionalRow kPath[] = {{"PATH", "The pool's file", Takes::kOne}};

std::string Quoted(const char* name, const std::string& value) {
  return JsonString(name) + ": " + value;
}

// --- init

constexpr OptionRow kInitOptions[] = {
    {"size", "SIZE", "", "Size of the pool, in whole 2 MiB; at least 32 MiB", Takes::kOne},
    {"checksum", nullptr, "", "Stores carry the XXH3 of their bytes, readers may verify it",
     Takes::kNothing},
    {"force", nullptr, "", "Replace a pool that is there (never anything else)", Takes::kNothing},
};

Result<Exit> Init(const Arguments& arguments) {
  const std::string path = arguments.Get("PATH");
  if (!arguments.Has("size"))
    return InvalidArgument("--size is missing: maru pool init PATH --size 4GiB");
  MARU_ASSIGN_OR_RETURN(const uint64_t size, arguments.PoolSize("size"));
  pool::InitOptions options;
  options.flags = arguments.Has("checksum") ? layout::kFlagChecksums : 0;
  options.existing = arguments.Has("force") ? pool::Existing::kReplace : pool::Existing::kRefuse;
  options.size_option = "--size";
  MARU_ASSIGN_OR_RETURN(const layout::Superblock made, pool::InitPool(path, size, options));
  if (arguments.json()) {
    PrintLine("{" + Quoted("path", JsonString(path)) + ", " +
              Quoted("pool_bytes", std::to_string(made.pool_bytes)) + ", " +
              Quoted("region_id_base", std::to_string(made.region_id_base)) + "}");
  } else {
    PrintLine("made " + path + ": " + FormatSize(made.pool_bytes) + ", region ids from " +
              std::to_string(made.region_id_base));
  }
  return Exit::kDone;
}

// --- inspect

Result<Exit> Inspect(const Arguments& arguments) {
  MARU_ASSIGN_OR_RETURN(const pool::PoolReport report, pool::InspectPool(arguments.Get("PATH")));
  if (arguments.json()) {
    PrintJson(JsonOf(report));
  } else {
    for (const std::string& line : pool::DescribePool(report)) PrintLine(Printable(line));
  }
  return report.offences.empty() ? Exit::kDone : Exit::kBroken;
}

// --- check

constexpr OptionRow kCheckOptions[] = {
    {"bytes", nullptr, "", "Check the bytes of every key against their checksum too",
     Takes::kNothing},
};

Result<Exit> Check(const Arguments& arguments) {
  Progress progress(" of the records are checked", Progress::Elsewhere::kNothing);
  Result<pool::CheckReport> checked =
      pool::CheckPool(arguments.Get("PATH"),
                      arguments.Has("bytes") ? pool::VerifyBytes::kYes : pool::VerifyBytes::kNo,
                      [&](uint64_t done, uint64_t all) {
                        if (!arguments.json()) progress.ShowShare(done, all);
                      });
  progress.Clear();
  MARU_ASSIGN_OR_RETURN(const pool::CheckReport report, std::move(checked));
  if (arguments.json()) {
    PrintJson(JsonOf(report));
  } else {
    for (const std::string& line : pool::DescribeCheck(report)) PrintLine(Printable(line));
  }
  return report.ok() ? Exit::kDone : Exit::kBroken;
}

// --- renumber

constexpr OptionRow kRenumberOptions[] = {
    {"not", "BASE", "", "A region_id_base that another pool has; may be given several times",
     Takes::kMany},
};

Result<Exit> Renumber(const Arguments& arguments) {
  std::vector<uint32_t> bases;
  for (const std::string& text : arguments.All("not")) {
    Arguments one;
    one.values["not"] = {text};
    MARU_ASSIGN_OR_RETURN(const uint64_t base, one.Number("not", 0, layout::kRegionIdMax));
    bases.push_back(static_cast<uint32_t>(base));
  }
  MARU_ASSIGN_OR_RETURN(const layout::Superblock made,
                        pool::Renumber(arguments.Get("PATH"), bases));
  if (arguments.json()) {
    PrintLine("{" + Quoted("region_id_base", std::to_string(made.region_id_base)) + ", " +
              Quoted("uuid", JsonString(layout::UuidText(made.device.uuid))) + "}");
  } else {
    PrintLine("region ids from " + std::to_string(made.region_id_base) + ", uuid " +
              layout::UuidText(made.device.uuid));
  }
  return Exit::kDone;
}

}  // namespace

extern const Command kPoolInit = {"pool init",
                                  "Make an empty pool",
                                  "Example: maru pool init /dev/shm/kv --size 4GiB --checksum",
                                  kInitOptions,
                                  kPath,
                                  &Init};
extern const Command kPoolInspect = {"pool inspect",
                                     "Show what lies in a pool, read-only",
                                     "Also of a pool that is being served.",
                                     {},
                                     kPath,
                                     &Inspect};
extern const Command kPoolCheck = {
    "pool check",
    "Verify a pool at rest, read-only",
    "Exit code 4 when the pool is damaged; what a start would mend is told and no fault.",
    kCheckOptions,
    kPath,
    &Check};
extern const Command kPoolRenumber = {
    "pool renumber",
    "Draw another uuid and other region ids for a pool, so that it can be served beside others",
    "A copy of a pool can be served beside it after that. Clients of the pool begin anew.",
    kRenumberOptions,
    kPath,
    &Renumber};

}  // namespace maru::tools
