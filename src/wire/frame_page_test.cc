// docs/formats/frame.md lists the fields of every message; the code has the same ones.
#include <gtest/gtest.h>

#include <map>

#include "wire/golden_frames_test.h"
#include "wire/names.h"
#include "wire/visitors_test.h"

namespace maru::wire {

void PrintTo(const FieldList::Field& field, std::ostream* out) {
  *out << field.name << " " << field.type;
}

namespace {

using Fields = std::vector<FieldList::Field>;

std::string Trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// The tables below "### NAME (NUMBER)", by "NAME (NUMBER) request" and "... reply".
std::map<std::string, Fields> FieldsOnPage() {
  std::ifstream file(MARU_FORMATS_DIR "/frame.md");
  std::map<std::string, Fields> tables;
  std::string message, side;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("### ")) message = line.substr(4), side.clear();
    if (line.starts_with("## ")) message.clear();
    if (line.starts_with("Request")) side = " request";
    if (line.starts_with("Reply")) side = " reply";
    if (message.empty() || side.empty()) continue;
    Fields& fields = tables[message + side];
    if (!line.starts_with("| ") || line.starts_with("| field ")) continue;
    std::istringstream cells(line.substr(1));
    std::string name, type;
    std::getline(cells, name, '|');
    std::getline(cells, type, '|');
    fields.push_back({Trimmed(name), Trimmed(type)});
  }
  return tables;
}

template <typename M>
Fields FieldsOf() {
  M message{};
  if constexpr (std::is_same_v<M, AttachRequest>) {
    message.protocol_version = layout::kProtocolVersion;
  }
  FieldList list;
  Walk(list, std::as_const(message));
  return list.fields();
}

template <typename Variant, size_t kIndex>
void ExpectOnPage(const std::map<std::string, Fields>& page, const std::string& side) {
  const std::string name =
      layout::Concat(MessageTypeName(static_cast<MessageType>(kIndex)), " (", kIndex, ")", side);
  ASSERT_TRUE(page.contains(name)) << name << " is not on the page";
  EXPECT_EQ(page.at(name), (FieldsOf<std::variant_alternative_t<kIndex, Variant>>())) << name;
}

TEST(FramePage, ListsEveryFieldOfEveryMessage) {
  const auto page = FieldsOnPage();
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    (ExpectOnPage<Request, kIndex + 1>(page, " request"), ...);
    (ExpectOnPage<Reply, kIndex + 1>(page, " reply"), ...);
  }(std::make_index_sequence<std::variant_size_v<Request> - 1>());
  EXPECT_EQ(page.size(), 2 * (std::variant_size_v<Request> - 1));
}

}  // namespace
}  // namespace maru::wire
