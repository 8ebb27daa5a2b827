#pragma once

// A folder of its own, mode 0700, removed with all that it holds by the process that made it. For
// the demo, replays and tests.

#include <string>

#include "maru/result.h"

namespace maru::os {

class TempFolder {
 public:
  // Below PARENT; empty: $TMPDIR, or else /tmp.
  static Result<TempFolder> Create(const std::string& parent = "");

  TempFolder(TempFolder&& other) noexcept;
  TempFolder& operator=(TempFolder&&) = delete;
  ~TempFolder();

  const std::string& path() const { return path_; }
  // The path of NAME within.
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit TempFolder(std::string path);

  std::string path_;  // empty when moved from
  int owner_pid_;
};

}  // namespace maru::os
