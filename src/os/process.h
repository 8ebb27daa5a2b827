#pragma once

// This process and its children.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "maru/result.h"
#include "os/unique_fd.h"

namespace maru::os {

std::int32_t ProcessId();
std::uint32_t UserId();   // effective
std::uint32_t GroupId();  // effective
// What a program does first, before it opens anything and starts a thread: standard descriptors
// that are closed are taken, so that no socket, pool or log gets their numbers (what is written
// there or read is an error), and a file over the limit of sizes is an error and no signal.
void PrepareProgram();
// The running program's file.
Result<std::string> ProgramPath();
// The number of a group that is named, or written as a number.
Result<std::uint32_t> FindGroup(const std::string& name);
// The same of a user.
Result<std::uint32_t> FindUser(const std::string& name);

// From the kernel's generator, good for secrets.
Status FillRandom(std::span<std::byte> out);
Result<std::uint64_t> RandomNumber();

// Registers functions that fork() calls: BEFORE and IN_PARENT in the parent, IN_CHILD in the child,
// where only async-signal-safe calls are allowed. Null where there is nothing to do. For the life
// of the process; each set must be registered once.
using ForkFunction = void (*)();
Status OnEachFork(ForkFunction before, ForkFunction in_parent, ForkFunction in_child);

// Raises the number of descriptors that this process may have open to WANTED, as far as the hard
// limit allows; never lowers it. Returns how many there are now.
Result<std::uint64_t> RaiseDescriptorLimit(std::uint64_t wanted);

// ResourceExhausted unless so many more descriptors can be open at this moment. It looks by taking
// them for that moment, so it cannot know what other threads take afterwards.
Status CheckFreeDescriptors(std::size_t count);

// Standard error goes to a terminal, so that lines on it may be written over.
bool ErrorIsTerminal();
// One write to standard error, if it takes TEXT at once: it waits for nobody who does not read.
// False: not written, or not whole. REQUIRES: at most kErrorBytesMax, what any pipe takes whole.
inline constexpr std::size_t kErrorBytesMax = 4096;
bool TryWriteError(std::string_view text);
// From now on a pipe whose reader has gone is an error of the write and not this process's end.
void IgnoreBrokenPipes();

// From now on memory of large buffers goes back to the system when they are freed, whatever sizes
// were freed before.
void GiveLargeBuffersBack();

// A thread inside somebody else's process: all signals are blocked in it from its first
// instruction, so that none of that process's handlers ever runs there. Of the name 15 bytes are
// used. ResourceExhausted: the process can have no more threads.
Result<std::thread> StartThread(const std::string& name, std::function<void()> body);

enum class ChildStream { kInherit, kDiscard, kPipe };

// kWithParent: SIGTERM when the thread that started the child ends, whatever ends it.
enum class ChildLife { kOnItsOwn, kWithParent };

struct ChildOptions {
  ChildLife life = ChildLife::kOnItsOwn;
  ChildStream input = ChildStream::kInherit;
  ChildStream output = ChildStream::kInherit;
  ChildStream error = ChildStream::kInherit;
  // Kept open in the child under the numbers 3, 4, ...; all others are closed by their flag.
  std::vector<int> descriptors;
  std::vector<std::string> environment;  // "NAME=value", added to this process's own
};

struct ChildExit {
  int code = 0;    // when signal is 0
  int signal = 0;  // that killed it
  bool ok() const { return code == 0 && signal == 0; }
};

inline constexpr std::size_t kChildDescriptorsMax = 16;

// A program started by this process. The destructor kills and reaps it. Not thread-safe.
class Child {
 public:
  // ARGUMENTS[0] is the program: a path, or a name to look up in PATH. NotFound and the like when
  // it cannot be run.
  static Result<Child> Start(const std::vector<std::string>& arguments,
                             const ChildOptions& options = {});

  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  std::int32_t pid() const { return pid_; }
  // Writes all of TEXT to its input, for which kPipe was asked. Unavailable: it has ended.
  // REQUIRES: IgnoreBrokenPipes() was called.
  Status WriteInput(std::string_view text) const;
  // The reading ends where kPipe was asked for.
  int output_fd() const { return output_.get(); }
  int error_fd() const { return error_.get(); }
  // Everything up to the end of its output, at most BYTES_MAX (ResourceExhausted beyond).
  Result<std::string> ReadOutput(std::size_t bytes_max);

  Status Signal(int signal) const;
  // Waits for its end. Further calls answer the same.
  Result<ChildExit> Wait();
  // The same without waiting: nothing while it runs.
  Result<std::optional<ChildExit>> TryWait();

 private:
  Child(std::int32_t pid, UniqueFd input, UniqueFd output, UniqueFd error)
      : pid_(pid), input_(std::move(input)), output_(std::move(output)), error_(std::move(error)) {}

  std::int32_t pid_;
  UniqueFd input_;
  UniqueFd output_;
  UniqueFd error_;
  std::optional<ChildExit> exit_;
};

}  // namespace maru::os
