#include "launcher/supervise/duration_text.h"

#include "hooks/number_text.h"

namespace hookline {

std::string seconds_text(std::chrono::duration<double> time) { return rounded(time.count(), 3) + " s"; }

}  // namespace hookline
