#include "libexec/rendezvous/store/store_hub.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libexec/rendezvous/store/store_word.h"

namespace hookline {
namespace {

const StorePeer kHere{"", 1}, kThere{"node-b", 1}, kAlsoThere{"node-b", 2};

std::string greeting() { return to_bytes({StoreQuery::validate}); }

TEST(StoreHub, AnswersTheConnectionThatWaited) {
  StoreHub hub;
  hub.begin_round(1);
  ASSERT_TRUE(hub.open(kHere, 1));
  ASSERT_TRUE(hub.open(kThere, 1));
  EXPECT_TRUE(hub.take(kThere, greeting() + to_bytes({StoreQuery::wait, {"k"}})).empty());
  const auto answers = hub.take(kHere, greeting() + to_bytes({StoreQuery::set, {"k"}, {"v"}}));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].to, kThere);
  EXPECT_EQ(answers[0].bytes, std::string(1, static_cast<char>(StoreWait::over)));
  EXPECT_FALSE(answers[0].is_last);
}

TEST(StoreHub, TakesNobodyOfAnotherRound) {
  StoreHub hub;
  hub.begin_round(1);
  ASSERT_TRUE(hub.open(kThere, 1));
  hub.take(kThere, greeting() + to_bytes({StoreQuery::set, {"k"}, {"of round 1"}}));
  hub.begin_round(2);
  EXPECT_FALSE(hub.open(kAlsoThere, 1));
  for (const StorePeer& peer : {kThere, kAlsoThere}) {
    const auto answers = hub.take(peer, to_bytes({StoreQuery::get, {"k"}}));
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_TRUE(answers[0].is_last);
  }
  ASSERT_TRUE(hub.open(kHere, 2));
  const auto answers = hub.take(kHere, greeting() + to_bytes({StoreQuery::check, {"k"}}));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].bytes, std::string(1, static_cast<char>(StoreCheck::not_ready)));
}

TEST(StoreHub, IsEmptyAgainOnceAllRanksHaveLeft) {
  StoreHub hub;
  hub.begin_round(1);
  const auto has_key = [&](const StorePeer& peer) {
    EXPECT_TRUE(hub.open(peer, 1));
    return hub.take(peer, greeting() + to_bytes({StoreQuery::check, {"k"}})).at(0).bytes[0] ==
           static_cast<char>(StoreCheck::ready);
  };
  ASSERT_TRUE(hub.open(kHere, 1));
  hub.take(kHere, greeting() + to_bytes({StoreQuery::set, {"k"}, {"v"}}));
  EXPECT_TRUE(has_key(kThere));
  hub.end(kHere);
  EXPECT_TRUE(has_key(kAlsoThere));
  hub.end_all_of("node-b");
  EXPECT_FALSE(has_key(kHere));
}

TEST(StoreHub, DisconnectsWhoSendsNonsenseAndSaysWhyOnce) {
  StoreHub hub;
  hub.begin_round(1);
  ASSERT_TRUE(hub.open(kHere, 1));
  const auto answers = hub.take(kHere, "GET / HTTP/1.1\r\n\r\n");
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0].is_last);
  EXPECT_NE(hub.take_problem(), "");
  EXPECT_EQ(hub.take_problem(), "");
}

TEST(StoreHub, EndsAllConnectionsOfANode) {
  StoreHub hub;
  hub.begin_round(1);
  for (const StorePeer& peer : {kHere, kThere, kAlsoThere}) {
    ASSERT_TRUE(hub.open(peer, 1));
    EXPECT_TRUE(hub.take(peer, greeting() + to_bytes({StoreQuery::wait, {"k"}})).empty());
  }
  hub.end_all_of("node-b");
  const StorePeer other{"node-a", 1};
  ASSERT_TRUE(hub.open(other, 1));
  const auto answers = hub.take(other, greeting() + to_bytes({StoreQuery::set, {"k"}, {"v"}}));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].to, kHere);
}

TEST(StoreWord, IsReadAsItWasWritten) {
  const std::string bytes("\0\n store end 1", 14);
  for (const StoreWord& word :
       {StoreWord{StoreWord::Kind::open, 7, "", 3}, StoreWord{StoreWord::Kind::data, 7, bytes},
        StoreWord{StoreWord::Kind::data, 0, ""}, StoreWord{StoreWord::Kind::end, 18},
        StoreWord{StoreWord::Kind::reached, 0, "fd99::1"}}) {
    const auto read = store_word_of(to_line(word));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->kind, word.kind);
    EXPECT_EQ(read->connection, word.connection);
    EXPECT_EQ(read->bytes, word.bytes);
    EXPECT_EQ(read->round, word.round);
  }
  for (const char* line : {"", "store", "store ", "store open 1", "store open x 1", "store data 1",
                           "store end 1 2", "store end -1", R"({"hello":1})"})
    EXPECT_FALSE(store_word_of(line)) << line;
}

}  // namespace
}  // namespace hookline
