#include "engine/stats_book.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/units.h"
#include "wire/compat/metadata_codec.h"

namespace maru::engine {
namespace {

// A name of as many bytes as the protocol lets it have.
std::string Name(size_t bytes, size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(bytes - digits.size(), 'n') + digits;
}

TEST(StatsBook, WhateverIsReportedWhatItTellsIsBounded) {
  StatsBook book;
  uint64_t reported = 0;
  for (size_t client = 0; client < StatsBook::kClientsMax + 10; ++client) {
    for (size_t operation = 0; operation < StatsBook::kOperationsMax + 2; ++operation) {
      for (size_t result = 0; result < StatsBook::kResultsMax + 2; ++result, ++reported) {
        book.Add({Name(wire::compat::kNameBytesMax, client),
                  Name(wire::compat::kWordBytesMax, operation),
                  Name(wire::compat::kWordBytesMax, result), 1, 1});
      }
    }
  }
  wire::compat::StatsReply reply;
  reply.clients = book.Show();
  const size_t bytes = wire::compat::EncodeMetadataReply({0xF0, 0, 1}, reply).size();
  EXPECT_LT(bytes, wire::compat::kStatsReplyBytesMax);
  EXPECT_EQ(reply.clients[0].client_id, "_all");
  uint64_t of_all = 0, of_clients = 0;
  for (const wire::compat::ClientCounters& client : reply.clients) {
    for (const wire::compat::OperationCounters& operation : client.operations) {
      (client.client_id == "_all" ? of_all : of_clients) += operation.count;
    }
  }
  EXPECT_EQ(of_all, reported);
  EXPECT_EQ(of_clients, reported) << "what is beyond a bound is counted as others'";
}

TEST(StatsBook, ManyClientsWithFewNamesAreToldEach) {
  StatsBook book;
  for (size_t client = 0; client < StatsBook::kClientsMax; ++client) {
    for (const char* const operation : {"store", "retrieve", "exists", "pin"}) {
      for (const char* const result : {"hit", "miss"}) {
        book.Add({Name(36, client), operation, result, 1, 1});
      }
    }
  }
  const auto shown = book.Show();
  ASSERT_EQ(shown.size(), StatsBook::kClientsMax + 1);
  for (const wire::compat::ClientCounters& client : shown) {
    EXPECT_EQ(client.operations.size(), 4u);
  }
}

TEST(StatsBook, TheClientThatReportedLeastRecentlyMakesPlace) {
  StatsBook book;
  const auto report = [&book](size_t client) {
    for (const char* const operation : {"store", "retrieve", "exists", "pin"}) {
      book.Add({Name(36, client), operation, "hit", 2, 1});
    }
  };
  for (size_t client = 0; client < StatsBook::kClientsMax; ++client) report(client);
  report(0);
  constexpr size_t kLater = 10 * StatsBook::kClientsMax;
  for (size_t client = 1; client <= kLater; ++client) report(1000 + client);
  report(0);
  uint64_t others = 0, newest = 0;
  const auto shown = book.Show();
  for (const wire::compat::ClientCounters& client : shown) {
    if (client.client_id == "_other") {
      for (const auto& operation : client.operations) others += operation.count;
    }
    newest += client.client_id == Name(36, 1000 + kLater) ? 1 : 0;
    EXPECT_EQ(client.operations.size(), 4u) << client.client_id;
    EXPECT_NE(client.client_id, Name(36, 1)) << "it reported before all others";
  }
  EXPECT_EQ(shown.size(), StatsBook::kClientsMax + 2);
  EXPECT_EQ(newest, 1u);
  // Client 0 was forgotten with its two reports, and is back.
  EXPECT_EQ(others, 4 * (StatsBook::kClientsMax + 1 + kLater + 1 - StatsBook::kClientsMax));
}

TEST(StatsBook, SumsStayAtTheLargestNumber) {
  StatsBook book;
  const wire::compat::StatsEntry large{"c", "store", "ok", ~uint64_t{0}, 1.5e308};
  for (int i = 0; i < 2; ++i) book.Add(large);
  for (const wire::compat::ClientCounters& client : book.Show()) {
    EXPECT_EQ(client.operations[0].size_bytes, ~uint64_t{0});
    EXPECT_EQ(client.operations[0].latency_us, std::numeric_limits<double>::max());
  }
}

TEST(StatsBooks, TheOneThatWasWrittenInLeastRecentlyIsForgotten) {
  StatsBooks books;
  for (uint64_t i = 0; i < StatsBooks::kBooksMax; ++i) books.Of(i).Add({"c", "store", "ok", 1, 1});
  books.Of(0);
  books.Of(1000).Add({"c", "store", "ok", 1, 1});
  EXPECT_EQ(books.Show(0).size(), 2u);
  EXPECT_EQ(books.Show(1).size(), 1u);
  EXPECT_EQ(books.Show(1000).size(), 2u);
}

}  // namespace
}  // namespace maru::engine
