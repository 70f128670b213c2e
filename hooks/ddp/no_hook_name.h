// The name of what averages gradients where no hook does.
#pragma once

namespace hookline {

/// What stands for a hook's name, CommHook::describe(), where gradients are averaged without one.
inline constexpr const char* kNoHook = "no hook";

}  // namespace hookline
