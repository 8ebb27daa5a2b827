// Lines of the library's log for Python's logging. They are queued, since a line may come from any
// thread and under any lock, and told at the next call of a handler, by the thread that makes it.
#pragma once

namespace maru::python {

// Once for the process.
void InstallLog();
// REQUIRES: the interpreter lock, and no lock of the library. Cheap when there is nothing.
void TellLog();

}  // namespace maru::python
