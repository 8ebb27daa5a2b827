// A simulated client process: a real handler over a simulated link, with an application that holds
// pages and views and knows what must be in them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "handler/handler.h"
#include "sim/world.h"
#include "wire/codec.h"

namespace maru::sim {

class SimPool final : public handler::MappedPool {
 public:
  SimPool(World* world, size_t index, const wire::AttachedPool& attached, LockToken token);
  const catalogue::PoolView& view() const override { return view_; }
  const layout::Uuid& uuid() const override { return uuid_; }
  bool checksums() const override { return checksums_; }
  catalogue::Leases& leases() override { return *leases_; }
  Result<std::byte*> Writable(uint64_t offset_bytes, uint64_t length_bytes) override;
  std::vector<uint64_t> LeaseBlocks() const override { return block_offsets_; }
  Status AddLeaseBlocks(std::span<const uint64_t> offsets) override;

 private:
  layout::LeaseSlots* Slots(uint64_t offset_bytes);

  World* const world_;
  const size_t index_;
  const catalogue::PoolView view_;
  const layout::Uuid uuid_;
  const bool checksums_;
  const LockToken token_;  // the lock ends with the last of the process's mappings
  std::vector<uint64_t> block_offsets_;
  std::unique_ptr<catalogue::Leases> leases_;
};

class SimLink final : public handler::Link {
 public:
  SimLink(World* world, uint32_t pid) : world_(world), pid_(pid) {}

  Status Connect(const wire::AttachRequest& request, wire::AttachReply* reply,
                 std::vector<std::shared_ptr<handler::MappedPool>>* pools) override;
  Status Call(const wire::Request& request, Status* server_status, wire::Reply* reply,
              Sent* sent) override;
  void Probe() override {}
  void Disconnect() override;
  void Close() override;
  bool connected() const override;
  uint64_t last_request() const override { return last_request_; }

  bool busy() const { return busy_; }
  // The process is gone: nothing is sent any more, and its mappings write nothing.
  void Die();
  void SetFaults(bool on) { faults_ = on; }

 private:
  enum class Fault : uint8_t {
    kNone,
    kLostRequest,
    kLostReply,
    kLate,
    kRepeat,
    kErrorReply,
    kShortReply,
    kDeathBefore,
    kDeathDuring,
    kDeathAfter,
  };
  Fault DrawFault(const wire::Request& request);
  void Repeat(const wire::Request& request);
  std::vector<std::byte> Encode(const wire::Request& request);
  void Decode(Status* server_status, wire::Reply* reply);
  Status Broken(const char* why);
  Status TimedOut(const char* why);

  World* const world_;
  const uint32_t pid_;
  bool busy_ = false;
  bool dead_ = false;
  bool faults_ = true;
  engine::ConnectionId connection_ = 0;  // 0: none
  uint64_t next_request_ = 1;
  uint64_t last_request_ = 0;
  std::vector<std::shared_ptr<handler::MappedPool>> pools_;
  wire::Decoder decoder_;
  std::vector<std::byte> answer_;  // what the views of the last reply point to
};

class Process {
 public:
  Process(World* world, uint32_t pid, std::string name_space);
  ~Process();

  bool busy() const { return link_.busy(); }
  bool alive() const { return alive_; }
  // One operation of the application, drawn by chance.
  void Act();
  // Every view has its key's bytes, every page in hand what was written to it. Throws Violation.
  void CheckMemory() const;
  void Kill();          // SIGKILL: nothing is cleaned up
  void CloseOrderly();  // views first or later, by chance

 private:
  static constexpr uint32_t kKeys = 24;
  // Where keys are long.
  static constexpr uint64_t kUsualKeys = 64;
  static constexpr uint64_t kRareKeys = 16;
  static constexpr uint64_t kLength = 64;
  static constexpr uint64_t kBatchMax = 6;
  struct Draft {
    handler::PageHandle page;
    uint64_t mark = 0;
    std::shared_ptr<handler::MemoryHold> hold;
  };
  // Memory of a page whose handle is consumed: what was last written there stays.
  struct Lingering {
    std::shared_ptr<handler::MemoryHold> hold;
    const std::byte* data = nullptr;
    std::string bytes;
  };
  struct Held {
    handler::View view;
    std::string key;
  };

  // Where keys are long, most are of one length and share slabs; the rare ones are of many.
  enum class Lengths : uint8_t { kAny, kUsual, kRare };
  std::string DrawKey(Lengths lengths);
  std::vector<std::string> DrawKeys();
  // Where key text is to run out, keys are rarely deleted.
  bool Keeps() const;
  void Alloc();
  void Store();
  void BatchStore();
  void Free();
  void FreeStored();
  void Retrieve();
  void BatchRetrieve();
  void Exists();
  void BatchExists();
  void MatchPrefix();
  void Pin();
  void BatchPin();
  void Unpin();
  void BatchUnpin();
  void Delete();
  void BatchDelete();
  void Keep(handler::View view, const std::string& key);
  // Nothing is known of the pins of a process whose handler has begun anew.
  bool KnowsPins() const { return handler_->epoch_changes() == 0; }
  bool Pinned(const std::string& key) const;
  void DropView();
  // The draft is consumed; its first bytes are these.
  void Consumed(const Draft& draft, std::string bytes);
  void LetGo();
  void Background();
  // One step of an audit, which is one of many.
  void Audit();
  void Misuse();
  void Reconnect();
  void Trace(const char* what, const handler::PageHandle& page) const;
  void Expect(bool held, const std::string& what) const;
  void CheckBytes(std::span<const std::byte> bytes, const std::string& key) const;
  // Without what makes a key long.
  static std::string NameOf(const std::string& key);
  static std::string Content(const std::string& key);
  void Write(const handler::PageHandle& page, const std::string& content) const;

  World* const world_;
  const uint32_t pid_;
  const std::string name_space_;
  const uint64_t page_bytes_;
  SimLink link_;
  std::unique_ptr<handler::Handler> handler_;
  std::vector<Draft> drafts_;
  std::vector<Lingering> lingering_;
  std::vector<Held> views_;
  std::vector<handler::PageHandle> consumed_;  // handles whose life should be over
  std::vector<std::string> pinned_;
  uint64_t audit_ = 0;  // under way; 0: none
  bool alive_ = true;
};

}  // namespace maru::sim
