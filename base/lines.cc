#include "base/lines.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/regular_file.h"
#include "base/text/bytes_text.h"
#include "base/text/count_text.h"

namespace hookline {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string last_line(const std::string& text) { return text.substr(text.rfind('\n') + 1); }

void BoundedLines::feed(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    add(bytes.substr(0, end));
    if (end == bytes.npos) return;
    ++next_;
    end_line(take);
    bytes.remove_prefix(end + 1);
  }
}

void BoundedLines::finish(const Take& take) {
  if (next_ != begin_) end_line(take);
}

void BoundedLines::add(std::string_view part) {
  next_ += part.size();
  is_too_long_ = is_too_long_ || part.size() > most_bytes_ - line_.size();
  if (is_too_long_)
    line_ = std::string();  // frees the memory, too
  else
    line_ += part;
}

void BoundedLines::end_line(const Take& take) {
  ++lines_;
  const std::uint64_t begin = std::exchange(begin_, next_);
  if (std::exchange(is_too_long_, false)) {
    if (skipped_.count++ == 0) skipped_.first = lines_;
    return;
  }
  take(line_, begin);
  line_.clear();
}

std::string BoundedLines::skipped_text(const std::filesystem::path& file) const {
  if (skipped_.count == 0) return "";
  const std::uint64_t others = skipped_.count - 1;
  return "line " + std::to_string(skipped_.first) +
         (others == 0 ? "" : " and " + count_text(others, "other")) + " of '" + file.string() +
         (others == 0 ? "' is longer than " : "' are longer than ") + binary_bytes_text(most_bytes_) +
         (others == 0 ? "" : " each");
}

bool read_lines(std::istream& stream, BoundedLines& lines, const BoundedLines::Take& take,
                std::uint64_t most_bytes) {
  std::array<char, 1 << 16> block;
  for (std::uint64_t left = most_bytes; left > 0; left -= static_cast<std::uint64_t>(stream.gcount())) {
    stream.read(block.data(), static_cast<std::streamsize>(std::min<std::uint64_t>(left, block.size())));
    if (stream.gcount() == 0) break;
    lines.feed({block.data(), static_cast<std::size_t>(stream.gcount())}, take);
  }
  const bool is_whole = !stream || stream.peek() == std::istream::traits_type::eof();
  if (is_whole) lines.finish(take);
  return is_whole;
}

}  // namespace hookline
