#include "server/pool_set.h"

#include <set>
#include <utility>

#include "base/log.h"
#include "base/units.h"

namespace maru::server {

namespace {

// The same for two spellings of one path, whether there is a file or not: its folder and its name.
std::string PlaceOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const Result<os::File> folder =
      os::File::Open(path.substr(0, slash + 1) + ".", os::Access::kRead);
  if (!folder.ok()) return path;
  const Result<os::FileFacts> facts = folder->Facts();
  if (!facts.ok()) return path;
  return std::to_string(facts->device) + ":" + std::to_string(facts->inode) + path.substr(slash);
}

}  // namespace

Status PoolSet::Claim(std::span<const PoolSpec> specs) {
  std::vector<Member*> to_make;
  std::set<std::string> places;
  members_.reserve(specs.size());
  for (const PoolSpec& spec : specs) {
    Member& member = members_.emplace_back();
    member.spec = spec;
    // Clients of upstream's resource manager open it by this name.
    MARU_ASSIGN_OR_RETURN(member.path, os::AbsolutePath(spec.path));
    const std::string place = PlaceOf(member.path);
    if (!places.insert(place).second) {
      return InvalidArgument("pool " + member.path + " is named twice: each --pool is another one");
    }
    MARU_ASSIGN_OR_RETURN(const os::PathKind kind, os::KindOf(member.path));
    if (kind == os::PathKind::kMissing || spec.fresh) {
      to_make.push_back(&member);
    } else {
      MARU_RETURN_IF_ERROR(ClaimThere(&member));
    }
  }
  // Afterwards, since their region ids are drawn beside those of all the others.
  for (Member* member : to_make) MARU_RETURN_IF_ERROR(ClaimNew(member));
  std::vector<pool::Pool::Identity> pools;
  for (const Member& member : members_) {
    const layout::Superblock& block = member.backing->superblock();
    pools.push_back({member.path, block.device.uuid, block.region_id_base});
  }
  return pool::Pool::CheckPools(pools);
}

Status PoolSet::ClaimThere(Member* member) {
  MARU_ASSIGN_OR_RETURN(member->backing, pool::FileBacking::OpenForServing(member->path));
  return OkStatus();
}

Status PoolSet::ClaimNew(Member* member) {
  const PoolSpec& spec = member->spec;
  if (spec.create_bytes == 0) {
    return NotFound("no pool at " + member->path + ": give it a size to make one");
  }
  std::vector<uint32_t> bases;
  for (const Member& other : members_) {
    if (other.backing != nullptr) bases.push_back(other.backing->superblock().region_id_base);
  }
  pool::InitOptions init;
  init.flags = spec.checksums ? layout::kFlagChecksums : 0;
  init.existing = spec.fresh ? pool::Existing::kReplace : pool::Existing::kRefuse;
  init.bases_in_use = bases;
  init.size_option = "size=SIZE in --pool";
  MARU_ASSIGN_OR_RETURN(pool::NewPool made,
                        pool::NewPool::Make(member->path, spec.create_bytes, init));
  member->made = std::make_unique<pool::NewPool>(std::move(made));
  MARU_ASSIGN_OR_RETURN(member->backing, member->made->TakeBacking());
  return OkStatus();
}

Status PoolSet::Open(const pool::OpenOptions& options) {
  for (Member& member : members_) MARU_RETURN_IF_ERROR(OpenOne(options, &member));
  return OkStatus();
}

Status PoolSet::OpenOne(const pool::OpenOptions& options, Member* member) {
  member->file = &member->backing->file();
  MARU_ASSIGN_OR_RETURN(member->pool, pool::Pool::Open(std::move(member->backing), options));
  const PoolSpec& spec = member->spec;
  const layout::Superblock& block = member->pool->superblock();
  if (spec.create_bytes != 0 && spec.create_bytes != block.pool_bytes) {
    LogWarning("pool " + member->path + " is there with " + FormatSize(block.pool_bytes) +
               ", not the " + FormatSize(spec.create_bytes) + " asked for: --fresh makes it anew");
  }
  if (spec.checksums && (block.flags & layout::kFlagChecksums) == 0) {
    LogWarning("pool " + member->path + " is there without checksums: --fresh makes it anew");
  }
  return OkStatus();
}

Status PoolSet::Publish() {
  for (Member& member : members_) {
    if (member.made != nullptr) MARU_RETURN_IF_ERROR(member.made->Publish());
    member.made.reset();
  }
  return OkStatus();
}

void PoolSet::CloseCleanly() {
  for (Member& member : members_) {
    if (member.pool != nullptr) member.pool->CloseCleanly();
  }
  members_.clear();
}

std::vector<pool::Pool*> PoolSet::pools() const {
  std::vector<pool::Pool*> all;
  for (const Member& member : members_) all.push_back(member.pool.get());
  return all;
}

std::vector<const os::File*> PoolSet::files() const {
  std::vector<const os::File*> all;
  for (const Member& member : members_) all.push_back(member.file);
  return all;
}

}  // namespace maru::server
