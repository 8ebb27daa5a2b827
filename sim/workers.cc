#include "sim/workers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/check.h"

namespace maru::sim {

namespace {

struct Worker {
  pid_t pid = 0;
  int tally_fd = -1;
};

// A line for each name: the count, a space, the name.
void WriteTally(int fd, const Tally& tally) {
  FILE* const out = fdopen(fd, "w");
  MARU_CHECK(out != nullptr);
  for (const auto& [name, count] : tally.counts()) {
    std::fprintf(out, "%llu %s\n", static_cast<unsigned long long>(count), name.c_str());
  }
  std::fclose(out);
}

void ReadTally(int fd, Tally* tally) {
  FILE* const in = fdopen(fd, "r");
  MARU_CHECK(in != nullptr);
  char name[256];
  unsigned long long count = 0;
  while (std::fscanf(in, "%llu %255[^\n]", &count, name) == 2) tally->Add(name, count);
  std::fclose(in);
}

Worker Start(uint64_t number, const std::function<bool(uint64_t, Tally*)>& work) {
  int ends[2];
  MARU_CHECK(pipe(ends) == 0);
  std::fflush(stdout);
  const pid_t pid = fork();
  MARU_CHECK(pid >= 0);
  if (pid != 0) {
    close(ends[1]);
    return {pid, ends[0]};
  }
  close(ends[0]);
  Tally own;
  const bool ok = work(number, &own);
  WriteTally(ends[1], own);
  std::fflush(stdout);
  _exit(ok ? 0 : 1);
}

}  // namespace

bool RunWorkers(uint64_t workers, const std::function<bool(uint64_t, Tally*)>& work, Tally* tally) {
  MARU_CHECK(workers >= 1 && workers <= kWorkersMax);
  if (workers == 1) return work(0, tally);
  std::vector<Worker> running;
  for (uint64_t number = 0; number < workers; ++number) running.push_back(Start(number, work));
  bool ok = true;
  for (const Worker& worker : running) {
    // A worker that has more to say than the pipe holds waits for its turn here.
    ReadTally(worker.tally_fd, tally);
    int status = 0;
    MARU_CHECK(waitpid(worker.pid, &status, 0) == worker.pid);
    ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return ok;
}

}  // namespace maru::sim
