#include "server/server.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "layout/describe.h"
#include "net/event_loop.h"
#include "net/unix_endpoint.h"
#include "os/clock.h"
#include "os/event.h"
#include "os/machine.h"
#include "os/process.h"
#include "os/secret_file.h"
#include "pool/pool.h"
#include "pool/pool_file.h"
#include "server/frame_server.h"
#include "server/liveness.h"

namespace maru::server {

namespace {

constexpr uint64_t kTickAfterActivityNs = 20'000'000;

// The machine's boot id as the two words of the root: the digits of its text form.
Result<std::array<uint64_t, 2>> BootWords() {
  MARU_ASSIGN_OR_RETURN(const std::string text, os::BootId());
  std::array<uint64_t, 2> words = {0, 0};
  size_t digits = 0;
  for (char c : text) {
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a') + 10;
    } else {
      continue;
    }
    if (digits >= 32) break;
    words[digits / 16] = words[digits / 16] << 4 | digit;
    ++digits;
  }
  return words;
}

// The key of the tokens in handles, the same after a restart where anybody is given handles.
Status FillHandleKey(const UpstreamOptions& options, const std::string& pool,
                     std::span<std::byte> key) {
  if (!options.any()) return os::FillRandom(key);
  const std::string path = pool + ".key";
  const Result<std::vector<std::byte>> kept = os::LoadOrMakeSecret(path, key.size());
  if (!kept.ok()) {
    return Status(kept.status().code(),
                  std::string(kept.status().message()) +
                      "; clients of upstream's protocols are served with that key alone, and not "
                      "at all with --listen none --rm-listen none");
  }
  std::ranges::copy(*kept, key.begin());
  return OkStatus();
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const Clock* clock) : clock_(clock) {}
  ~Impl();

  Status Open(const ServerOptions& options);
  Status Run();
  void Stop() { loop_->Stop(); }
  std::vector<PoolSummary> pools() const;
  const std::vector<std::string>& addresses() const { return addresses_; }
  UpstreamAddresses upstream() const {
    return upstream_ == nullptr ? UpstreamAddresses() : upstream_->addresses();
  }

 private:
  Status OpenPool(const PoolSpec& spec, const pool::OpenOptions& open);
  Status MakeAdmission(const std::string& group, Admission* admission);
  Status Listen(const ServerOptions& options, const Admission& admission);
  Status ListenAt(const os::UnixAddress& address, const Admission& admission);
  Status ListenUpstream(const UpstreamOptions& options);
  // What is told of the unix socket to handlers that come by upstream's protocol.
  Result<wire::compat::LocalRoad> LocalRoad() const;
  // 0: no more, until there is activity.
  void ScheduleTick(uint64_t at_ns);
  void OnActivity();

  const Clock* const clock_;
  std::vector<std::unique_ptr<pool::Pool>> pools_;
  std::vector<const os::File*> files_;
  std::unique_ptr<OsLiveness> liveness_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<net::EventLoop> loop_;
  std::unique_ptr<FrameServer> frames_;
  std::unique_ptr<net::UnixEndpoint> endpoint_;
  std::unique_ptr<UpstreamListeners> upstream_;
  std::vector<std::string> addresses_;
  std::unique_ptr<os::SignalFd> signals_;
  uint64_t tick_at_ns_ = 0;
};

Server::Impl::~Impl() {
  upstream_.reset();
  endpoint_.reset();
  frames_.reset();
  engine_.reset();
}

Status Server::Impl::OpenPool(const PoolSpec& spec, const pool::OpenOptions& open) {
  // Clients of upstream's resource manager open it by this name.
  MARU_ASSIGN_OR_RETURN(const std::string path, os::AbsolutePath(spec.path));
  MARU_ASSIGN_OR_RETURN(const os::PathKind kind, os::KindOf(path));
  if (kind == os::PathKind::kMissing || spec.fresh) {
    if (spec.create_bytes == 0) {
      return NotFound("no pool at " + path + ": give it a size to make one");
    }
    std::vector<uint32_t> bases;
    for (const auto& other : pools_) bases.push_back(other->region_id_base());
    pool::InitOptions init;
    init.flags = spec.checksums ? layout::kFlagChecksums : 0;
    init.existing = spec.fresh ? pool::Existing::kReplace : pool::Existing::kRefuse;
    init.bases_in_use = bases;
    MARU_RETURN_IF_ERROR(pool::InitPool(path, spec.create_bytes, init).status());
  }
  MARU_ASSIGN_OR_RETURN(auto backing, pool::FileBacking::OpenForServing(path));
  const os::File* const file = &backing->file();
  MARU_ASSIGN_OR_RETURN(auto pool, pool::Pool::Open(std::move(backing), open));
  const uint64_t bytes = pool->superblock().pool_bytes;
  if (spec.create_bytes != 0 && spec.create_bytes != bytes) {
    LogWarning("pool " + path + " is there with " + FormatSize(bytes) + ", not the " +
               FormatSize(spec.create_bytes) + " asked for: --fresh makes it anew");
  }
  const bool checksums = (pool->superblock().flags & layout::kFlagChecksums) != 0;
  if (spec.checksums && !checksums) {
    LogWarning("pool " + path + " is there without checksums: --fresh makes it anew");
  }
  files_.push_back(file);
  pools_.push_back(std::move(pool));
  return OkStatus();
}

