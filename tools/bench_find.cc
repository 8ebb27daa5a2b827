// maru bench: look-ups by message over the unix socket, by readers in processes of their own: what
// a catalogue that is not shared would take. Beside bare round trips of the same sizes, of as many
// processes with one that only answers, on the same cores.

#include <algorithm>
#include <utility>

#include "layout/frame.h"
#include "tools/bench.h"
#include "wire/codec.h"

namespace maru::tools {

namespace {

struct FindCase {
  const char* name;
  const char* order;
};
constexpr FindCase kCases[] = {{"find, hit", "find hit"}, {"find, miss", "find miss"}};

// "REQUEST REPLY": bytes of the two frames; of a hit as of a miss.
Result<std::pair<size_t, size_t>> FindSizes(uint32_t batch) {
  BenchKey text;
  wire::FindRequest request;
  request.keys.assign(batch, text.Of(0));
  wire::FindReply reply;
  reply.items.resize(batch);
  std::vector<std::byte> buffer(layout::kFrameBytesMax);
  MARU_ASSIGN_OR_RETURN(const size_t asked,
                        wire::EncodeRequest(request, RequestNumber(1), Epoch(1), buffer));
  MARU_ASSIGN_OR_RETURN(const size_t answered,
                        wire::EncodeReply(wire::MessageType::kFind, OkStatus(), reply,
                                          RequestNumber(1), Epoch(1), buffer));
  return std::pair(asked, answered);
}

bool FitsIntoAFrame(uint32_t batch) {
  return batch <= wire::kKeysPerMessageMax &&
         wire::kKeysRequestBytes + batch * wire::KeyItemBytes(BenchKey::kBytes) <=
             layout::kPayloadBytesMax;
}

// The readers, and the process that answers bare messages, with a socket between each of them.
struct Processes {
  std::vector<std::unique_ptr<BenchWorker>> readers;
  std::unique_ptr<BenchWorker> answers;
};

Result<Processes> StartAll(const BenchSpec& spec, uint64_t keys) {
  Processes all;
  MARU_ASSIGN_OR_RETURN(all.answers, BenchWorker::Start(spec, 0, -1, nullptr));
  for (uint32_t i = 0; i < *std::ranges::max_element(spec.readers); ++i) {
    MARU_ASSIGN_OR_RETURN(auto reader, BenchWorker::Start(spec, keys, -1, nullptr));
    MARU_ASSIGN_OR_RETURN(auto ends, os::SeqpacketSocket::Pair());
    MARU_RETURN_IF_ERROR(ends.first.SetBufferBytes(layout::kFrameBytesMax));
    MARU_RETURN_IF_ERROR(ends.second.SetBufferBytes(layout::kFrameBytesMax));
    MARU_RETURN_IF_ERROR(reader->Order("peer", ends.first.fd()));
    MARU_RETURN_IF_ERROR(reader->Answer().status());
    MARU_RETURN_IF_ERROR(all.answers->Order("peer", ends.second.fd()));
    MARU_RETURN_IF_ERROR(all.answers->Answer().status());
    all.readers.push_back(std::move(reader));
  }
  return all;
}

Result<BenchTogether> BareTrips(const BenchSpec& spec, const Processes& all, uint32_t batch,
                                uint32_t readers, uint64_t seed) {
  MARU_ASSIGN_OR_RETURN(const auto sizes, FindSizes(batch));
  MARU_RETURN_IF_ERROR(
      all.answers->Order("serve " + std::to_string(sizes.second) + " " + std::to_string(readers)));
  const std::string order = "trips " + std::to_string(sizes.first) + " " +
                            std::to_string(sizes.second) + " " + std::to_string(spec.time_ms);
  MARU_ASSIGN_OR_RETURN(const auto bare, OrderAll(all.readers, readers, order, seed));
  MARU_RETURN_IF_ERROR(all.answers->Answer().status());
  return bare;
}

Result<BenchRow> MeasureCase(const BenchSpec& spec, const Processes& all, const FindCase& what,
                             uint32_t batch, uint32_t readers) {
  const std::string order =
      std::string(what.order) + " " + std::to_string(batch) + " " + std::to_string(spec.time_ms);
  MARU_ASSIGN_OR_RETURN(
      const BenchRounds rounds,
      TakeTurns(
          spec, readers, [&](uint64_t seed) { return OrderAll(all.readers, readers, order, seed); },
          [&](uint64_t seed) { return BareTrips(spec, all, batch, readers, seed); }));
  BenchRow row;
  row.section = "socket";
  row.operation = what.name;
  row.readers = readers;
  row.batch = batch;
  rounds.Fill(&row);
  return row;
}

Status MeasureAll(const BenchSpec& spec, const Processes& all, uint64_t keys,
                  const std::string& placement, std::vector<BenchRow>* rows) {
  for (const uint32_t readers : spec.readers) {
    for (const FindCase& what : kCases) {
      for (const uint32_t batch : spec.batches) {
        if (!FitsIntoAFrame(batch)) continue;
        MARU_ASSIGN_OR_RETURN(BenchRow row, MeasureCase(spec, all, what, batch, readers));
        row.keys = keys;
        row.placement = placement;
        rows->push_back(std::move(row));
      }
    }
  }
  return OkStatus();
}

}  // namespace

Status BenchFinds(const BenchSpec& spec, uint64_t keys, const BenchNote& note,
                  std::vector<BenchRow>* rows) {
  MARU_ASSIGN_OR_RETURN(const Processes all, StartAll(spec, keys));
  Status status;
  for (const BenchPlacement& placement : PlacementsOf(spec)) {
    note("look-ups by message in " + std::to_string(keys) + " keys: " + placement.name);
    status = Place(spec, placement, all.readers, *all.answers);
    if (status.ok()) status = MeasureAll(spec, all, keys, placement.name, rows);
    if (!status.ok()) break;
  }
  const Status back = Unplace(spec);
  return status.ok() ? back : status;
}

}  // namespace maru::tools
