// What a training program ends with when it does not catch an error of hookline's.
#pragma once

namespace hookline {

/// From now on an uncaught Error or ConfigError ends the process with its message and an exit code, 2 for bad
/// input (ConfigError, HookError) and 1 otherwise, instead of an abort. Other exceptions end it as before.
/// Each is written to the error file first; if the run has failed already, the process then waits briefly
/// until the other ranks have read why (FailureWatch::let_others_hear).
void end_uncaught_errors_with_a_message();

}  // namespace hookline
