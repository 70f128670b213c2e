#include "base/text/bytes_text.h"

namespace hookline {
namespace {

constexpr Unit kDecimal[] = {{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}};
constexpr Unit kBinary[] = {{"PiB", 0x1p50}, {"TiB", 0x1p40}, {"GiB", 0x1p30},
                            {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"B", 1}};

}  // namespace

std::string bytes_text(double bytes) { return text_in(bytes, bytes_unit(bytes)); }

std::string rate_text(double bytes_per_second) { return bytes_text(bytes_per_second) + "/s"; }

std::string binary_bytes_text(double bytes) { return text_in(bytes, unit_for(bytes, kBinary)); }

std::string bytes_beyond_text(double bytes, double limit) {
  const std::string text = binary_bytes_text(bytes);
  return text == binary_bytes_text(limit) ? "more than " + text : text;
}

Unit bytes_unit(double bytes) { return unit_for(bytes, kDecimal); }

}  // namespace hookline
