// What may come next on a command line.
#pragma once

#include <string>
#include <vector>

namespace hookline {

struct Candidate {
  std::string word;
  std::string note;  // in a line
};

/// Completions of the last of `words`, which may be empty or partial; the words before it are complete. No
/// candidates where a file name or a program's argument is expected.
struct Completions {
  bool files = false;
  std::vector<Candidate> candidates;
};
Completions complete(const std::vector<std::string>& words);

}  // namespace hookline
