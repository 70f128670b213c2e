#include <nlohmann/json.hpp>
#include <string>

#include "launcher/containment/pid_namespace.h"
#include "launcher/containment/run_cgroup.h"
#include "launcher/facts/facts.h"

namespace hookline {

Facts isolation_facts() {
  Facts facts;
  const auto refusal = pid_namespace_refusal();
  facts["pid_namespace"] = refusal ? "refused: " + refusal->why : "can be made";
  std::string why_not;
  const std::string group = place_of_run_cgroup(why_not);
  facts["control_group_below"] = group.empty() ? "none: " + why_not : group;
  return facts;
}

}  // namespace hookline
