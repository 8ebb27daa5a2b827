#include "wire/auth/handle_mac.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/testing.h"
#include "os/secret_file.h"
#include "os/temp_folder.h"

namespace maru::wire::auth {
namespace {

using compat::Handle;

std::vector<std::byte> CountingKey() {
  std::vector<std::byte> key;
  for (int i = 0; i < 16; ++i) key.push_back(static_cast<std::byte>(i));
  return key;
}

// The reference values of SipHash-2-4 are for the key 00 01 .. 0f and the input 00 01 .. of each
// length; this is the one of 24 bytes.
TEST(HandleMac, IsSipHash24) {
  const HandleMac mac = *HandleMac::Create(CountingKey());
  const Handle handle{0x0706050403020100, 0x0f0e0d0c0b0a0908, 0x1716151413121110, 0};
  EXPECT_EQ(mac.Sign(handle).auth_token, 0xb8ad50c6f649af94);
}

TEST(HandleMac, VerifiesWhatItSignedAndNothingElse) {
  const HandleMac mac = *HandleMac::Create(CountingKey());
  const Handle handle = mac.Sign({7, 0, 4 << 20, 0});
  EXPECT_TRUE(mac.Verify(handle));
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t flip = uint64_t{1} << bit;
    for (uint64_t Handle::* field :
         {&Handle::region_id, &Handle::offset_bytes, &Handle::length_bytes, &Handle::auth_token}) {
      Handle other = handle;
      other.*field ^= flip;
      EXPECT_FALSE(mac.Verify(other)) << "bit " << bit;
    }
  }
  EXPECT_FALSE(mac.Verify({0, 7, 4 << 20, handle.auth_token})) << "fields in another place";
}

TEST(HandleMac, DependsOnEachBitOfTheKey) {
  std::set<uint64_t> tokens;
  for (int bit = -1; bit < 128; ++bit) {
    std::vector<std::byte> key = CountingKey();
    if (bit >= 0) key[bit / 8] ^= std::byte(1 << bit % 8);
    tokens.insert(HandleMac::Create(key)->Sign({1, 2, 3, 0}).auth_token);
  }
  EXPECT_EQ(tokens.size(), 129u);
}

TEST(HandleMac, TokensStayValidWithTheKeyFile) {
  ASSERT_OK_AND_ASSIGN(const os::TempFolder folder, os::TempFolder::Create());
  const auto from_file = [&] {
    return *HandleMac::Create(*os::LoadOrMakeSecret(folder.File("key"), HandleMac::kKeyBytes));
  };
  const Handle handle = from_file().Sign({7, 8, 9, 0});
  EXPECT_TRUE(from_file().Verify(handle));
}

TEST(HandleMac, RefusesKeysOfAnotherSize) {
  for (const size_t size : {0, 15, 17}) {
    EXPECT_CODE(HandleMac::Create(std::vector<std::byte>(size)), kInvalidArgument);
  }
}

}  // namespace
}  // namespace maru::wire::auth
