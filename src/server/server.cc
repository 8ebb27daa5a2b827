#include "server/server.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "layout/describe.h"
#include "net/event_loop.h"
#include "net/unix_endpoint.h"
#include "os/clock.h"
#include "os/event.h"
#include "os/machine.h"
#include "os/process.h"
#include "os/secret_file.h"
#include "pool/pool.h"
#include "pool/pool_image.h"
#include "server/frame_server.h"
#include "server/liveness.h"

namespace maru::server {

namespace {

constexpr uint64_t kTickAfterActivityNs = 20'000'000;
// One for each connection, those of the pools, of attach answers on their way and of ZeroMQ.
constexpr uint64_t kDescriptorsMax = net::UnixEndpoint::kConnectionsMax +
                                     net::UnixEndpoint::kStrangersMax +
                                     net::compat::ResourceManagerEndpoint::kConnectionsMax +
                                     net::compat::PeerLimit::kPeersMax + 1024;

// Of the tokens in handles, the same after a restart where anybody is given handles.
struct HandleKey {
  enum class Origin : uint8_t { kKept, kDrawn };
  Origin origin = Origin::kKept;
  std::vector<std::byte> bytes;
  std::string made;  // the file beside the first pool, if this start has made it
};

// That of the first pool that has one: handles stay what they are in whatever order pools come. It
// is put beside the first pool, so that it is there when only some come.
Result<HandleKey> TakeHandleKey(const std::vector<pool::Pool*>& pools, size_t key_bytes) {
  HandleKey key;
  const auto path_of = [](const pool::Pool* pool) { return pool->name() + ".key"; };
  const std::string first = path_of(pools.front());
  for (const pool::Pool* const pool : pools) {
    const std::string path = path_of(pool);
    MARU_ASSIGN_OR_RETURN(const os::PathKind kind, os::KindOf(path));
    if (kind == os::PathKind::kMissing) continue;
    MARU_ASSIGN_OR_RETURN(key.bytes, os::LoadOrMakeSecret(path, key_bytes));
    if (path == first) return key;
    MARU_RETURN_IF_ERROR(os::WriteTextFile(first, AsText(key.bytes)));
    key.made = first;
    return key;
  }
  MARU_ASSIGN_OR_RETURN(key.bytes, os::LoadOrMakeSecret(first, key_bytes));
  key.origin = HandleKey::Origin::kDrawn;
  key.made = first;
  return key;
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const Clock* clock) : clock_(clock) {}
  ~Impl();

  // What it has made goes again when it fails.
  Status Open(const ServerOptions& options);
  Status Run();
  void Stop() { loop_->Stop(); }
  std::vector<PoolSummary> pools() const;
  const std::vector<std::string>& addresses() const { return addresses_; }
  UpstreamAddresses upstream() const {
    return upstream_ == nullptr ? UpstreamAddresses() : upstream_->addresses();
  }

 private:
  static Result<Admission> FindAdmission(const std::string& group);
  Status OpenAll(const ServerOptions& options);
  Status OpenEngine(const ServerOptions& options);
  Result<HandleKey> FindHandleKey(size_t key_bytes);
  void TellOfNewKey() const;
  // The pools' files, for who may attach.
  Status SetAccess(const Admission& admission);
  Status Listen(os::UnixListener listener, const Admission& admission);
  Status ListenAt(os::UnixListener listener, const Admission& admission);
  Status ListenUpstream(const UpstreamOptions& options);
  // What is told of the unix socket to handlers that come by upstream's protocol.
  Result<wire::compat::LocalRoad> LocalRoad() const;
  // 0: no more, until there is activity.
  void ScheduleTick(uint64_t at_ns);
  void OnActivity();

