#include "text_dataset.h"

#include <ATen/ATen.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

namespace charlm {

Text::Text(const std::filesystem::path& file, std::int64_t context) {
  std::error_code ignored;  // a file that can't be looked at is not a regular file
  if (!std::filesystem::is_regular_file(file, ignored))
    throw TextError(file.string() + ": not a file that can be read; name a text with --text");
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> block;
  while (stream.read(block.data(), block.size()), stream.gcount() > 0)
    text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
  if (!stream.eof()) throw TextError(file.string() + ": can't be read; check its permissions, and its disk");

  std::array<std::int64_t, 256> token_of{};
  for (const char c : text) token_of[static_cast<unsigned char>(c)] = 1;
  for (std::size_t code = 0; code < token_of.size(); ++code) {
    if (token_of[code] == 0) continue;
    token_of[code] = static_cast<std::int64_t>(characters_.size());
    characters_ += static_cast<char>(code);
  }
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(token_of[static_cast<unsigned char>(c)]);

  const auto count = static_cast<std::int64_t>(tokens.size()), split = count - count / 10;
  if (count - split <= context)
    throw TextError(file.string() + ": has " + std::to_string(count) + " characters; with --context " +
                    std::to_string(context) + " a text needs " + std::to_string(10 * (context + 1)) +
                    " at least");
  const at::Tensor all = at::tensor(tokens);
  training_ = all.slice(0, 0, split);
  validation_ = all.slice(0, split);
}

std::string Text::decoded(const at::Tensor& tokens) const {
  std::string text;
  for (std::int64_t i = 0; i < tokens.size(0); ++i)
    text += characters_.at(static_cast<std::size_t>(tokens[i].item<std::int64_t>()));
  return text;
}

}  // namespace charlm
