// How far long work is, on standard error: one line that is written over on a terminal.
#pragma once

#include <cstdint>
#include <string>

namespace maru::tools {

class Progress {
 public:
  enum class Elsewhere : uint8_t {
    kNothing,
    kTenths,  // a line for each tenth, where standard error is no terminal
  };
  // unit: behind the numbers, as in "3 of 9 requests".
  Progress(std::string unit, Elsewhere elsewhere);

  void Show(uint64_t done, uint64_t all);
  // The same in percent, as in "33% of the pool".
  void ShowShare(uint64_t done, uint64_t all);
  // The last line stays. Nothing when none was shown.
  void End(uint64_t all);
  // The last line goes, so that what is printed next stands in its place.
  void Clear();

 private:
  void Write(const std::string& line);

  const std::string unit_;
  const Elsewhere elsewhere_;
  const bool terminal_;
  uint64_t shown_ = 0;
  uint64_t percent_ = UINT64_MAX;  // shown last
  size_t width_ = 0;               // of the line on the terminal
};

}  // namespace maru::tools
