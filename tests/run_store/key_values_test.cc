#include "run_store/key_values.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hookline {
namespace {

using Answers = std::vector<std::pair<KeyValues::Client, std::string>>;

const std::string kOver(1, static_cast<char>(StoreWait::over));
const std::string kCanceled(1, static_cast<char>(StoreWait::canceled));

Answers take(KeyValues& values, KeyValues::Client client, const StoreRequest& request) {
  Answers answers;
  for (const auto& [to, bytes] : values.take(client, request)) answers.emplace_back(to, bytes);
  return answers;
}

std::string number(std::int64_t value) {
  std::string bytes;
  append_number(bytes, value);
  return bytes;
}

std::string text(const std::string& value) {
  std::string bytes;
  append_text(bytes, value);
  return bytes;
}

TEST(KeyValues, ReleaseWaitingClientsOnceAllKeysAreThere) {
  KeyValues values;
  EXPECT_EQ(take(values, 1, {StoreQuery::wait, {"a", "b"}}), Answers());
  EXPECT_EQ(take(values, 2, {StoreQuery::wait, {"b"}}), Answers());
  EXPECT_EQ(take(values, 3, {StoreQuery::set, {"a"}, {"x"}}), Answers());
  EXPECT_EQ(take(values, 3, {StoreQuery::set_many, {"b", "c"}, {"y", "z"}}),
            (Answers{{1, kOver}, {2, kOver}}));
  EXPECT_EQ(take(values, 3, {StoreQuery::set, {"a"}, {"again"}}), Answers());
  EXPECT_EQ(take(values, 1, {StoreQuery::wait, {"a", "b"}}), (Answers{{1, kOver}}));
}

TEST(KeyValues, ForgetClientsThatNoLongerWait) {
  KeyValues values;
  take(values, 1, {StoreQuery::wait, {"a", "b"}});
  take(values, 2, {StoreQuery::wait, {"a"}});
  EXPECT_EQ(take(values, 1, {StoreQuery::cancel_wait}), (Answers{{1, kCanceled}}));
  values.forget(2);
  EXPECT_EQ(take(values, 3, {StoreQuery::add, {"a"}, {}, 1}), (Answers{{3, number(1)}}));
}

TEST(KeyValues, AddToWholeNumbersOnly) {
  KeyValues values;
  EXPECT_EQ(take(values, 1, {StoreQuery::add, {"n"}, {}, 40}), (Answers{{1, number(40)}}));
  EXPECT_EQ(take(values, 1, {StoreQuery::add, {"n"}, {}, -38}), (Answers{{1, number(2)}}));
  EXPECT_EQ(take(values, 1, {StoreQuery::get, {"n"}}), (Answers{{1, text("2")}}));
  take(values, 1, {StoreQuery::set, {"n"}, {"two"}});
  EXPECT_THROW(take(values, 1, {StoreQuery::add, {"n"}, {}, 1}), StoreRequestError);
  take(values, 1, {StoreQuery::set, {"n"}, {"9223372036854775807"}});
  EXPECT_THROW(take(values, 1, {StoreQuery::add, {"n"}, {}, 1}), StoreRequestError);
}

TEST(KeyValues, HoldABarrierUntilAllAreThere) {
  KeyValues values;
  EXPECT_EQ(take(values, 1, {StoreQuery::barrier, {"b"}, {}, 3}), Answers());
  EXPECT_EQ(take(values, 2, {StoreQuery::barrier, {"b"}, {}, 3}), Answers());
  EXPECT_EQ(take(values, 3, {StoreQuery::barrier, {"b"}, {}, 3}),
            (Answers{{1, kOver}, {2, kOver}, {3, kOver}}));
  EXPECT_EQ(take(values, 1, {StoreQuery::get, {"b"}}), (Answers{{1, text("3")}}));
  EXPECT_EQ(take(values, 1, {StoreQuery::barrier, {"alone"}, {}, 1}), (Answers{{1, kOver}}));
  take(values, 1, {StoreQuery::set, {"word"}, {"two"}});
  EXPECT_THROW(take(values, 1, {StoreQuery::barrier, {"word"}, {}, 2}), StoreRequestError);
}

TEST(KeyValues, HandEachEntryOfAQueueToOneClient) {
  KeyValues values;
  EXPECT_EQ(take(values, 1, {StoreQuery::wait, {"q"}}), Answers());
  EXPECT_EQ(take(values, 2, {StoreQuery::wait, {"q"}}), Answers());
  EXPECT_EQ(take(values, 3, {StoreQuery::push, {"q"}, {"first"}}), (Answers{{1, kOver}}));
  EXPECT_EQ(take(values, 1, {StoreQuery::pop, {"q"}}), (Answers{{1, number(1) + text("first")}}));
  EXPECT_EQ(take(values, 1, {StoreQuery::pop, {"q"}}), (Answers{{1, number(0)}}));
  EXPECT_EQ(take(values, 3, {StoreQuery::push, {"q"}, {"second"}}), (Answers{{2, kOver}}));
  EXPECT_EQ(take(values, 3, {StoreQuery::queue_length, {"q"}}), (Answers{{3, number(1)}}));
}

}  // namespace
}  // namespace hookline
