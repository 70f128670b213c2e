#include "run_store/store_request.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/text/bytes_text.h"

namespace hookline {
namespace {

constexpr std::uint32_t kMagicNumber = 0x3C85F7CE;  // c10d::detail::validationMagicNumber

const char* const kOtherProtocol = "a protocol other than that of torch 2.1 and later";

/// What follows the first byte of a request.
enum class Form {
  magic,
  nothing,
  nonce,
  key,
  key_and_value,
  key_and_two_values,
  key_and_number,
  keys,
  keys_and_values
};

constexpr std::array<Form, 19> kForms = {
    Form::magic,               // validate
    Form::key_and_value,       // set
    Form::key_and_two_values,  // compare_set
    Form::key,                 // get
    Form::key_and_number,      // add
    Form::keys,                // check
    Form::keys,                // wait
    Form::nothing,             // count_keys
    Form::key,                 // delete_key
    Form::key_and_value,       // append
    Form::keys,                // get_many
    Form::keys_and_values,     // set_many
    Form::nothing,             // cancel_wait
    Form::nonce,               // ping
    Form::key_and_value,       // push
    Form::key,                 // pop
    Form::key,                 // queue_length
    Form::nothing,             // list_keys
    Form::key_and_number,      // barrier
};

template <typename Number>
void append_bytes_of(std::string& bytes, Number number) {
  char raw[sizeof number];
  std::memcpy(raw, &number, sizeof number);
  bytes.append(raw, sizeof raw);
}

/// Thrown by Reader where the bytes end too early.
struct TooFew {
  std::size_t needed;
};

/// Takes a request apart.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }

  std::string_view take(std::size_t count) {
    if (bytes_.size() - position_ < count) throw TooFew{position_ + count};
    position_ += count;
    return bytes_.substr(position_ - count, count);
  }

  template <typename Number>
  Number number() {
    Number number{};
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }

  std::string text(std::size_t longest, const char* what) {
    const auto size = number<std::uint64_t>();
    if (size > longest)
      throw StoreRequestError(std::string(what) + " of " + bytes_beyond_text(size, longest) +
                              "; the longest has " + binary_bytes_text(longest));
    return std::string(take(size));
  }

  std::string key() { return text(StoreRequests::kLongestKeyBytes, "a key"); }
  std::string value() { return text(StoreRequests::kLongestValueBytes, "a value"); }

 private:
  std::string_view bytes_;
  std::size_t position_ = 0;
};

void read_keys(Reader& reader, StoreRequest& request, bool with_values) {
  const auto count = reader.number<std::uint64_t>();
  if (count > StoreRequests::kMostKeys)
    throw StoreRequestError(std::to_string(count) + " keys; the most are " +
                            std::to_string(StoreRequests::kMostKeys));
  for (std::uint64_t i = 0; i < count; ++i) {
    request.keys.push_back(reader.key());
    if (with_values) request.values.push_back(reader.value());
  }
}

StoreRequest read_request(Reader& reader) {
  const auto number = reader.number<std::uint8_t>();
  if (number >= kForms.size())
    throw StoreRequestError("a request of number " + std::to_string(number) +
                            ", which c10d's TCPStore of torch 2.15 does not know");
  StoreRequest request{static_cast<StoreQuery>(number)};
  switch (kForms.at(number)) {
    case Form::magic:
      if (reader.number<std::uint32_t>() != kMagicNumber) throw StoreRequestError(kOtherProtocol);
      break;
    case Form::nothing:
      break;
    case Form::nonce:
      request.number = reader.number<std::uint32_t>();
      break;
    case Form::key:
      request.keys.push_back(reader.key());
      break;
    case Form::key_and_value:
      request.keys.push_back(reader.key());
      request.values.push_back(reader.value());
      break;
    case Form::key_and_two_values:
      request.keys.push_back(reader.key());
      request.values.push_back(reader.value());
      request.values.push_back(reader.value());
      break;
    case Form::key_and_number:
      request.keys.push_back(reader.key());
      request.number = reader.number<std::int64_t>();
      break;
    case Form::keys:
      read_keys(reader, request, /*with_values=*/false);
      break;
    case Form::keys_and_values:
      read_keys(reader, request, /*with_values=*/true);
      break;
  }
  return request;
}

}  // namespace

void append_number(std::string& bytes, std::int64_t number) { append_bytes_of(bytes, number); }

void append_text(std::string& bytes, std::string_view text) {
  append_bytes_of(bytes, static_cast<std::uint64_t>(text.size()));
  bytes += text;
}

std::string to_bytes(const StoreRequest& request) {
  std::string bytes(1, static_cast<char>(request.query));
  const Form form = kForms.at(static_cast<std::size_t>(request.query));
  if (form == Form::magic) append_bytes_of(bytes, kMagicNumber);
  if (form == Form::nonce) append_bytes_of(bytes, static_cast<std::uint32_t>(request.number));
  const bool has_pairs = form == Form::keys_and_values;
  if (form == Form::keys || has_pairs)
    append_bytes_of(bytes, static_cast<std::uint64_t>(request.keys.size()));
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    append_text(bytes, request.keys[i]);
    if (has_pairs) append_text(bytes, request.values.at(i));
  }
  if (!has_pairs)
    for (const std::string& value : request.values) append_text(bytes, value);
  if (form == Form::key_and_number) append_bytes_of(bytes, request.number);
  return bytes;
}

void StoreRequests::add(std::string_view bytes) { bytes_ += bytes; }

std::optional<StoreRequest> StoreRequests::next() {
  if (bytes_.size() < needed_ || done_ == bytes_.size()) return std::nullopt;
  Reader reader(std::string_view(bytes_).substr(done_));
  try {
    StoreRequest request = read_request(reader);
    if (std::exchange(is_validated_, true) == (request.query == StoreQuery::validate))
      throw StoreRequestError(kOtherProtocol);
    done_ += reader.position();
    needed_ = 0;
    if (done_ == bytes_.size()) bytes_.clear(), done_ = 0;
    return request;
  } catch (const TooFew& few) {
    bytes_.erase(0, std::exchange(done_, 0));
    needed_ = few.needed;
    if (needed_ > kLongestRequestBytes) throw StoreRequestError("a request of more than 32 MiB");
    return std::nullopt;
  }
}

}  // namespace hookline
