#include "run_store/store_request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hookline {
namespace {

StoreRequest request_of(StoreQuery query) {
  switch (query) {
    case StoreQuery::validate:
    case StoreQuery::count_keys:
    case StoreQuery::cancel_wait:
    case StoreQuery::list_keys:
      return {query};
    case StoreQuery::ping:
      return {query, {}, {}, 0xfedcba98};
    case StoreQuery::get:
    case StoreQuery::delete_key:
    case StoreQuery::pop:
    case StoreQuery::queue_length:
      return {query, {"a key"}};
    case StoreQuery::set:
    case StoreQuery::append:
    case StoreQuery::push:
      return {query, {"key"}, {std::string("\0\n bytes", 8)}};
    case StoreQuery::compare_set:
      return {query, {"key"}, {"", "new"}};
    case StoreQuery::add:
    case StoreQuery::barrier:
      return {query, {"count"}, {}, -5};
    case StoreQuery::check:
    case StoreQuery::wait:
    case StoreQuery::get_many:
      return {query, {"a", "", "c"}};
    case StoreQuery::set_many:
      return {query, {"a", "b"}, {"1", "2"}};
  }
  return {};
}

std::vector<StoreRequest> one_of_each() {
  std::vector<StoreRequest> requests;
  for (int query = 0; query <= static_cast<int>(StoreQuery::barrier); ++query)
    requests.push_back(request_of(static_cast<StoreQuery>(query)));
  return requests;
}

void expect_same(const StoreRequest& read, const StoreRequest& sent) {
  EXPECT_EQ(read.query, sent.query);
  EXPECT_EQ(read.keys, sent.keys);
  EXPECT_EQ(read.values, sent.values);
  EXPECT_EQ(read.number, sent.number);
}

/// What is wrong with `bytes` after the greeting.
std::string problem_of(const std::string& bytes) {
  StoreRequests requests;
  requests.add(to_bytes({StoreQuery::validate}) + bytes);
  try {
    while (requests.next()) {
    }
  } catch (const StoreRequestError& error) {
    return error.what();
  }
  return "";
}

TEST(StoreRequest, ArrivesInPiecesOfAnySize) {
  std::string bytes;
  for (const StoreRequest& request : one_of_each()) bytes += to_bytes(request);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{7}, bytes.size()}) {
    StoreRequests requests;
    std::vector<StoreRequest> read;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      requests.add(std::string_view(bytes).substr(at, piece));
      while (auto request = requests.next()) read.push_back(*request);
    }
    const auto sent = one_of_each();
    ASSERT_EQ(read.size(), sent.size()) << piece;
    for (std::size_t i = 0; i < sent.size(); ++i) expect_same(read[i], sent[i]);
  }
}

TEST(StoreRequest, IsForgottenOnceItIsRead) {
  StoreRequests requests;
  requests.add(to_bytes({StoreQuery::validate}));
  const std::string set = to_bytes({StoreQuery::set, {"key"}, {std::string(1000, 'x')}});
  for (int i = 0; i < 1000; ++i) {
    requests.add(set);
    while (requests.next()) {
    }
  }
  EXPECT_EQ(requests.bytes_kept(), 0U);
  requests.add(set + set.substr(0, 10));
  while (requests.next()) {
  }
  EXPECT_EQ(requests.bytes_kept(), 10U);
}

TEST(StoreRequest, IsNotReadFromAnotherProtocol) {
  for (const std::string text : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00", "\x05"}) {
    StoreRequests requests;
    requests.add(text + std::string(64, 'x'));
    EXPECT_THROW(requests.next(), StoreRequestError) << text;
  }
  EXPECT_EQ(problem_of(to_bytes({StoreQuery::validate})),
            "a protocol other than that of torch 2.1 and later");
  StoreRequests other_magic_number;
  other_magic_number.add(std::string("\0abcd", 5));
  EXPECT_THROW(other_magic_number.next(), StoreRequestError);
}

TEST(StoreRequest, HasLimits) {
  const auto with_size = [](StoreQuery query, std::uint64_t size) {
    std::string bytes(1, static_cast<char>(query));
    append_number(bytes, static_cast<std::int64_t>(size));
    return bytes;
  };
  EXPECT_EQ(problem_of(with_size(StoreQuery::get, 8193)), "a key of more than 8 KiB; the longest has 8 KiB");
  std::string set = with_size(StoreQuery::set, 1) + "k";
  append_number(set, 8388609);
  EXPECT_EQ(problem_of(set), "a value of more than 8 MiB; the longest has 8 MiB");
  EXPECT_EQ(problem_of(with_size(StoreQuery::wait, ~std::uint64_t{0})),
            "18446744073709551615 keys; the most are 131072");
  StoreRequest many{StoreQuery::set_many};
  for (int i = 0; i < 5; ++i) {
    many.keys.push_back(std::to_string(i));
    many.values.emplace_back(std::size_t{8} << 20, 'x');
  }
  const std::string bytes = to_bytes(many);
  EXPECT_EQ(problem_of(bytes.substr(0, bytes.size() - 1)), "a request of more than 32 MiB");
  EXPECT_EQ(problem_of("\x13"), "a request of number 19, which c10d's TCPStore of torch 2.15 does not know");
}

}  // namespace
}  // namespace hookline
