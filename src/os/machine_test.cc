#include "os/machine.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "base/units.h"
#include "os/file.h"
#include "os/mapping.h"
#include "os/temp_folder.h"

namespace maru::os {
namespace {

class MachineTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(folder_); }

  // Writes a file with the folders above it.
  void Put(const std::string& name, const std::string& text) {
    for (std::size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1)) {
      ASSERT_OK(MakeDirectory(folder_->File(name.substr(0, at))));
    }
    ASSERT_OK(WriteTextFile(folder_->File(name), text));
  }

  Result<TempFolder> folder_ = TempFolder::Create();
};

TEST_F(MachineTest, BootIdStaysTheSame) {
  ASSERT_OK_AND_ASSIGN(const std::string id, BootId());
  EXPECT_EQ(id.size(), 36u);
  EXPECT_EQ(*BootId(), id);
}

TEST_F(MachineTest, HostIdentityIsTheBootWhateverTheName) {
  ASSERT_OK_AND_ASSIGN(const std::string here, HostIdentity());
  const std::string boot = *BootId();
  EXPECT_TRUE(here.ends_with("/" + boot));
  EXPECT_LE(here.size(), kHostIdentityBytesMax);
  EXPECT_EQ(HostNameIn(here).size() + 1 + boot.size(), here.size());
  EXPECT_TRUE(SameHost(here, here));
  EXPECT_TRUE(SameHost(here, "of-a-container/" + boot));
  std::string other = here;
  other.back() = other.back() == '0' ? '1' : '0';
  EXPECT_FALSE(SameHost(here, other));
  for (const std::string& odd :
       {std::string(), boot, "/" + boot.substr(1), here + "/", here + "0"}) {
    EXPECT_FALSE(SameHost(here, odd)) << odd;
    EXPECT_FALSE(SameHost(odd, odd)) << odd;
  }
}

TEST_F(MachineTest, MemoryLimitIsPlausible) {
  ASSERT_OK_AND_ASSIGN(const std::uint64_t limit, MemoryLimitBytes());
  EXPECT_GE(limit, 1 * kMiB);
  EXPECT_LT(limit, std::uint64_t{1} << 56);
}

TEST_F(MachineTest, LowestControlGroupLimitHolds) {
  Put("v2/memory.max", "max\n");
  Put("v2/outer/memory.max", "1048576\n");
  Put("v2/outer/inner/memory.max", "2097152\n");
  const std::string root = folder_->File("v2");
  EXPECT_EQ(internal::CgroupLimitBytes(root, "0::/outer/inner\n"), 1 * kMiB);
  EXPECT_EQ(internal::CgroupLimitBytes(root, "0::/\n"), ~std::uint64_t{0});
  EXPECT_EQ(internal::CgroupLimitBytes(root, "0::/outer/inner/absent\n"), 1 * kMiB);
}

TEST_F(MachineTest, ReadsVersionOneAndPathsOutsideTheMount) {
  Put("v1/memory/memory.limit_in_bytes", "4194304\n");
  const std::string root = folder_->File("v1");
  EXPECT_EQ(internal::CgroupLimitBytes(root, "9:cpu,cpuacct:/x\n4:memory:/docker/abc\n"), 4 * kMiB);
  EXPECT_EQ(internal::CgroupLimitBytes(root, "9:cpu,cpuacct:/x\n"), ~std::uint64_t{0});
}

TEST_F(MachineTest, SurvivesOddControlGroupText) {
  Put("odd/memory.max", "not a number");
  for (const char* text : {"", "\n", "::", "0:", "0::relative", "junk", "0::/../..", "0::/"}) {
    EXPECT_EQ(internal::CgroupLimitBytes(folder_->File("odd"), text), ~std::uint64_t{0}) << text;
  }
}

TEST_F(MachineTest, RunsOnTheProcessorsAskedFor) {
  ASSERT_OK_AND_ASSIGN(const std::vector<int> cpus, AllowedCpus());
  ASSERT_FALSE(cpus.empty());
  std::thread([&] {
    const std::vector<int> last = {cpus.back()};
    EXPECT_OK(RunOnCpus(last));
    EXPECT_EQ(*AllowedCpus(), last);
  }).join();
  EXPECT_EQ(*AllowedCpus(), cpus);
  EXPECT_CODE(RunOnCpus(std::vector<int>{-1}), kInvalidArgument);
  EXPECT_CODE(RunOnCpus(std::vector<int>{static_cast<int>(kCpusMax) - 1}), kInvalidArgument);
}

TEST_F(MachineTest, RefusesMemoryNodesThatAreNotThere) {
  ASSERT_OK_AND_ASSIGN(const Mapping memory, Mapping::Anonymous(64 * kKiB));
  EXPECT_CODE(PlaceOnNode(memory.bytes(), -1), kInvalidArgument);
  EXPECT_FALSE(PlaceOnNode(memory.bytes(), 1023).ok());
}

TEST_F(MachineTest, ListsDaxDevices) {
  Put("dax/dax0.0/size", "1073741824\n");
  Put("dax/dax0.0/align", "2097152\n");
  Put("dax/dax0.0/target_node", "1\n");
  Put("dax/dax1.0/size", "0\n");
  const Result<std::vector<DaxDevice>> devices = DaxDevices(folder_->File("dax"));
  ASSERT_OK(devices);
  ASSERT_EQ(devices->size(), 1u);
  EXPECT_EQ((*devices)[0].path, "/dev/dax0.0");
  EXPECT_EQ((*devices)[0].size_bytes, 1 * kGiB);
  EXPECT_EQ((*devices)[0].align_bytes, 2 * kMiB);
  EXPECT_EQ((*devices)[0].node, 1);
  EXPECT_TRUE(DaxDevices(folder_->File("none"))->empty());
}

}  // namespace
}  // namespace maru::os
