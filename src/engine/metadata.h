// The meaning of each request of upstream's metadata protocol (docs/formats/upstream_metadata.md):
// a request in, its reply out, in one step; only a region that is asked for, and a register that
// takes many keys their bytes, may take several. No request scans anything that grows with the
// keys.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "engine/core.h"
#include "engine/extents.h"
#include "engine/lending.h"
#include "engine/metadata_context.h"
#include "wire/compat/metadata.h"

namespace maru::engine {

class Metadata {
 public:
  // In one reply.
  static constexpr size_t kAllocationsMax = 65'536;
  static constexpr size_t kInstancesMax = 4'096;
  // Extents that lose their keys to registers in one step: so many to the first one, beside one for
  // each entry, which is all that most need, and so many to each that goes on.
  static constexpr size_t kOverwritesFirst = 64;
  static constexpr size_t kOverwritesPerStep = 1024;
  // So often in a step, since each time reads every lease slot twice. Once is enough but where
  // entries of a batch overlap each other.
  static constexpr size_t kOverwriteRoundsPerStep = 4;

  Metadata(Core* core, Retirement* retirement, Lending* lending, Extents* extents)
      : core_(core), retirement_(retirement), lending_(lending), extents_(extents) {}

  // A request that does not fit its type, or a type that is none: ErrorReply. All steps at once.
  wire::compat::MetadataReply Answer(const MetadataContext& context,
                                     wire::compat::MetadataType type,
                                     const wire::compat::MetadataRequest& request);
  // The same for a request that may take several steps: a region that is asked for, a register. 0:
  // the reply is there; else a number, for which GoOn does the next step. REQUIRES for both of
  // those, and for GiveUp: it was given by Begin, and no reply yet.
  uint64_t Begin(const MetadataContext& context, wire::compat::MetadataType type,
                 const wire::compat::MetadataRequest& request, wire::compat::MetadataReply* reply);
  std::optional<wire::compat::MetadataReply> GoOn(uint64_t number);
  void GiveUp(uint64_t number);
  // The reply reached nobody: a region that it names is nobody's.
  void Undelivered(const wire::compat::MetadataReply& reply);
  // Its endpoint was opened or closed: see Lending.
  void StartLeasesAnew(const MetadataContext& context);

 private:
  wire::compat::MetadataReply InOneStep(const MetadataContext& context,
                                        wire::compat::MetadataType type,
                                        const wire::compat::MetadataRequest& request);
  Result<uint64_t> AskRegion(const MetadataContext& context,
                             const wire::compat::AllocRequest& request);
  wire::compat::MetadataReply Return(const MetadataContext& context,
                                     const wire::compat::ReturnAllocRequest& request);
  wire::compat::MetadataReply List(const MetadataContext& context,
                                   const wire::compat::ListAllocationsRequest& request) const;
  // 0, or its number.
  uint64_t BeginRegister(const catalogue::Namespace& name_space, wire::compat::MetadataType type,
                         const wire::compat::RegisterRequest& request,
                         wire::compat::MetadataReply* reply);
  std::optional<wire::compat::MetadataReply> GoOnRegister(AskedRegisters::iterator asked);
  wire::compat::MetadataReply Keys(const catalogue::Namespace& name_space,
                                   wire::compat::MetadataType type,
                                   const wire::compat::KeysRequest& request);
  // Keys whose look-up is begun ahead, so that their cache misses overlap.
  static constexpr size_t kAhead = 16;
  template <typename Body>  // body(i) for each key, in order
  void ForEach(const catalogue::Namespace& name_space, std::span<const std::string_view> keys,
               const Body& body);
  wire::compat::MetadataReply OneKey(const catalogue::Namespace& name_space,
                                     wire::compat::MetadataType type, std::string_view key);
  wire::compat::MetadataReply Heartbeat(const MetadataContext& context,
                                        const wire::compat::HeartbeatRequest& request);
  uint64_t LeaseNs(const MetadataContext& context) const;  // 0: clients have no leases
  wire::compat::MetadataReply Plain(const MetadataContext& context,
                                    wire::compat::MetadataType type) const;
  wire::compat::MetadataReply Stats(const MetadataContext& context) const;
  wire::compat::MetadataReply Usage(const MetadataContext& context) const;
  // Of the pools that the endpoint's clients can use.
  wire::compat::PoolSizes Sizes(const MetadataContext& context) const;
  wire::compat::MetadataReply Handshake(const MetadataContext& context) const;

  Core* core_;
  Retirement* retirement_;
  Lending* lending_;
  Extents* extents_;
};

}  // namespace maru::engine
