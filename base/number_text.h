// Numbers for people.
#pragma once

#include <span>
#include <string>

namespace hookline {

/// `value` with `digits` significant digits, as printf's %g writes it, but with all digits in front of the decimal point:
/// "1800", where %.3g has "1.8e+03". Exponents are left to what is below 0.0001, or is 10^15 and more.
std::string rounded(double value, int digits);

struct Unit {
  const char* name;
  double size;  // as a multiple of the basic unit
};

/// Of `units`, from the largest to the smallest, the largest in which three digits of `value` are 1 or more; else the
/// last, which zero has as well.
Unit unit_for(double value, std::span<const Unit> units);

/// "1.5 MB" of 1.5e6 and {"MB", 1e6}: three digits.
std::string text_in(double value, const Unit& unit);

}  // namespace hookline
