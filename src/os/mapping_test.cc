#include "os/mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/testing.h"
#include "base/units.h"

namespace maru::os {
namespace {

constexpr std::uint64_t kSize = 64 * kKiB;

class MappingTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(file_);
    ASSERT_OK(file_->GrowTo(kSize));
  }

  // What a forked child's BODY returns.
  template <typename F>
  int InChild(F&& body) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(body());
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  Result<File> file_ = File::CreateMemory("mapping");
};

TEST_F(MappingTest, SharesBytesBetweenMappingsAndTheFile) {
  ASSERT_OK_AND_ASSIGN(const Mapping writer,
                       Mapping::MapWhole(*file_, {.access = Access::kReadWrite}));
  ASSERT_OK_AND_ASSIGN(const Mapping reader,
                       Mapping::Map(*file_, 4096, 8192, {.pages = PageHint::kHuge}));
  EXPECT_EQ(writer.size(), kSize);
  EXPECT_EQ(reader.bytes().size(), 8192u);
  std::memcpy(writer.data() + 4096, "page", 4);
  EXPECT_EQ(AsText(reader.bytes().first(4)), "page");
  std::byte read[4];
  ASSERT_OK(file_->ReadExactlyAt(read, 4096));
  EXPECT_EQ(AsText(read), "page");
  EXPECT_OK(writer.Sync());
}

TEST_F(MappingTest, OutlivesItsFile) {
  ASSERT_OK_AND_ASSIGN(const Mapping mapping,
                       Mapping::MapWhole(*file_, {.access = Access::kReadWrite}));
  file_->Release().Reset();
  mapping.data()[kSize - 1] = std::byte{7};
  EXPECT_EQ(mapping.data()[kSize - 1], std::byte{7});
}

TEST_F(MappingTest, RefusesRangesOutsideTheFile) {
  EXPECT_CODE(Mapping::Map(*file_, 4096, kSize, {}), kDataLoss);
  EXPECT_CODE(Mapping::Map(*file_, kSize, 1, {}), kDataLoss);
  EXPECT_CODE(Mapping::Map(*file_, 4096, ~std::uint64_t{0}, {}), kDataLoss);
  ASSERT_OK_AND_ASSIGN(const File empty, File::CreateMemory("empty"));
  EXPECT_CODE(Mapping::MapWhole(empty, {}), kDataLoss);
}

TEST_F(MappingTest, MovesWithoutUnmapping) {
  ASSERT_OK_AND_ASSIGN(Mapping first, Mapping::MapWhole(*file_, {.access = Access::kReadWrite}));
  std::byte* const data = first.data();
  Mapping second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.data(), data);
  second = Mapping();
  EXPECT_FALSE(second.valid());
}

TEST_F(MappingTest, ReadOnlyMeansReadOnly) {
  ASSERT_OK_AND_ASSIGN(const Mapping reader, Mapping::MapWhole(*file_, {}));
  EXPECT_DEATH({ *static_cast<volatile std::byte*>(reader.data()) = std::byte{1}; }, "");
}

TEST_F(MappingTest, ForkedChildSharesOnlyWhatItInherits) {
  ASSERT_OK_AND_ASSIGN(const Mapping shared,
                       Mapping::MapWhole(*file_, {.access = Access::kReadWrite}));
  ASSERT_OK_AND_ASSIGN(Mapping own, Mapping::MapWhole(*file_, {.access = Access::kReadWrite,
                                                               .on_fork = OnFork::kAbsentInChild}));
  const int shared_code = InChild([&] {
    shared.data()[0] = std::byte{5};
    return 0;
  });
  EXPECT_EQ(shared_code, 0);
  EXPECT_EQ(own.data()[0], std::byte{5});

  // In the child the range is free, and somebody else may map it: dropping the mapping there must
  // not take that away.
  const int drop_code = InChild([&] {
    std::byte* const at = own.data();
    void* const other = ::mmap(at, kSize, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (other != at) return 1;
    own.Reset();
    at[0] = std::byte{9};
    return at[0] == std::byte{9} ? 0 : 2;
  });
  EXPECT_EQ(drop_code, 0);
  EXPECT_EQ(own.data()[0], std::byte{5});
}

TEST_F(MappingTest, WhatBeginsAtAHugePageIsMappedAtOne) {
  constexpr std::uint64_t kBytes = 3 * kHugePageBytes + 100;
  ASSERT_OK(file_->GrowTo(kBytes));
  for (const std::uint64_t offset : {std::uint64_t{0}, kHugePageBytes}) {
    ASSERT_OK_AND_ASSIGN(const Mapping mapping, Mapping::Map(*file_, offset, kBytes - offset, {}));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping.data()) % kHugePageBytes, 0u);
    EXPECT_EQ(mapping.size(), kBytes - offset);
    EXPECT_EQ(mapping.data()[mapping.size() - 1], std::byte{0});
  }
  ASSERT_OK_AND_ASSIGN(const Mapping between,
                       Mapping::Map(*file_, 4096, kBytes - 4096, {.access = Access::kReadWrite}));
  between.data()[0] = std::byte{1};
}

TEST_F(MappingTest, HintsKeepTheBytes) {
  constexpr std::uint64_t kBytes = 2 * kHugePageBytes;
  ASSERT_OK(file_->GrowTo(kBytes));
  ASSERT_OK(file_->Reserve(kHugePageBytes, 4096));
  ASSERT_OK_AND_ASSIGN(const Mapping writer,
                       Mapping::MapWhole(*file_, {.access = Access::kReadWrite}));
  for (std::uint64_t at = 0; at < kBytes; at += 4096) writer.data()[at] = std::byte(at >> 12);
  writer.MakeHuge(0, kBytes);
  ASSERT_OK_AND_ASSIGN(const Mapping reader, Mapping::MapWhole(*file_, {}));
  reader.FaultIn(0, kBytes);
  for (std::uint64_t at = 0; at < kBytes; at += 4096) {
    ASSERT_EQ(reader.data()[at], std::byte(at >> 12)) << at;
    ASSERT_EQ(reader.data()[at + 1], std::byte{0}) << at;
  }
}

TEST_F(MappingTest, AnonymousMemoryIsZeroAndSharedWithChildren) {
  ASSERT_OK_AND_ASSIGN(const Mapping memory, Mapping::Anonymous(4096));
  EXPECT_EQ(memory.data()[4095], std::byte{0});
  EXPECT_EQ(InChild([&] {
              memory.data()[1] = std::byte{3};
              return 0;
            }),
            0);
  EXPECT_EQ(memory.data()[1], std::byte{3});
}

}  // namespace
}  // namespace maru::os
