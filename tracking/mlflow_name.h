// The names of metrics and parameters on an MLflow server.
#pragma once

#include <string>

namespace hookline {

/// `name`, if every server accepts it: a relative path of at most 250 characters, which are ASCII letters and
/// digits, '_', '-', '.', ' ', '/', and letters of scripts that need no combining marks. Otherwise other
/// characters become '_', the end of a long name is cut off, and a checksum of the name is appended. The
/// checksum is the same in every run, and distinguishes names that would become equal: "top-5 %" becomes
/// "top-5 _-4cb5e33f".
/// Source: mlflow/utils/validation.py, _validate_metric_name, without the ':' that servers on Windows refuse.
std::string name_for_mlflow(const std::string& name);

}  // namespace hookline
