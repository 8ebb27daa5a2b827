// maru bench: messages over the unix socket, each beside a bare round trip of the same sizes
// between processes on the same cores. Ours and the bare one take turns, so that both see the same
// machine.

#include <algorithm>

#include "layout/frame.h"
#include "tools/bench.h"
#include "wire/codec.h"

namespace maru::tools {

namespace {

constexpr uint64_t kStoreBatch = 64;
// Keys that no look-up of the bench asks for.
constexpr uint64_t kFirstKey = uint64_t{1} << 40;

struct FrameSizes {
  size_t request = 0, reply = 0;
};

Result<FrameSizes> SizesOf(const wire::Request& request, const wire::Reply& reply,
                           wire::MessageType type) {
  std::vector<std::byte> buffer(layout::kFrameBytesMax);
  FrameSizes sizes;
  MARU_ASSIGN_OR_RETURN(sizes.request,
                        wire::EncodeRequest(request, RequestNumber(1), Epoch(1), buffer));
  MARU_ASSIGN_OR_RETURN(
      sizes.reply, wire::EncodeReply(type, OkStatus(), reply, RequestNumber(1), Epoch(1), buffer));
  return sizes;
}

// What a store and a deletion of `keys` keys put on the wire. With a store come as many new pages
// as it used.
Result<FrameSizes> StoreSizes(uint64_t keys) {
  BenchKey text;
  wire::RegisterRequest request;
  wire::RegisterReply reply;
  for (uint64_t i = 0; i < keys; ++i) {
    request.entries.push_back({{}, 512, 0, text.Of(i)});
    reply.items.emplace_back();
    reply.refill.emplace_back();
  }
  return SizesOf(request, reply, wire::MessageType::kRegister);
}
Result<FrameSizes> DeleteSizes(uint64_t keys) {
  BenchKey text;
  wire::DeleteRequest request;
  wire::DeleteReply reply;
  for (uint64_t i = 0; i < keys; ++i) {
    request.keys.push_back(text.Of(i));
    reply.outcomes.push_back(wire::DeleteOutcome::kDeleted);
  }
  return SizesOf(request, reply, wire::MessageType::kDelete);
}

template <typename Call>
Status Time(Samples* samples, const Call& call) {
  const auto before = BenchClock::now();
  Status status = call();
  samples->Add(BenchClock::now() - before);
  return status;
}

// The operations, of one client. Each call of a function is one round of `count` operations.
class Operations {
 public:
  Operations(Client* client, uint64_t page_bytes) : client_(client), page_bytes_(page_bytes) {}

  Status Ping(uint64_t count, Samples* pings) {
    for (uint64_t i = 0; i < count; ++i) {
      MARU_RETURN_IF_ERROR(Time(pings, [&] { return client_->Ping(); }));
    }
    return OkStatus();
  }

  // Alloc and store, then delete what was stored.
  Status Store(uint64_t count, Samples* stores, Samples* deletes) {
    for (uint64_t i = 0; i < count; ++i) {
      const std::string_view key = texts_[0].Of(kFirstKey + i);
      MARU_RETURN_IF_ERROR(Time(stores, [&] { return StoreOne(key); }));
      MARU_RETURN_IF_ERROR(Time(deletes, [&] { return client_->Delete(key).status(); }));
    }
    return OkStatus();
  }

  Status BatchStore(uint64_t count, Samples* stores, Samples* deletes) {
    std::vector<std::string_view> keys(kStoreBatch);
    std::vector<Page> pages(kStoreBatch);
    for (uint64_t i = 0; i < count; ++i) {
      for (uint64_t k = 0; k < kStoreBatch; ++k) {
        keys[k] = texts_[k].Of(kFirstKey + i * kStoreBatch + k);
      }
      MARU_RETURN_IF_ERROR(Time(stores, [&] { return StoreAll(keys, pages); }));
      MARU_RETURN_IF_ERROR(Time(deletes, [&] { return client_->BatchDelete(keys).status(); }));
    }
    return OkStatus();
  }

 private:
  Status StoreOne(std::string_view key) {
    MARU_ASSIGN_OR_RETURN(Page page, client_->Alloc(page_bytes_));
    MARU_ASSIGN_OR_RETURN(const bool stored, client_->Store(key, std::move(page)));
    return stored ? OkStatus() : ResourceExhausted("a key was not stored");
  }
  Status StoreAll(std::span<const std::string_view> keys, std::span<Page> pages) {
    for (Page& page : pages) {
      MARU_ASSIGN_OR_RETURN(page, client_->Alloc(page_bytes_));
    }
    MARU_ASSIGN_OR_RETURN(const std::vector<bool> stored, client_->BatchStore(keys, pages));
    const bool all = std::find(stored.begin(), stored.end(), false) == stored.end();
    return all ? OkStatus() : ResourceExhausted("a key was not stored");
  }

