#include "net/compat/requests_in_hand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace maru::net::compat {
namespace {

constexpr size_t kMost = RequestsInHand::kBatchBytesMax;

ZmqPart Part(std::string_view text) {
  ZmqPart part;
  zmq_msg_init_size(part.get(), text.size());
  std::ranges::copy(text, static_cast<char*>(zmq_msg_data(part.get())));
  return part;
}

std::unique_ptr<ZmqMessage> MessageOf(std::string_view peer) {
  auto message = std::make_unique<ZmqMessage>();
  message->envelope.push_back(Part(peer));
  message->last = Part("message");
  return message;
}

// A batch of that peer has come: it begins, or waits for room.
void Come(RequestsInHand* in_hand, std::string_view peer, size_t batch_bytes) {
  auto message = MessageOf(peer);
  EXPECT_EQ(in_hand->Refusal(message.get()), "");
  if (in_hand->TakeRoom(message.get(), batch_bytes)) {
    in_hand->Begin({std::move(message), {}, nullptr, 0});
  } else {
    in_hand->WaitForRoom(std::move(message));
  }
}

// What the first in line does in its turn: ends, or begins if it has waited.
std::string TakeTurn(RequestsInHand* in_hand, size_t batch_bytes = 0) {
  RequestsInHand::Peer* const peer = in_hand->First();
  std::string did = peer->identity;
  if (peer->under_way != nullptr) {
    in_hand->EndUnderWay(peer);
    did += " ends";
  } else {
    EXPECT_TRUE(in_hand->TakeRoom(peer->waiting.front().get(), batch_bytes));
    in_hand->Begin({std::move(peer->waiting.front()), {}, nullptr, 0});
    in_hand->EndWaiting(peer);
    did += " begins";
  }
  in_hand->EndTurn();
  return did;
}

TEST(RequestsInHand, BatchesWithoutRoomWaitForItInTheirOrder) {
  RequestsInHand in_hand;
  Come(&in_hand, "a", kMost / 2);
  Come(&in_hand, "b", kMost / 2);
  Come(&in_hand, "c", kMost);
  Come(&in_hand, "d", 1);  // it would fit, and does not overtake
  EXPECT_EQ(TakeTurn(&in_hand), "a ends");
  EXPECT_EQ(TakeTurn(&in_hand), "b ends");
  EXPECT_EQ(TakeTurn(&in_hand, kMost), "c begins");
  EXPECT_EQ(TakeTurn(&in_hand), "c ends");
  EXPECT_EQ(TakeTurn(&in_hand, 1), "d begins");
  EXPECT_EQ(TakeTurn(&in_hand), "d ends");
  EXPECT_TRUE(in_hand.empty());
}

TEST(RequestsInHand, ABatchThatTakesMoreThanAllBeginsAlone) {
  RequestsInHand in_hand;
  Come(&in_hand, "a", 1);
  Come(&in_hand, "b", kMost + 1);
  Come(&in_hand, "c", 1);
  EXPECT_EQ(TakeTurn(&in_hand), "a ends");
  EXPECT_EQ(TakeTurn(&in_hand, kMost + 1), "b begins");
  EXPECT_EQ(TakeTurn(&in_hand), "b ends");
  EXPECT_EQ(TakeTurn(&in_hand, 1), "c begins");
  EXPECT_EQ(TakeTurn(&in_hand), "c ends");
  EXPECT_TRUE(in_hand.empty());
}

TEST(RequestsInHand, WhoHasNothingLeftHasAllItsRoomAgain) {
  RequestsInHand in_hand;
  for (int round = 0; round < 3; ++round) {
    Come(&in_hand, "a", 1);
    auto waiting = MessageOf("a");
    EXPECT_TRUE(in_hand.Has(waiting.get()));
    in_hand.Wait(std::move(waiting));
    EXPECT_EQ(TakeTurn(&in_hand), "a ends");
    EXPECT_EQ(TakeTurn(&in_hand, 1), "a begins");
    EXPECT_EQ(TakeTurn(&in_hand), "a ends");
    EXPECT_FALSE(in_hand.Has(MessageOf("a").get()));
  }
}

}  // namespace
}  // namespace maru::net::compat
