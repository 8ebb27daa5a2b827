#include "catalogue/endpoint_namespace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layout/geometry.h"

namespace maru::catalogue {
namespace {

TEST(EndpointNamespace, HasAClientsBelowIt) {
  EXPECT_EQ(*NamespaceBelow("", ""), "");
  EXPECT_EQ(*NamespaceBelow("", "team"), "team");
  EXPECT_EQ(*NamespaceBelow("", "a/b/"), "a/b/");
  EXPECT_EQ(*NamespaceBelow("tcp://127.0.0.1:5556", ""), "tcp://127.0.0.1:5556");
  EXPECT_EQ(*NamespaceBelow("tcp://[::1]:5556", "team/"), "tcp://[::1]:5556/team/");
  for (const char* odd : {"team", "tcp://", "tcp:/host:1", "tcp://host:1/x", "TCP://host:1"}) {
    EXPECT_EQ(NamespaceBelow(odd, "x").status().code(), StatusCode::kDataLoss) << odd;
  }
  for (const char* endpoint : {"", "tcp://a:1"}) {
    EXPECT_EQ(NamespaceBelow(endpoint, "tcp://a:1/x").status().code(),
              StatusCode::kInvalidArgument);
  }
  const std::string longest(layout::kNamespaceBytesMax - 10, 'n');
  EXPECT_EQ(NamespaceBelow("tcp://a:1", longest)->size(), layout::kNamespaceBytesMax);
  EXPECT_EQ(NamespaceBelow("tcp://a:1", longest + "n").status().code(),
            StatusCode::kInvalidArgument);
}

// Every text of up to four pieces as either part.
TEST(EndpointNamespace, NoTwoPairsHaveOneName) {
  const std::vector<std::string> pieces = {"tcp://", "tcp:", "/", "a", "1"};
  std::vector<std::string> texts = {""};
  for (size_t from = 0, length = 0; length < 4; ++length) {
    const size_t until = texts.size();
    for (; from < until; ++from) {
      for (const std::string& piece : pieces) texts.push_back(texts[from] + piece);
    }
  }
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  std::map<std::string, std::pair<std::string, std::string>> names;
  size_t pairs = 0;
  for (const std::string& endpoint : texts) {
    for (const std::string& own : texts) {
      const Result<std::string> name = NamespaceBelow(endpoint, own);
      if (!name.ok()) continue;
      ++pairs;
      const auto [at, is_new] = names.emplace(*name, std::pair(endpoint, own));
      ASSERT_TRUE(is_new) << *name << " is (" << endpoint << ", " << own << ") and ("
                          << at->second.first << ", " << at->second.second << ")";
    }
  }
  EXPECT_GT(pairs, 5000u);
}

}  // namespace
}  // namespace maru::catalogue
