// Mistakes that the simulator has to find. sim/ builds itself once with each, by compiling the file
// that it lies in with MARU_DEFECT=its number; everything else is built without the macro, where
// every `if constexpr (kDefect == ...)` is false and gone.
#pragma once

#ifndef MARU_DEFECT
#define MARU_DEFECT 0
#endif

namespace maru {

enum class Defect {
  kNone = 0,
  // Of the engine.
  kDuplicateKeepsGeneration = 1,  // a repeated register meets the page's next use
  kSettleForgetsNamed = 2,        // a page that the client has named is given back all the same
  kScanForgetsPins = 3,           // pins are read as leases
  kFreesLeasedPages = 4,          // CONDEMNED pages do not wait for their leases
  kNoQuarantine = 5,              // what a dead client left is granted at once
  kDetachedIsDead = 6,            // a closed connection ends the client, though its lock is held
  kLooksInOnePool = 7,            // register looks for its key in the page's own pool only
  kBudgetIgnored = 8,             // a grant does not ask for the client's budget
  kTextRoomTakesNewKeys = 15,     // a key of the request under way may go for the next one's text
  // Of the handler.
  kLoserPageIsLost = 9,      // the page of a lost register race is nobody's
  kReusesUnknownPages = 10,  // pages of unknown fate are free again at once
  kMissingReplyIsTrue = 11,  // an entry without an answer counts as stored
  kOldHandleStores = 12,     // a handle holds for every handing out of its page
  kBatchFailureIsTrue = 13,  // what a batch could not store counts as stored
  kBatchMisses = 14,         // a batch looks for its keys in the first pool only
};

// Not inline: a program with a defect links objects of both kinds.
constexpr Defect kDefect = static_cast<Defect>(MARU_DEFECT);

}  // namespace maru
