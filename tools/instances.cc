// The parent's side of instances: starts them, lets them meet, follows what they say, and ends all
// when one fails. One thread waits for all of their outputs.

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>

#include "os/event.h"
#include "os/line_reader.h"
#include "os/process.h"
#include "tools/error_line.h"
#include "tools/instance.h"
#include "tools/output.h"
#include "tools/progress.h"

namespace maru::tools {

namespace {

bool ParseResult(const std::string& line, InstanceResult* r) {
  std::istringstream words(line);
  std::string word;
  words >> word >> r->requests >> r->blocks >> r->hits >> r->shared_hits >> r->stored >>
      r->duplicates >> r->refused >> r->bytes_read >> r->bytes_written >>
      r->verification_failures >> r->races >> r->races_won >> r->races_lost;
  return word == "result" && !words.fail();
}

void AddTo(InstanceResult* sum, const InstanceResult& one) {
  sum->requests += one.requests;
  sum->blocks += one.blocks;
  sum->hits += one.hits;
  sum->shared_hits += one.shared_hits;
  sum->stored += one.stored;
  sum->duplicates += one.duplicates;
  sum->refused += one.refused;
  sum->bytes_read += one.bytes_read;
  sum->bytes_written += one.bytes_written;
  sum->verification_failures += one.verification_failures;
  sum->races += one.races;
  sum->races_won += one.races_won;
  sum->races_lost += one.races_lost;
}

// Gets the number of requests that all of them have done.
using ShowDone = std::function<void(uint64_t)>;

class Instances {
 public:
  explicit Instances(const ReplaySpec& spec) : spec_(spec) {}

  Status Start();
  // Until all have ended; the error of the first that fails. Whoever runs then ends with this.
  Status Follow(const ShowDone& show);
  const std::vector<InstanceResult>& results() const { return results_; }

 private:
  struct One {
    One(os::Child started, int output_fd) : child(std::move(started)), lines(output_fd) {}
    os::Child child;
    os::LineReader lines;
    uint64_t done = 0;
    bool finished = false;          // its result has come
    std::optional<Status> failure;  // as it told it itself
  };
  Status StartOne(const std::string& program, uint32_t index);
  // What one has written, as far as it has come.
  Status Take(uint32_t index, const ShowDone& show);
  Status Say(uint32_t index, const std::string& line, const ShowDone& show);
  Status Ended(uint32_t index);
  // One stands ready: all go on when all do.
  Status Meet();

