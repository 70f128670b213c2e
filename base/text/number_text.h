// Numbers for people.
#pragma once

#include <span>
#include <string>

namespace hookline {

/// `value` with `digits` significant digits, as printf's %g writes it, except that numbers below 10^15 keep
/// all digits before the decimal point: "1800", where %.3g gives "1.8e+03".
std::string rounded(double value, int digits);

struct Unit {
  const char* name;
  double size;  // as a multiple of the basic unit
};

/// The largest of `units` in which `value`, rounded to three digits, is at least 1; for smaller values and
/// zero, the smallest unit. `units` are sorted from the largest to the smallest.
Unit unit_for(double value, std::span<const Unit> units);

/// "1.5 MB" of 1.5e6 and {"MB", 1e6}: three digits.
std::string text_in(double value, const Unit& unit);

}  // namespace hookline
