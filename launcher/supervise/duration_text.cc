#include "launcher/supervise/duration_text.h"

#include <cstdio>

namespace hookline {

std::string seconds_text(std::chrono::duration<double> time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", time.count());
  return text;
}

}  // namespace hookline
