// Every verb of the command: one file each beside this one. Each takes what follows its name and returns the
// exit code; throws UsageError, ProgramError, CatalogError.
#pragma once

#include <string>
#include <vector>

namespace hookline {

using Arguments = std::vector<std::string>;

int launch(const Arguments& arguments);
int hooks_list(const Arguments& arguments);
int hooks_describe(const Arguments& arguments);
int config_validate(const Arguments& arguments);
int replay(const Arguments& arguments);
int submit(const Arguments& arguments);
int config_show(const Arguments& arguments);
int checkpoint_inspect(const Arguments& arguments);
int checkpoint_verify(const Arguments& arguments);

}  // namespace hookline
