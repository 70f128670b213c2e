// What a metric or a parameter is called on an MLflow server.
#pragma once

#include <string>

namespace hookline {

/// `name`, if every server takes it: at most 250 of ASCII's letters and digits, '_', '-', '.', ' ', '/' between parts of a path that
/// leads somewhere, and the letters of scripts that write them whole. Else '_' stands for what it does not take, what is too long
/// is left out, and a checksum of the name, in every run the same, keeps names apart that would become one: "top-5 %" is
/// "top-5 _-4cb5e33f".
/// Source: mlflow/utils/validation.py, _validate_metric_name, without the ':' that servers on Windows refuse.
std::string name_for_mlflow(const std::string& name);

}  // namespace hookline
