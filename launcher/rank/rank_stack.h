// The stack of a rank that a signal ended: from its error file, with the names that addr2line knows.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace hookline {

struct RankFrame {
  std::int64_t number = 0;  // from the innermost call on
  std::string address;      // "0x7f01…"
  std::string module;       // path of the program or library; empty: the address is in none
  std::string offset;       // in the module, as its symbols count
};

struct RankStack {
  std::int64_t thread = 0;
  std::string thread_name;
  std::vector<RankFrame> frames;  // those that are kept: the innermost, and the outermost
  std::int64_t depth = 0;         // of the whole stack, as far as it was read
  bool is_cut = false;            // there are more calls than the rank has counted
};

/// Of an error file's extraInfo; nothing if it holds no stack of the form that parallel/rank/signal_report.h
/// writes.
std::optional<RankStack> rank_stack_in(const nlohmann::json& extra);

/// "in thread 4711 'train', the innermost call first:", then a line for each frame, or for several that are
/// alike:
///
///     frame #0: fail(int) at train.cc:45 (0x1234 in /runs/train)
///
/// Runs addr2line, which may take seconds with large libraries, and not longer than 20. Where it finds no
/// name, a frame has none; if it is missing, fails or takes longer, a line at the end says so. What is left
/// out between frames is said as well.
std::vector<std::string> stack_lines(const RankStack& stack);

}  // namespace hookline
