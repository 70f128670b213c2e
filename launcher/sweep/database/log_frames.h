// SQLite's write-ahead log, state.sqlite-wal, which a killed sweep of a former version has left. SQLite
// itself drops a damaged record of it and all later ones without a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hookline {

/// The number in four bytes from `at` on, as SQLite writes it.
std::uint32_t word_at(std::string_view bytes, std::size_t at, bool is_big_endian = true);

/// A page as a transaction has left it.
struct LogFrame {
  std::uint32_t page = 0;  // its number in the database, from 1
  std::string_view bytes;
};

struct LogFrames {
  std::string damage;            // what is damaged, for people; empty if nothing is
  std::vector<LogFrame> frames;  // those of the log's present use, in the order of writing, also after damage
};

/// The frames in `log`, the bytes of the whole file, which the result refers to. One that was cut short, as
/// by a kill, is left out, and is no damage.
LogFrames frames_in(std::string_view log);

}  // namespace hookline
