// What ranks ask of the store of their run, as bytes: the protocol of c10d's TCPStore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace hookline {

/// The requests of torch 2.15, by their numbers there (`c10d::detail::QueryType`). Older versions know fewer:
/// `barrier` is 2.15's.
enum class StoreQuery : std::uint8_t {
  validate,  // the first of every connection
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  count_keys,
  delete_key,
  append,
  get_many,
  set_many,
  cancel_wait,
  ping,
  push,
  pop,
  queue_length,
  list_keys,
  barrier,
};

/// The answers to `check`, and to `wait`, `barrier` and `cancel_wait` (CheckResponseType, WaitResponseType).
enum class StoreCheck : char { ready, not_ready };
enum class StoreWait : char { over, canceled };

struct StoreRequest {
  StoreQuery query = StoreQuery::ping;
  std::vector<std::string> keys = {};
  std::vector<std::string> values = {};  // one for each key; of compare_set, the expected and the new one
  std::int64_t number = 0;  // of add: what to add; of barrier: how many meet; of ping: 32 bits to send back
};

/// A rank sent bytes that are no request, or a request that can't be answered.
class StoreRequestError : public Error {
 public:
  using Error::Error;
};

std::string to_bytes(const StoreRequest& request);

/// An answer's parts, as c10d sends them: whole numbers in the byte order of the machine, and a text after
/// its length, as 64 bits.
void append_number(std::string& bytes, std::int64_t number);
void append_text(std::string& bytes, std::string_view text);

/// Puts requests together from bytes that come in pieces.
class StoreRequests {
 public:
  // c10d's own limits, but for the last.
  static constexpr std::size_t kLongestKeyBytes = 8 << 10, kLongestValueBytes = 8 << 20,
                               kMostKeys = 128 << 10, kLongestRequestBytes = 32 << 20;

  void add(std::string_view bytes);

  std::size_t bytes_kept() const { return bytes_.size(); }

  /// The next request whose bytes have all come. Throws StoreRequestError for bytes that are no request, and
  /// if `validate` is not the first request or comes again; then no more can be read.
  std::optional<StoreRequest> next();

 private:
  std::string bytes_;
  std::size_t done_ = 0;    // of bytes_
  std::size_t needed_ = 0;  // of bytes_, for the next request: so many at least
  bool is_validated_ = false;
};

}  // namespace hookline
