#include "tools/progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "os/process.h"

namespace maru::tools {

Progress::Progress(std::string unit, Elsewhere elsewhere)
    : unit_(std::move(unit)), elsewhere_(elsewhere), terminal_(os::ErrorIsTerminal()) {}

void Progress::Write(const std::string& line) {
  if (!terminal_) {
    if (elsewhere_ == Elsewhere::kTenths) std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  width_ = std::max(width_, line.size());
  std::fprintf(stderr, "\r%-*s", static_cast<int>(width_), line.c_str());
  std::fflush(stderr);
}

void Progress::Show(uint64_t done, uint64_t all) {
  if (done == shown_) return;
  if (!terminal_ && done < all && done - shown_ < all / 10) return;
  shown_ = done;
  Write(std::to_string(done) + " of " + std::to_string(all) + unit_);
}

void Progress::ShowShare(uint64_t done, uint64_t all) {
  if (!terminal_ && elsewhere_ == Elsewhere::kNothing) return;
  const uint64_t percent =
      all == 0
          ? 100
          : static_cast<uint64_t>(100.0 * static_cast<double>(done) / static_cast<double>(all));
  if (percent == percent_) return;
  percent_ = percent;
  Write(std::to_string(percent) + "%" + unit_);
}

void Progress::End(uint64_t all) {
  Show(all, all);
  if (width_ != 0) std::fputc('\n', stderr);
}

void Progress::Clear() {
  if (!terminal_ || width_ == 0) return;
  std::fprintf(stderr, "\r%-*s\r", static_cast<int>(width_), "");
  std::fflush(stderr);
  width_ = 0;
  percent_ = UINT64_MAX;
}

}  // namespace maru::tools
