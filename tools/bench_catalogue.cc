// maru bench: look-ups in the catalogue, by readers in processes of their own, beside bare reads of
// as many cache lines from a table of the same size and page size.

#include "base/bytes.h"
#include "base/random.h"
#include "os/mapping.h"
#include "tools/bench.h"

namespace maru::tools {

namespace {

// What 1 key takes in records, text and index: what its look-ups are spread over.
constexpr uint64_t kTableBytesAKey = 128 + 104 + 24;

struct LookupCase {
  const char* name;
  const char* order;
  bool hit;
};
constexpr LookupCase kCases[] = {
    {"exists, hit", "lookup exists hit", true},
    {"exists, miss", "lookup exists miss", false},
    {"retrieve and release", "lookup retrieve hit", true},
};

// Random words in shared memory, on huge pages as the catalogue is where they can be had.
Result<os::File> MakeTable(uint64_t keys) {
  const uint64_t bytes = AlignUp(keys * kTableBytesAKey, os::kHugePageBytes);
  MARU_ASSIGN_OR_RETURN(os::File file, os::File::CreateMemory("maru-bench"));
  MARU_RETURN_IF_ERROR(file.GrowTo(bytes));
  MARU_ASSIGN_OR_RETURN(const os::Mapping table,
                        os::Mapping::MapWhole(file, {.access = os::Access::kReadWrite,
                                                     .pages = os::PageHint::kHuge}));
  Random random(1);
  auto* const words = reinterpret_cast<uint64_t*>(table.data());
  for (uint64_t i = 0; i < bytes / sizeof(uint64_t); ++i) words[i] = random();
  table.MakeHuge(0, bytes);
  return file;
}

// Of one reader in a pool of a million keys.
void SetGoal(const LookupCase& what, BenchRow* row) {
  if (row->keys != 1'000'000 || row->readers != 1 || !what.hit) return;
  const bool retrieve = std::string_view(what.name).starts_with("retrieve");
  if (row->batch == 1 && retrieve) {
    row->goal = "p50 under 1.5 us";
    row->goal_met = row->p50_ns < 1500;
  } else if (row->batch == 1) {
    row->goal = "p50 under 1 us, over 2M keys/s";
    row->goal_met = row->p50_ns < 1000 && row->per_second > 2e6;
  } else if (row->batch == 64 && !retrieve) {
    row->goal = "over 4M keys/s";
    row->goal_met = row->per_second > 4e6;
  }
}

Result<BenchRow> MeasureCase(const BenchSpec& spec, uint64_t keys, const LookupCase& what,
                             uint32_t batch, uint32_t readers,
                             std::vector<std::unique_ptr<BenchWorker>>& workers) {
  const std::string tail = " " + std::to_string(batch) + " " + std::to_string(spec.time_ms);
  const auto all = [&](const std::string& order) {
    return [&workers, readers, order](uint64_t seed) {
      return OrderAll(workers, readers, order, seed);
    };
  };
  MARU_ASSIGN_OR_RETURN(const BenchRounds rounds,
                        TakeTurns(spec, readers, all(what.order + tail), all("reads" + tail)));
  BenchRow row;
  row.section = "catalogue";
  row.operation = what.name;
  row.keys = keys;
  row.readers = readers;
  row.batch = batch;
  rounds.Fill(&row);
  SetGoal(what, &row);
  return row;
}

}  // namespace

Status BenchCatalogue(const BenchSpec& spec, uint64_t keys, const BenchNote& note,
                      std::vector<BenchRow>* rows) {
  MARU_ASSIGN_OR_RETURN(const os::File table, MakeTable(keys));
  uint32_t most = 0;
  for (uint32_t readers : spec.readers) most = std::max(most, readers);
  std::vector<std::unique_ptr<BenchWorker>> workers;
  for (uint32_t i = 0; i < most; ++i) {
    // From the last core on, since the bench and the server are on the first.
    const int core = spec.cores[spec.cores.size() - 1 - i % spec.cores.size()];
    MARU_ASSIGN_OR_RETURN(auto worker, BenchWorker::Start(spec, keys, core, &table));
    workers.push_back(std::move(worker));
  }
  for (uint32_t readers : spec.readers) {
    note("look-ups in " + std::to_string(keys) + " keys, readers: " + std::to_string(readers));
    for (const LookupCase& what : kCases) {
      for (uint32_t batch : spec.batches) {
        MARU_ASSIGN_OR_RETURN(BenchRow row, MeasureCase(spec, keys, what, batch, readers, workers));
        rows->push_back(std::move(row));
      }
    }
  }
  return OkStatus();
}

}  // namespace maru::tools