  const Clock* const clock_;
  PoolSet pool_set_;
  std::vector<pool::Pool*> pools_;
  std::vector<const os::File*> files_;
  std::unique_ptr<OsLiveness> liveness_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<net::EventLoop> loop_;
  std::unique_ptr<FrameServer> frames_;
  std::unique_ptr<net::UnixEndpoint> endpoint_;
  net::compat::PeerLimit metadata_peers_;
  size_t rm_connections_max_ = 0;
  std::unique_ptr<UpstreamListeners> upstream_;
  std::vector<std::string> addresses_;
  std::unique_ptr<os::SignalFd> signals_;
  std::string made_key_;  // the key's file, if this start has made it
  uint64_t tick_at_ns_ = 0;
};

Server::Impl::~Impl() {
  upstream_.reset();
  endpoint_.reset();
  frames_.reset();
  engine_.reset();
}

Result<Admission> Server::Impl::FindAdmission(const std::string& group) {
  Admission admission{.uid = os::UserId()};
  if (group.empty()) return admission;
  MARU_ASSIGN_OR_RETURN(admission.gid, os::FindGroup(group));
  admission.has_group = true;
  admission.group_name = group;
  return admission;
}

Status Server::Impl::SetAccess(const Admission& admission) {
  for (const os::File* file : files_) {
    if (admission.has_group) MARU_RETURN_IF_ERROR(file->SetGroup(admission.gid));
    // Without a group too: an earlier start may have had one.
    MARU_RETURN_IF_ERROR(file->SetMode(admission.has_group ? os::kModeGroup : os::kModeOwner));
  }
  return OkStatus();
}

Status Server::Impl::Listen(os::UnixListener listener, const Admission& admission) {
  frames_ =
      std::make_unique<FrameServer>(engine_.get(), liveness_.get(), files_, admission, clock_);
  frames_->on_activity = [this] { OnActivity(); };
  MARU_RETURN_IF_ERROR(frames_->OpenShared());
  endpoint_ = std::make_unique<net::UnixEndpoint>(loop_.get(), frames_.get());
  const bool is_abstract = listener.address().is_abstract();
  MARU_RETURN_IF_ERROR(ListenAt(std::move(listener), admission));
  if (is_abstract) return OkStatus();
  // Named for the pool: the same after a restart, another for each server, and nothing that can be
  // told before the pool was made. Who has seen it can still bind it while this server is down;
  // clients notice by that process's uid, and this server goes on with its path.
  MARU_ASSIGN_OR_RETURN(
      const os::UnixAddress beside,
      os::UnixAddress::Abstract("maru-" + layout::UuidText(pools_[0]->superblock().device.uuid)));
  Result<os::UnixListener> second = os::UnixListener::Bind(beside, os::kModeOwner);
  if (second.ok()) return ListenAt(std::move(*second), admission);
  if (second.status().code() != StatusCode::kAlreadyExists) return second.status();
  LogWarning("clients reach this server by its path only: " +
             std::string(second.status().message()));
  return OkStatus();
}

Status Server::Impl::ListenAt(os::UnixListener listener, const Admission& admission) {
  if (admission.has_group) MARU_RETURN_IF_ERROR(listener.SetGroup(admission.gid));
  MARU_RETURN_IF_ERROR(listener.Listen());
  addresses_.push_back(listener.address().ToString());
  return endpoint_->Serve(std::move(listener));
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
  MARU_ASSIGN_OR_RETURN(upstream_,
                        UpstreamListeners::Open(options, std::move(road),
                                                {.engine = engine_.get(),
                                                 .loop = loop_.get(),
                                                 .clock = clock_,
                                                 .on_activity = [this] { OnActivity(); },
                                                 .pool_paths = std::move(paths),
                                                 .metadata_peers = &metadata_peers_,
                                                 .rm_connections_max = rm_connections_max_}));
  return OkStatus();
}

Status Server::Impl::Open(const ServerOptions& options) {
  Status opened = OpenAll(options);
  if (!opened.ok() && !made_key_.empty()) {
    const Status removed = os::RemoveFile(made_key_);
    if (!removed.ok() && removed.code() != StatusCode::kNotFound) {
      LogWarning(std::string(removed.message()));
    }
  }
  return opened;
}

Status Server::Impl::OpenAll(const ServerOptions& options) {
  if (options.pools.empty()) return InvalidArgument("no pool to serve");
  if (options.pools.size() > layout::kPoolsMax) {
    return InvalidArgument(std::to_string(options.pools.size()) + " pools: at most " +
                           std::to_string(layout::kPoolsMax));
  }
  MARU_ASSIGN_OR_RETURN(const os::UnixAddress address, os::UnixAddress::Parse(options.socket_path));
  MARU_RETURN_IF_ERROR(CheckUpstreamOptions(options.upstream));
  MARU_ASSIGN_OR_RETURN(const Admission admission, FindAdmission(options.socket_group));
  // Before anything is made: a start that is stopped is finished first, and stops in order.
  MARU_ASSIGN_OR_RETURN(os::SignalFd signals, os::DaemonSignals());
  signals_ = std::make_unique<os::SignalFd>(std::move(signals));
  const Result<uint64_t> descriptors = os::RaiseDescriptorLimit(kDescriptorsMax);
  if (!descriptors.ok()) LogWarning(std::string(descriptors.status().message()));
  metadata_peers_ = net::compat::PeerLimit::For(descriptors.ok() ? *descriptors : 0);
  rm_connections_max_ =
      net::compat::ResourceManagerEndpoint::ConnectionsFor(descriptors.ok() ? *descriptors : 0);
  MARU_ASSIGN_OR_RETURN(loop_, net::EventLoop::Create(clock_));
  // What others may have is taken first, and what is there is changed last: a start that is refused
  // in between leaves every pool as it was.
  MARU_ASSIGN_OR_RETURN(
      os::UnixListener listener,
      os::UnixListener::Bind(address, admission.has_group ? os::kModeGroup : os::kModeOwner));
  MARU_RETURN_IF_ERROR(pool_set_.Claim(options.pools));
  MARU_RETURN_IF_ERROR(OpenEngine(options));
  MARU_RETURN_IF_ERROR(Listen(std::move(listener), admission));
  MARU_RETURN_IF_ERROR(ListenUpstream(options.upstream));
  MARU_RETURN_IF_ERROR(SetAccess(admission));
  MARU_RETURN_IF_ERROR(pool_set_.Publish());
  if (upstream_ != nullptr) upstream_->KeepPort();
  ScheduleTick(static_cast<uint64_t>(clock_->Now()));
  return OkStatus();
}

Status Server::Impl::OpenEngine(const ServerOptions& options) {
  pool::OpenOptions open;
  MARU_ASSIGN_OR_RETURN(const auto boot, pool::MachineBootId());
  open.boot_id[0] = boot[0];
  open.boot_id[1] = boot[1];
  MARU_ASSIGN_OR_RETURN(open.epoch, os::RandomNumber());
  open.epoch |= 1;  // 0 means never served
  MARU_RETURN_IF_ERROR(pool_set_.Open(open));
  pools_ = pool_set_.pools();
  files_ = pool_set_.files();
  liveness_ = std::make_unique<OsLiveness>(files_);
  engine::EngineOptions engine_options = options.engine;
  HandleKey key;
  if (options.upstream.any()) {
    MARU_ASSIGN_OR_RETURN(key, FindHandleKey(engine_options.handle_key.size()));
    std::ranges::copy(key.bytes, engine_options.handle_key.begin());
  } else {
    MARU_RETURN_IF_ERROR(os::FillRandom(engine_options.handle_key));
  }
  MARU_ASSIGN_OR_RETURN(engine_,
                        engine::Engine::Create(engine_options, pools_, liveness_.get(), open.epoch,
                                               static_cast<uint64_t>(clock_->Now()),
                                               static_cast<uint64_t>(os::WallTimeNs())));
  if (key.origin == HandleKey::Origin::kDrawn) TellOfNewKey();
  return OkStatus();
}

Result<HandleKey> Server::Impl::FindHandleKey(size_t key_bytes) {
  Result<HandleKey> key = TakeHandleKey(pools_, key_bytes);
  if (key.ok()) {
    made_key_ = key->made;
    return key;
  }
  return Status(key.status().code(),
                std::string(key.status().message()) +
                    "; clients of upstream's protocols are served with that key alone, and not at "
                    "all with --listen none --rm-listen none");
}

// What is owned was lent with the key that was there before.
void Server::Impl::TellOfNewKey() const {
  uint64_t owned = 0;
  for (const pool::Pool* const pool : pools_) {
    owned += static_cast<uint64_t>(std::ranges::count_if(
        pool->ClientRegions(), [](const auto& region) { return region.owner != ClientId(0); }));
  }
  if (owned == 0) return;
  LogWarning("key file " + made_key_ + " was gone and is made anew: the handles of " +
             std::to_string(owned) +
             " regions that clients of upstream's still have are refused from now on; they are "
             "freed when their leases end, or by `maru release`");
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
        if (os::IsHangUp(*signal)) {
          return LogInfo("signal " + std::to_string(*signal) +
                         ": going on; pools are named at the start, nothing is looked for anew");
        }
        LogInfo("signal " + std::to_string(*signal) + ": stopping");
        loop_->Stop();
      }));
  const Status ran = loop_->Run();
  loop_->Unwatch(signals_->fd());
  upstream_.reset();
  endpoint_.reset();
  engine_.reset();
  pools_.clear();
  files_.clear();
  pool_set_.CloseCleanly();
  return ran;
}

std::vector<Server::PoolSummary> Server::Impl::pools() const {
  std::vector<PoolSummary> all;
  for (size_t i = 0; i < pools_.size(); ++i) {
    all.push_back({pools_[i]->name(), pools_[i]->superblock().pool_bytes,
                   engine_->CountKeys(PoolIndex(static_cast<uint8_t>(i)))});
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
