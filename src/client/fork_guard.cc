#include "client/fork_guard.h"

#include "base/log.h"
#include "base/mutex.h"
#include "os/process.h"

namespace maru::client {

// All that is to be told, in a list through the objects themselves: nothing is allocated in a
// child.
class ForkList {
 public:
  static ForkList& Get() {
    // Never destroyed: objects of static storage may unregister after it would be.
    static ForkList* const list = new ForkList();
    return *list;
  }

  Mutex& mutex() { return mutex_; }

  void Add(ForkRegistration* object) {
    MutexLock lock(mutex_);
    object->next_ = first_;
    if (first_ != nullptr) first_->previous_ = object;
    first_ = object;
  }

  void Remove(ForkRegistration* object) {
    MutexLock lock(mutex_);
    if (object->previous_ != nullptr) object->previous_->next_ = object->next_;
    if (object->next_ != nullptr) object->next_->previous_ = object->previous_;
    if (first_ == object) first_ = object->next_;
  }

 private:
  ForkList() {
    const Status status = os::OnEachFork(&Prepare, &InParent, &InChild);
    if (!status.ok()) LogError("forked children will not be told: " + status.ToString());
  }

  // The list's lock is held across fork, so that the child finds the list whole and the lock free.
  static void Prepare() MARU_TSA(no_thread_safety_analysis) { Get().mutex_.Lock(); }
  static void InParent() MARU_TSA(no_thread_safety_analysis) { Get().mutex_.Unlock(); }
  static void InChild() MARU_TSA(no_thread_safety_analysis) {
    ForkList& list = Get();
    for (ForkRegistration* at = list.first_; at != nullptr; at = at->next_)
      at->object_->InForkedChild();
    list.mutex_.Unlock();
  }

  Mutex mutex_;
  ForkRegistration* first_ MARU_GUARDED_BY(mutex_) = nullptr;
};

namespace {
// Made when the library is loaded: a fork while another thread makes it would leave it half made in
// the child.
[[maybe_unused]] const ForkList& at_load = ForkList::Get();
}  // namespace

ForkPause::ForkPause() MARU_TSA(no_thread_safety_analysis) { ForkList::Get().mutex().Lock(); }
ForkPause::~ForkPause() MARU_TSA(no_thread_safety_analysis) { ForkList::Get().mutex().Unlock(); }

ForkRegistration::ForkRegistration(ForkAware* object) : object_(object) {
  ForkList::Get().Add(this);
}
ForkRegistration::~ForkRegistration() { ForkList::Get().Remove(this); }

}  // namespace maru::client
