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
  std::vector<LogFrame> frames;  // in the order of writing, those after damage included
};

/// The frames in `log`, which has the bytes of the whole file and must outlive the result. Frames that are
/// left from before SQLite restarted the log are skipped. So is a frame that was cut short, as by a kill,
/// which is not damage.
LogFrames frames_in(std::string_view log);

}  // namespace hookline
