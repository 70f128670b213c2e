// Damaged texts, the same in every run.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace hookline::testing {

/// `text` with up to four changes: bytes lost, changed or duplicated, the end cut off, or one of `pieces`
/// inserted, sometimes very many times.
inline std::string mutated(std::string text, const std::vector<std::string>& pieces, std::mt19937& random) {
  constexpr std::size_t kOften = 100'000;  // bytes
  for (unsigned changes = 1 + random() % 4; changes > 0 && !text.empty(); --changes) {
    const std::size_t at = random() % text.size();
    switch (random() % 8) {
      case 0:
        text.erase(at, 1 + random() % 20);
        break;
      case 1:
        text[at] = static_cast<char>(random());
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), random() % 60));
        break;
      case 3:
        if (random() % 4 == 0) text.resize(at);
        break;
      case 4:
        if (random() % 8 == 0) {
          const std::string& piece = pieces[random() % pieces.size()];
          std::string often;
          while (often.size() < kOften) often += piece;
          text.insert(at, often);
        }
        break;
      default:
        text.insert(at, pieces[random() % pieces.size()]);
    }
  }
  return text;
}

}  // namespace hookline::testing