Status Server::Impl::MakeAdmission(const std::string& group, Admission* admission) {
  admission->uid = os::UserId();
  if (group.empty()) return OkStatus();
  MARU_ASSIGN_OR_RETURN(admission->gid, os::FindGroup(group));
  admission->has_group = true;
  admission->group_name = group;
  for (const os::File* file : files_) {
    MARU_RETURN_IF_ERROR(file->SetGroup(admission->gid));
    MARU_RETURN_IF_ERROR(file->SetMode(os::kModeGroup));
  }
  return OkStatus();
}

Status Server::Impl::Listen(const ServerOptions& options, const Admission& admission) {
  frames_ =
      std::make_unique<FrameServer>(engine_.get(), liveness_.get(), files_, admission, clock_);
  frames_->on_activity = [this] { OnActivity(); };
  MARU_RETURN_IF_ERROR(frames_->OpenShared());
  endpoint_ = std::make_unique<net::UnixEndpoint>(loop_.get(), frames_.get());
  MARU_ASSIGN_OR_RETURN(const os::UnixAddress address, os::UnixAddress::Parse(options.socket_path));
  MARU_RETURN_IF_ERROR(ListenAt(address, admission));
  if (address.is_abstract()) return OkStatus();
  // Named for the pool: the same after a restart, another for each server, and nothing that can be
  // told before the pool was made. Who has seen it can still bind it while this server is down;
  // clients notice by that process's uid, and this server goes on with its path.
  MARU_ASSIGN_OR_RETURN(
      const os::UnixAddress beside,
      os::UnixAddress::Abstract("maru-" + layout::UuidText(pools_[0]->superblock().device.uuid)));
  Status listening = ListenAt(beside, admission);
  if (listening.code() != StatusCode::kAlreadyExists) return listening;
  LogWarning("clients reach this server by its path only: " + std::string(listening.message()));
  return OkStatus();
}

Status Server::Impl::ListenAt(const os::UnixAddress& address, const Admission& admission) {
  MARU_ASSIGN_OR_RETURN(
      os::UnixListener listener,
      os::UnixListener::Listen(address, admission.has_group ? os::kModeGroup : os::kModeOwner));
  if (admission.has_group) MARU_RETURN_IF_ERROR(listener.SetGroup(admission.gid));
  MARU_RETURN_IF_ERROR(endpoint_->Serve(std::move(listener)));
  addresses_.push_back(address.ToString());
  return OkStatus();
}

Result<wire::compat::LocalRoad> Server::Impl::LocalRoad() const {
  wire::compat::LocalRoad road;
  for (const std::string& address : addresses_) {
    if (address.starts_with('@')) {
      road.abstract_name = address;
    } else {
      MARU_ASSIGN_OR_RETURN(road.socket_path, os::AbsolutePath(address));
    }
  }
  MARU_ASSIGN_OR_RETURN(road.host, os::HostIdentity());
  road.pool = layout::UuidText(pools_[0]->superblock().device.uuid);
  return road;
}

Status Server::Impl::ListenUpstream(const UpstreamOptions& options) {
  if (!options.any()) return OkStatus();
  MARU_ASSIGN_OR_RETURN(wire::compat::LocalRoad road, LocalRoad());
  std::vector<std::string> paths;
  for (const auto& pool : pools_) paths.push_back(pool->name());
  MARU_ASSIGN_OR_RETURN(upstream_, UpstreamListeners::Open(options, std::move(road),
                                                           {.engine = engine_.get(),
                                                            .loop = loop_.get(),
                                                            .clock = clock_,
                                                            .on_activity = [this] { OnActivity(); },
                                                            .pool_paths = std::move(paths)}));
  return OkStatus();
}