  const ReplaySpec& spec_;
  std::unique_ptr<os::Poller> poller_;
  std::vector<One> all_;
  std::vector<InstanceResult> results_;
  uint64_t done_ = 0;
  uint32_t ready_ = 0, ended_ = 0;
};

Status Instances::StartOne(const std::string& program, uint32_t index) {
  os::ChildOptions options;
  options.life = os::ChildLife::kWithParent;
  options.input = os::ChildStream::kPipe;
  options.output = os::ChildStream::kPipe;
  MARU_ASSIGN_OR_RETURN(os::Child child,
                        os::Child::Start({program,         "replay-instance",
                                          "--server",      spec_.server,
                                          "--server-user", spec_.server_user,
                                          "--trace",       spec_.trace,
                                          "--index",       std::to_string(index),
                                          "--instances",   std::to_string(spec_.instances),
                                          "--page-size",   std::to_string(spec_.page_bytes),
                                          "--races",       std::to_string(spec_.races),
                                          "--requests",    std::to_string(spec_.requests_max),
                                          "--namespace",   spec_.name_space},
                                         options));
  const int output = child.output_fd();
  all_.emplace_back(std::move(child), output);
  return poller_->Add(output, os::Interest::kRead, index);
}

Status Instances::Start() {
  // One that has ended is known by its exit code, not by this process's death.
  os::IgnoreBrokenPipes();
  MARU_ASSIGN_OR_RETURN(const std::string program, os::ProgramPath());
  MARU_ASSIGN_OR_RETURN(os::Poller poller, os::Poller::Create());
  poller_ = std::make_unique<os::Poller>(std::move(poller));
  results_.resize(spec_.instances);
  all_.reserve(spec_.instances);
  for (uint32_t i = 0; i < spec_.instances; ++i) MARU_RETURN_IF_ERROR(StartOne(program, i));
  return OkStatus();
}

Status Instances::Follow(const ShowDone& show) {
  std::array<os::ReadyEvent, os::kReadyEventsMax> events;
  while (ended_ < spec_.instances) {
    MARU_ASSIGN_OR_RETURN(const size_t count, poller_->Wait(events, -1));
    for (size_t i = 0; i < count; ++i) {
      MARU_RETURN_IF_ERROR(Take(static_cast<uint32_t>(events[i].token), show));
    }
  }
  return OkStatus();
}

Status Instances::Take(uint32_t index, const ShowDone& show) {
  os::LineReader& lines = all_[index].lines;
  do {
    MARU_ASSIGN_OR_RETURN(const std::optional<std::string> line, lines.Next());
    if (!line) return Ended(index);
    MARU_RETURN_IF_ERROR(Say(index, *line, show));
  } while (lines.HasLine());
  return OkStatus();
}

Status Instances::Say(uint32_t index, const std::string& line, const ShowDone& show) {
  One& one = all_[index];
  if (line == kReadyLine) return Meet();
  if (line.starts_with("done ")) {
    const uint64_t now = std::strtoull(line.c_str() + 5, nullptr, 10);
    done_ += now - one.done;
    one.done = now;
    show(done_);
    return OkStatus();
  }
  one.failure = ParseErrorLine(line);
  one.finished = ParseResult(line, &results_[index]);
  return OkStatus();
}

Status Instances::Meet() {
  if (ended_ > 0) return Internal("an instance waits for one that has ended");
  if (++ready_ < spec_.instances) return OkStatus();
  ready_ = 0;
  for (One& one : all_) {
    const Status told = one.child.WriteInput("go\n");
    // Its end is told by its output.
    if (!told.ok() && told.code() != StatusCode::kUnavailable) return told;
  }
  return OkStatus();
}

Status Instances::Ended(uint32_t index) {
  One& one = all_[index];
  MARU_RETURN_IF_ERROR(poller_->Remove(one.child.output_fd()));
  MARU_ASSIGN_OR_RETURN(const os::ChildExit exit, one.child.Wait());
  ++ended_;
  const std::string name = "instance " + std::to_string(index);
  if (one.failure) {
    return Status(one.failure->code(), name + ": " + std::string(one.failure->message()));
  }
  if (!exit.ok() || !one.finished) {
    return Internal(name + " ended with " +
                    (exit.signal != 0 ? "signal " + std::to_string(exit.signal)
                                      : "exit code " + std::to_string(exit.code)));
  }
  if (ready_ > 0) return Internal(name + " ended while others wait for it");
  return OkStatus();
}

}  // namespace

Result<ReplayResult> RunInstances(const ReplaySpec& spec, uint64_t requests_in_trace) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t all =
      spec.requests_max == 0 ? requests_in_trace : std::min(spec.requests_max, requests_in_trace);
  Instances instances(spec);
  MARU_RETURN_IF_ERROR(instances.Start());
  Progress progress(" requests", Progress::Elsewhere::kTenths);
  const bool shown = spec.progress == ShowProgress::kYes;
  const Status followed = instances.Follow([&](uint64_t done) {
    if (shown) progress.Show(done, all);
  });
  if (!followed.ok()) {
    progress.Clear();
    return followed;
  }
  if (shown) progress.End(all);
  ReplayResult result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.instances = instances.results();
  for (const InstanceResult& one : result.instances) AddTo(&result.sum, one);
  return result;
}

}  // namespace maru::tools
