#include "libexec/rendezvous/store/store_word.h"

#include "base/text/address_text.h"
#include "libexec/rendezvous/lines/take_text.h"

namespace hookline {
namespace {

using Kind = StoreWord::Kind;

}  // namespace

std::string to_line(const StoreWord& word) {
  const std::string connection = std::to_string(word.connection);
  switch (word.kind) {
    case Kind::reached:
      return "store reached " + word.bytes;
    case Kind::open:
      return "store open " + connection + " " + std::to_string(word.round);
    case Kind::data:
      return "store data " + connection + " " + word.bytes;
    case Kind::end:
      break;
  }
  return "store end " + connection;
}

std::optional<StoreWord> store_word_of(std::string_view line) {
  StoreWord word;
  if (!take_text(line, "store ")) return std::nullopt;
  if (take_text(line, "reached ")) {
    word.kind = Kind::reached;
    word.bytes = line;
    return is_in_digits(word.bytes) ? std::optional(word) : std::nullopt;
  }
  if (take_text(line, "open "))
    word.kind = Kind::open;
  else if (take_text(line, "data "))
    word.kind = Kind::data;
  else if (!take_text(line, "end "))
    return std::nullopt;
  const auto connection = take_number<std::uint64_t>(line);
  if (!connection || (word.kind != Kind::end && !take_text(line, " "))) return std::nullopt;
  word.connection = *connection;
  if (word.kind == Kind::data) {
    word.bytes = line;
    return word;
  }
  if (word.kind == Kind::open) {
    const auto round = take_number<int>(line);
    if (!round) return std::nullopt;
    word.round = *round;
  }
  return line.empty() ? std::optional(word) : std::nullopt;
}

}  // namespace hookline
