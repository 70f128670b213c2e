#include "base/duration_text.h"

#include "base/number_text.h"

namespace hookline {

std::string seconds_text(std::chrono::duration<double> time) { return rounded(time.count(), 3) + " s"; }

}  // namespace hookline
