// Every verb of the command: one file each in verbs/, except `complete_words`, which is in complete.cc. Each
// takes what follows its name and returns the exit code; throws UsageError, ProgramError, CatalogError.
#pragma once

#include <string>
#include <vector>

namespace hookline {

using Arguments = std::vector<std::string>;

int launch(const Arguments& arguments);
int advise(const Arguments& arguments);
/// For the build: writes a man page for each verb into a folder. Not listed in help.
int man_pages(const Arguments& arguments);
/// For the documentation: writes the pages of docs/reference/ that the source knows into a folder. Not listed
/// in help.
int reference_pages(const Arguments& arguments);
int env(const Arguments& arguments);
int estimate(const Arguments& arguments);
int hooks_list(const Arguments& arguments);
int hooks_describe(const Arguments& arguments);
int new_project(const Arguments& arguments);
int replay(const Arguments& arguments);
/// hookline test
int self_test(const Arguments& arguments);
int submit(const Arguments& arguments);
int sweep(const Arguments& arguments);
int trial(const Arguments& arguments);
int report(const Arguments& arguments);
/// For the scripts of `completion`: prints what may come next, or ":files". Not listed in help.
int complete_words(const Arguments& arguments);
int completion(const Arguments& arguments);
int config_default(const Arguments& arguments);
int config_diff(const Arguments& arguments);
int config_get(const Arguments& arguments);
int config_import(const Arguments& arguments);
int config_schema(const Arguments& arguments);
int config_set(const Arguments& arguments);
int config_show(const Arguments& arguments);
int config_update(const Arguments& arguments);
int config_validate(const Arguments& arguments);
int config_where(const Arguments& arguments);
int config_wizard(const Arguments& arguments);
int checkpoint_inspect(const Arguments& arguments);
int checkpoint_verify(const Arguments& arguments);

}  // namespace hookline