Status Server::Impl::Open(const ServerOptions& options) {
  if (options.pools.empty()) return InvalidArgument("no pool to serve");
  if (options.pools.size() > layout::kPoolsMax) {
    return InvalidArgument(std::to_string(options.pools.size()) + " pools: at most " +
                           std::to_string(layout::kPoolsMax));
  }
  // A wrong word of the command line leaves no pool behind.
  MARU_RETURN_IF_ERROR(os::UnixAddress::Parse(options.socket_path).status());
  MARU_RETURN_IF_ERROR(CheckUpstreamOptions(options.upstream));
  // One for each connection, and those of the pools and of attach answers on their way.
  const Status limit = os::RaiseDescriptorLimit(net::UnixEndpoint::kConnectionsMax + 256);
  if (!limit.ok()) LogWarning(std::string(limit.message()));
  MARU_ASSIGN_OR_RETURN(loop_, net::EventLoop::Create(clock_));
  pool::OpenOptions open;
  MARU_ASSIGN_OR_RETURN(const auto boot, BootWords());
  open.boot_id[0] = boot[0];
  open.boot_id[1] = boot[1];
  MARU_ASSIGN_OR_RETURN(open.epoch, os::RandomNumber());
  open.epoch |= 1;  // 0 means never served
  for (const PoolSpec& spec : options.pools) MARU_RETURN_IF_ERROR(OpenPool(spec, open));
  std::vector<pool::Pool*> pools;
  for (const auto& pool : pools_) pools.push_back(pool.get());
  MARU_RETURN_IF_ERROR(pool::Pool::CheckPools(pools));
  Admission admission;
  MARU_RETURN_IF_ERROR(MakeAdmission(options.socket_group, &admission));
  liveness_ = std::make_unique<OsLiveness>(files_);
  engine::EngineOptions engine_options = options.engine;
  MARU_RETURN_IF_ERROR(
      FillHandleKey(options.upstream, pools_[0]->name(), engine_options.handle_key));
  const auto now = static_cast<uint64_t>(clock_->Now());
  MARU_ASSIGN_OR_RETURN(
      engine_, engine::Engine::Create(engine_options, pools, liveness_.get(), open.epoch, now,
                                      static_cast<uint64_t>(os::WallTimeNs())));
  // Before anybody can know that it serves: from then on it stops in order.
  MARU_ASSIGN_OR_RETURN(os::SignalFd signals, os::StopSignals());
  signals_ = std::make_unique<os::SignalFd>(std::move(signals));
  MARU_RETURN_IF_ERROR(Listen(options, admission));
  MARU_RETURN_IF_ERROR(ListenUpstream(options.upstream));
  ScheduleTick(now);
  return OkStatus();
}

void Server::Impl::ScheduleTick(uint64_t at_ns) {
  tick_at_ns_ = at_ns;
  loop_->CallAt(at_ns,
                [this] { ScheduleTick(engine_->Tick(static_cast<uint64_t>(clock_->Now()))); });
}

void Server::Impl::OnActivity() {
  const uint64_t soon = static_cast<uint64_t>(clock_->Now()) + kTickAfterActivityNs;
  if (tick_at_ns_ == 0 || tick_at_ns_ > soon) ScheduleTick(soon);
}

Status Server::Impl::Run() {
  MARU_RETURN_IF_ERROR(
      loop_->Watch(signals_->fd(), os::Interest::kRead, [this](const os::ReadyEvent&) {
        const auto signal = signals_->TryTake();
        if (!signal) return;
        LogInfo("signal " + std::to_string(*signal) + ": stopping");
        loop_->Stop();
      }));
  const Status ran = loop_->Run();
  loop_->Unwatch(signals_->fd());
  upstream_.reset();
  endpoint_.reset();
  engine_.reset();
  for (const auto& pool : pools_) pool->CloseCleanly();
  return ran;
}

std::vector<Server::PoolSummary> Server::Impl::pools() const {
  std::vector<PoolSummary> all;
  for (size_t i = 0; i < pools_.size(); ++i) {
    all.push_back({pools_[i]->name(), pools_[i]->superblock().pool_bytes,
                   engine_->Count(PoolIndex(static_cast<uint8_t>(i))).live});
  }
  return all;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Create(const ServerOptions& options, const Clock* clock) {
  auto impl = std::make_unique<Impl>(clock);
  MARU_RETURN_IF_ERROR(impl->Open(options));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Status Server::Run() { return impl_->Run(); }
void Server::Stop() { impl_->Stop(); }
std::vector<Server::PoolSummary> Server::pools() const { return impl_->pools(); }
const std::vector<std::string>& Server::addresses() const { return impl_->addresses(); }
UpstreamAddresses Server::upstream() const { return impl_->upstream(); }

}  // namespace maru::server
