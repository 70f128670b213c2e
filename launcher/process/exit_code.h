// The launcher's own exit codes. It may also exit with a rank's exit code, or with 128 + a signal's number.
#pragma once

namespace hookline {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure =
    1;  // the system refused something, a checkpoint is damaged, or a defect of ours
inline constexpr int kBadInput = 2;     // command line, config, environment, or a folder that can't be used
inline constexpr int kNoProgress = 69;  // nodes are lost faster than the run makes progress
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

}  // namespace hookline
