// Look-ups of batches: one entry for each key, or an error that says which key it met.

#include "handler_fixture.h"

namespace maru::handler {
namespace {

TEST(LookupTest, AWrongPageIsToldByItsKeysPlaceInTheBatch) {
  Host host({.flags = layout::kFlagChecksums});
  Instance instance(&host);
  ASSERT_OK(instance->Connect());
  const std::vector<std::string> texts = {"a", "b", "c", "d"};
  std::vector<std::string_view> keys;
  for (const std::string& text : texts) {
    keys.push_back(text);
    const PageHandle page = Written(instance, text);
    ASSERT_TRUE(instance->Store(text, page, text.size()).value());
    if (text == "c") *page.data = std::byte{'x'};  // what no writer may do
  }
  const auto views = instance->BatchRetrieve(keys, Verify::kChecksum);
  EXPECT_CODE(views, kDataLoss);
  EXPECT_TRUE(views.status().message().starts_with("key 3 of 4 (from 1): the bytes of page "))
      << views.status().ToString();
  for (const Status& told : {views.status(), instance->Retrieve("c", Verify::kChecksum).status()}) {
    EXPECT_TRUE(told.message().ends_with(" do not match their checksum, key \"c\""))
        << told.ToString();
  }
  EXPECT_EQ(instance.counters().leases, 0u) << "an error holds nothing";
  // The others are to be had, and the key is still one until it is deleted.
  EXPECT_TRUE(instance->Exists("c").value());
  keys.erase(keys.begin() + 2);
  const auto others = instance->BatchRetrieve(keys, Verify::kChecksum);
  ASSERT_OK(others);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(TextOf((*others)[i]), keys[i]);
  EXPECT_EQ(instance->Delete("c").value(), wire::DeleteOutcome::kDeleted);
}

}  // namespace
}  // namespace maru::handler
