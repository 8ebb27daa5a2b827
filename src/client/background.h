// The one background thread of a process: it reconnects handlers and gives back idle grants. It
// exists while a task is registered, has all signals blocked, and is absent in a forked child.
// Calls of the application wait for it as for each other: while it settles or gives back pages, for
// one round trip, and for an attempt to connect that they would have to make themselves otherwise.
#pragma once

#include <cstdint>

#include "maru/status.h"

namespace maru::client {

class BackgroundTask {
 public:
  // Returns when to be called next (steady clock, ns); 0: in a second at the latest.
  virtual uint64_t Tick() = 0;

 protected:
  ~BackgroundTask() = default;
};

// Starts the thread with the first task. ResourceExhausted: the process can have no more threads;
// the task is not added then.
Status AddBackgroundTask(BackgroundTask* task);
// After it the task is not called any more; waits for a call that is under way.
void RemoveBackgroundTask(BackgroundTask* task);

}  // namespace maru::client