  Client* const client_;
  const uint64_t page_bytes_;
  std::array<BenchKey, kStoreBatch> texts_;
};

Status RoundTrip(os::SeqpacketSocket& socket, std::span<const std::byte> request,
                 std::span<std::byte> reply) {
  MARU_RETURN_IF_ERROR(socket.Send(request));
  return socket.Receive(reply).status();
}

Status EchoRound(BenchWorker& echo, const FrameSizes& sizes, uint64_t count, Samples* samples) {
  MARU_RETURN_IF_ERROR(echo.Order("echo " + std::to_string(sizes.reply)));
  const std::vector<std::byte> request(sizes.request);
  std::vector<std::byte> reply(sizes.reply);
  for (uint64_t i = 0; i < count; ++i) {
    MARU_RETURN_IF_ERROR(Time(samples, [&] { return RoundTrip(echo.socket(), request, reply); }));
  }
  const std::byte end{1};
  return echo.socket().Send({&end, 1});
}

// Of the bare one as many round trips as of ours.
Status AddRound(Samples ours, BenchWorker& echo, const FrameSizes& sizes, uint64_t count,
                BenchRounds* rounds) {
  Samples bare(count);
  MARU_RETURN_IF_ERROR(EchoRound(echo, sizes, count, &bare));
  rounds->Add(ours.Percentile(50), ours.Percentile(99), bare.Percentile(50));
  return OkStatus();
}

BenchRow RowOf(const BenchRounds& rounds, const char* name, uint64_t keys, uint32_t batch,
               const std::string& placement) {
  BenchRow row;
  row.section = "socket";
  row.operation = name;
  row.keys = keys;
  row.readers = 1;
  row.batch = batch;
  row.placement = placement;
  rounds.Fill(&row);
  row.per_second = batch * 1e9 / row.p50_ns;
  if (batch == 1) {
    row.goal = "under 1.3 times the limit";
    row.goal_met = row.times_limit < 1.3;
  } else if (std::string_view(name).starts_with("batch_store")) {
    row.goal = "over 400,000 keys/s";
    row.goal_met = row.per_second > 400e3;
  }
  return row;
}

Status MeasurePlacement(const BenchSpec& spec, uint64_t keys, Operations& operations,
                        BenchWorker& echo, const std::string& placement,
                        std::vector<BenchRow>* rows) {
  MARU_ASSIGN_OR_RETURN(const FrameSizes ping,
                        SizesOf(wire::PingRequest{}, wire::PingReply{}, wire::MessageType::kPing));
  MARU_ASSIGN_OR_RETURN(const FrameSizes store, StoreSizes(1));
  MARU_ASSIGN_OR_RETURN(const FrameSizes stores, StoreSizes(kStoreBatch));
  MARU_ASSIGN_OR_RETURN(const FrameSizes remove, DeleteSizes(1));
  MARU_ASSIGN_OR_RETURN(const FrameSizes removes, DeleteSizes(kStoreBatch));
  const uint64_t count = spec.messages;
  const uint64_t batches = std::max<uint64_t>(1, count / 8);
  BenchRounds pings, single, deleted, batch, batch_deleted;
  for (uint32_t round = 0; round < spec.repetitions; ++round) {
    MARU_RETURN_IF_ERROR(spec.go_on());
    Samples a(count), b(count), c(count), d(batches), e(batches);
    MARU_RETURN_IF_ERROR(operations.Ping(count, &a));
    MARU_RETURN_IF_ERROR(AddRound(std::move(a), echo, ping, count, &pings));
    MARU_RETURN_IF_ERROR(operations.Store(count, &b, &c));
    MARU_RETURN_IF_ERROR(AddRound(std::move(b), echo, store, count, &single));
    MARU_RETURN_IF_ERROR(AddRound(std::move(c), echo, remove, count, &deleted));
    MARU_RETURN_IF_ERROR(operations.BatchStore(batches, &d, &e));
    MARU_RETURN_IF_ERROR(AddRound(std::move(d), echo, stores, batches, &batch));
    MARU_RETURN_IF_ERROR(AddRound(std::move(e), echo, removes, batches, &batch_deleted));
  }
  rows->push_back(RowOf(pings, "ping", keys, 1, placement));
  rows->push_back(RowOf(single, "alloc and store", keys, 1, placement));
  rows->push_back(RowOf(deleted, "delete", keys, 1, placement));
  rows->push_back(RowOf(batch, "batch_store, with alloc", keys, kStoreBatch, placement));
  rows->push_back(RowOf(batch_deleted, "batch_delete", keys, kStoreBatch, placement));
  return OkStatus();
}

}  // namespace

Status BenchSocket(const BenchSpec& spec, uint64_t keys, const BenchNote& note,
                   std::vector<BenchRow>* rows) {
  MARU_ASSIGN_OR_RETURN(const auto client, BenchClient(spec, spec.page_bytes));
  Operations operations(client.get(), spec.page_bytes);
  MARU_ASSIGN_OR_RETURN(const auto echo, BenchWorker::Start(spec, 0, -1, nullptr));
  Status status;
  for (const BenchPlacement& placement : PlacementsOf(spec)) {
    note("messages, client and server: " + placement.name);
    status = Place(spec, placement, {}, *echo);
    if (status.ok()) {
      status = MeasurePlacement(spec, keys, operations, *echo, placement.name, rows);
    }
    if (!status.ok()) break;
  }
  // As it was, for what is measured next.
  const Status back = Unplace(spec);
  return status.ok() ? back : status;
}

}  // namespace maru::tools
