// What the wizard detects by itself.
#pragma once

#include "config/schema/detected.h"

namespace hookline {

Detected detect();

}  // namespace hookline
