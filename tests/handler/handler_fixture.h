// What tests of the handler do over and over.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/testing.h"
#include "direct_link.h"

namespace maru::handler {

inline PageHandle Written(Instance& instance, std::string_view text) {
  Result<PageHandle> page = instance->Alloc(text.size());
  EXPECT_OK(page);
  std::memcpy(page->data, text.data(), text.size());
  return *page;
}

// Stores the key's own text under it.
inline Result<bool> Put(Instance& instance, std::string_view key) {
  return instance->Store(key, Written(instance, key), key.size());
}

inline std::string TextOf(const View& view) {
  return {reinterpret_cast<const char*>(view.bytes().data()), view.bytes().size()};
}

// What is found under a key; "" when there is nothing.
inline std::string Get(Instance& instance, std::string_view key) {
  const Result<View> view = instance->Retrieve(key, Verify::kNo);
  EXPECT_OK(view);
  return view.ok() && *view ? TextOf(*view) : "";
}

// Loses the next request of one type, once.
template <typename Request>
void LoseOnce(Instance& instance, DirectLink::Road how) {
  instance.link.road = [how, done = false](const wire::Request& request) mutable {
    if (done || !std::holds_alternative<Request>(request)) return DirectLink::Road::kWhole;
    done = true;
    return how;
  };
}

// Changes the next answer to requests of one type, once.
template <typename Request, typename Edit>
void EditOnce(Instance& instance, Edit edit) {
  instance.link.edit = [edit, done = false](const wire::Request& request, Status* status,
                                            wire::Reply* reply) mutable {
    if (done || !std::holds_alternative<Request>(request)) return;
    done = true;
    edit(status, reply);
  };
}

// Nothing is lost: what the server says is granted is what the instances have, all of it settled.
inline void ExpectNothingLost(Host& host, const std::vector<Instance*>& instances) {
  uint64_t theirs = 0;
  for (Instance* instance : instances) {
    EXPECT_OK((*instance)->Ping());  // settles what is in doubt
    const Handler::Counters counters = instance->counters();
    EXPECT_EQ(counters.unknown, 0u);
    theirs += counters.free_in_hand + counters.held;
  }
  EXPECT_EQ(host.Count().granted, theirs);
  EXPECT_EQ(host.Offenders(), "");
}

struct HandlerFixture : testing::Test {
  Host host;
  Instance one{&host};
  Instance other{&host};
  HandlerFixture() {
    EXPECT_OK(one->Connect());
    EXPECT_OK(other->Connect());
  }
  ~HandlerFixture() override { ExpectNothingLost(host, {&one, &other}); }
};

}  // namespace maru::handler
