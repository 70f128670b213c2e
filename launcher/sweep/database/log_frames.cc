#include "launcher/sweep/database/log_frames.h"

#include <cstddef>

namespace hookline {
namespace {

// See https://www.sqlite.org/fileformat2.html#walformat.
constexpr std::size_t kHeaderBytes = 32, kHeaderSummed = 24, kFrameHeaderBytes = 24, kFrameHeaderSummed = 8;
constexpr std::uint32_t kMagic = 0x377f0682;  // words of checksums are little-endian; kMagic + 1: big-endian
constexpr std::uint32_t kLeastPage = 512, kMostPage = 65536;

/// SQLite's checksum, which continues from frame to frame.
struct RunningSum {
  bool is_big_endian = false;
  std::uint32_t first = 0, second = 0;

  void add(std::string_view bytes) {
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      first += word_at(bytes, at, is_big_endian) + second;
      second += word_at(bytes, at + 4, is_big_endian) + first;
    }
  }
  bool is_at(std::string_view bytes, std::size_t at) const {
    return word_at(bytes, at) == first && word_at(bytes, at + 4) == second;
  }
};

}  // namespace

std::uint32_t word_at(std::string_view bytes, std::size_t at, bool is_big_endian) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i)
    word |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i]))
            << 8 * (is_big_endian ? 3 - i : i);
  return word;
}

LogFrames frames_in(std::string_view log) {
  LogFrames found;
  if (log.size() <= kHeaderBytes) return found;  // nothing was written after the header
  const std::uint32_t magic = word_at(log, 0), page_bytes = word_at(log, 8);
  RunningSum sum{magic == kMagic + 1};
  sum.add(log.substr(0, kHeaderSummed));
  const bool is_page_size =
      page_bytes >= kLeastPage && page_bytes <= kMostPage && (page_bytes & (page_bytes - 1)) == 0;
  if ((magic != kMagic && magic != kMagic + 1) || !is_page_size || !sum.is_at(log, kHeaderSummed))
    found.damage = "its header is not as it was written";
  if (!is_page_size) return found;
  const std::uint32_t salts[] = {word_at(log, 16), word_at(log, 20)};
  const std::size_t frame_bytes = kFrameHeaderBytes + page_bytes;
  for (std::size_t at = kHeaderBytes; at + frame_bytes <= log.size(); at += frame_bytes) {
    const std::string_view frame = log.substr(at, frame_bytes);
    const bool is_first = word_at(frame, 8) == salts[0], is_second = word_at(frame, 12) == salts[1];
    if (!is_first && !is_second) continue;  // from an earlier use of the file
    sum.add(frame.substr(0, kFrameHeaderSummed));
    sum.add(frame.substr(kFrameHeaderBytes));
    if (found.damage.empty() && !(is_first && is_second && sum.is_at(frame, 16)))
      found.damage = "its record " + std::to_string((at - kHeaderBytes) / frame_bytes + 1) +
                     " does not match its checksum";
    found.frames.push_back({word_at(frame, 0), frame.substr(kFrameHeaderBytes)});
  }
  return found;
}

}  // namespace hookline
