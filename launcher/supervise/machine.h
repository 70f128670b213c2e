// What this machine offers to a run.
#pragma once

namespace hookline {

/// Cores that this process may run on.
int usable_cores();

}  // namespace hookline
