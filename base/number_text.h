// Numbers for people.
#pragma once

#include <string>

namespace hookline {

/// `value` with `digits` significant digits, as printf's %g writes it, but with all digits in front of the decimal point:
/// "1800", where %.3g has "1.8e+03". Exponents are left to what is below 0.0001, or is 10^15 and more.
std::string rounded(double value, int digits);

}  // namespace hookline
