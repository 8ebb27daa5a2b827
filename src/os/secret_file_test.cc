#include "os/secret_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/testing.h"
#include "os/file.h"
#include "os/temp_folder.h"

namespace maru::os {
namespace {

using Key = std::vector<std::byte>;

class SecretFileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(folder_); }
  std::string Path() const { return folder_->File("key"); }

  Result<TempFolder> folder_ = TempFolder::Create();
};

TEST_F(SecretFileTest, MakesAKeyOnceAndKeepsIt) {
  ASSERT_OK_AND_ASSIGN(const Key key, LoadOrMakeSecret(Path(), 16));
  EXPECT_EQ(key.size(), 16u);
  EXPECT_FALSE(std::ranges::all_of(key, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(*LoadOrMakeSecret(Path(), 16), key);
  EXPECT_NE(*LoadOrMakeSecret(folder_->File("other"), 16), key);
  ASSERT_OK_AND_ASSIGN(const File file, File::Open(Path(), Access::kRead));
  EXPECT_EQ(file.Facts()->mode, 0600u);
  EXPECT_EQ(ListDirectory(folder_->path(), 10)->size(), 2u) << "nothing is left beside the keys";
}

TEST_F(SecretFileTest, RefusesAKeyThatOthersCanRead) {
  ASSERT_OK(LoadOrMakeSecret(Path(), 16));
  for (const uint32_t mode : {0640u, 0604u, 0620u, 0700u}) {
    ASSERT_OK_AND_ASSIGN(const File file, File::Open(Path(), Access::kRead));
    ASSERT_OK(file.SetMode(mode));
    EXPECT_CODE(LoadOrMakeSecret(Path(), 16), kPermissionDenied) << mode;
  }
}

TEST_F(SecretFileTest, RefusesAKeyOfAnotherSizeAndLeavesIt) {
  ASSERT_OK_AND_ASSIGN(const Key key, LoadOrMakeSecret(Path(), 16));
  EXPECT_CODE(LoadOrMakeSecret(Path(), 32), kDataLoss);
  EXPECT_EQ(*LoadOrMakeSecret(Path(), 16), key);
}

TEST_F(SecretFileTest, TellsAFolderThatIsNotThere) {
  EXPECT_CODE(LoadOrMakeSecret(folder_->File("no/key"), 16), kNotFound);
}

TEST_F(SecretFileTest, ProcessesThatMakeItAtOnceGetTheSameKey) {
  constexpr int kProcesses = 8;
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe(ends.data()), 0);
  for (int i = 0; i < kProcesses; ++i) {
    if (::fork() != 0) continue;
    const Result<Key> key = LoadOrMakeSecret(Path(), 16);
    ::_exit(key.ok() && ::write(ends[1], key->data(), 16) == 16 ? 0 : 1);
  }
  for (int i = 0; i < kProcesses; ++i) {
    int status = -1;
    ASSERT_GT(::wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  ASSERT_OK_AND_ASSIGN(const Key key, LoadOrMakeSecret(Path(), 16));
  for (int i = 0; i < kProcesses; ++i) {
    Key one(16);
    ASSERT_EQ(::read(ends[0], one.data(), 16), 16);
    EXPECT_EQ(one, key);
  }
  for (const int end : ends) ::close(end);
}

}  // namespace
}  // namespace maru::os
