// What may come next on a command line.
#pragma once

#include <string>
#include <vector>

namespace hookline {

struct Candidate {
  std::string word;
  std::string note;  // in a line
};

/// What the last of `words`, which may be empty or begun, may become; the words before it are complete. Nothing where a
/// file's name belongs, or a program's argument.
struct Completions {
  bool files = false;
  std::vector<Candidate> candidates;
};
Completions complete(const std::vector<std::string>& words);

}  // namespace hookline
