// Keys that clients of upstream's protocol have registered in their own regions, read by a handler.

#include "engine/test_upstream.h"
#include "handler_fixture.h"

namespace maru::handler {
namespace {

struct ExtentTest : HandlerFixture {
  // Registered by a client of upstream's protocol, with these bytes. Its region's id.
  uint64_t PutExtent(std::string_view key, uint64_t offset_bytes, std::string_view bytes) {
    return host.With([&](engine::TestEngine& engine) {
      engine::UpstreamClient upstream(&engine, "prefill-0");
      const auto handle = upstream.TryAlloc(kMiB).handle.value();
      std::memcpy(engine.base() + handle.offset_bytes + offset_bytes, bytes.data(), bytes.size());
      EXPECT_TRUE(upstream.Register(key, handle.region_id, offset_bytes, bytes.size()));
      return handle.region_id;
    });
  }
  bool DeleteUpstream(std::string_view key) {
    return host.With([&](engine::TestEngine& engine) {
      return engine::UpstreamClient(&engine, "prefill-0").Delete(key);
    });
  }
};

TEST_F(ExtentTest, IsReadInPlaceLikeAPage) {
  const uint64_t region = PutExtent("key", 12'345, "the bytes");
  EXPECT_TRUE(one->Exists("key").value());
  const Result<View> view = one->Retrieve("key", Verify::kNo);
  ASSERT_OK(view);
  EXPECT_EQ(TextOf(*view), "the bytes");
  EXPECT_EQ(view->region_id(), region);
  const std::string_view keys[] = {"key", "missing"};
  const Result<std::vector<View>> views = other->BatchRetrieve(keys, Verify::kNo);
  ASSERT_OK(views);
  EXPECT_EQ(TextOf((*views)[0]), "the bytes");
  EXPECT_FALSE((*views)[1]);
}

TEST_F(ExtentTest, IsNotDeletedWhileAViewOrAPinHoldsIt) {
  PutExtent("key", 0, "text");
  {
    const Result<View> view = one->Retrieve("key", Verify::kNo);
    ASSERT_OK(view);
    EXPECT_FALSE(DeleteUpstream("key"));
    EXPECT_EQ(TextOf(*view), "text");
  }
  EXPECT_TRUE(one->Pin("key").value());
  EXPECT_FALSE(DeleteUpstream("key"));
  EXPECT_TRUE(one->Unpin("key").value());
  EXPECT_TRUE(DeleteUpstream("key"));
  EXPECT_EQ(Get(one, "key"), "");
}

TEST_F(ExtentTest, AStoreOfItsKeyIsADuplicate) {
  PutExtent("key", 0, "theirs");
  EXPECT_TRUE(Put(one, "key").value());
  EXPECT_EQ(one.counters().duplicates, 1u);
  EXPECT_EQ(Get(other, "key"), "theirs");
}

TEST(ExtentChecksumTest, AReaderThatAsksForOneIsToldThatThereIsNone) {
  Host host({.flags = layout::kFlagChecksums});
  Instance instance{&host};
  ASSERT_OK(instance->Connect());
  host.With([](engine::TestEngine& engine) {
    engine::UpstreamClient upstream(&engine, "prefill-0");
    EXPECT_TRUE(upstream.Register("key", upstream.Alloc(), 0, 4));
  });
  EXPECT_CODE(instance->Retrieve("key", Verify::kChecksum), kFailedPrecondition);
  EXPECT_OK(instance->Retrieve("key", Verify::kNo));
  EXPECT_EQ(instance.counters().leases, 0u);
}

}  // namespace
}  // namespace maru::handler
