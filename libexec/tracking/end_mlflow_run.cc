// end_mlflow_run RUN_FOLDER STATUS: sets the MLflow run of a run's folder to FINISHED, FAILED or KILLED. If
// it can't reach the server, it prints why and how to set the status by hand, and exits with 1.
#include <cstdio>
#include <string>
#include <string_view>

#include "tracking/mlflow_end.h"

int main(int count, char** arguments) {
  const std::string_view status = count == 3 ? arguments[2] : "";
  if (status != "FINISHED" && status != "FAILED" && status != "KILLED") {
    std::fputs("usage: end_mlflow_run RUN_FOLDER FINISHED|FAILED|KILLED\n", stderr);
    return 2;
  }
  const std::string problem = hookline::end_mlflow_run(arguments[1], arguments[2]);
  std::fputs(problem.c_str(), stdout);
  return problem.empty() ? 0 : 1;
}
