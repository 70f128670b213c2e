// What the wizard finds out by itself.
#pragma once

#include "config/schema/detected.h"

namespace hookline {

Detected detect();

}  // namespace hookline
