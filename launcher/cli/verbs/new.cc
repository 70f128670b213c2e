// hookline new: a project that builds.
#include <array>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/folder_access.h"
#include "base/log.h"
#include "base/text/printable.h"
#include "checkpoint/replace_durably.h"
#include "config/resolve.h"
#include "config/starting_file.h"
#include "config/toml/edit.h"
#include "launcher/cli/project_templates.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/shell.h"
#include "launcher/schedulers/job_text.h"
#include "launcher/schedulers/kubernetes_job.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

struct ProjectFile {
  std::string name, text, what;
};

/// The folder whose bin/ holds this command; empty if the system does not say.
fs::path own_prefix() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
}

/// Is this a build tree, which is not installed yet?
bool is_build_tree(const fs::path& prefix) {
  std::error_code error;
  return fs::exists(prefix / "CMakeCache.txt", error);
}

/// Where the package is, or will be.
std::string package_prefix() {
  const fs::path own = own_prefix();
  return own.empty() || is_build_tree(own) ? "/opt/hookline" : own.string();
}

/// The command that installs the package there; empty if it is installed.
std::string install_command() {
  const fs::path own = own_prefix();
  if (!is_build_tree(own)) return "";
  return "\n  cmake --install " + shell_word(own.string()) + " --prefix " + package_prefix();
}

/// How one kind of project differs from the others.
struct Variant {
  std::string_view name;
  std::string_view train, sweep;
  bool has_hook = false;
  std::string_view config_key = {}, config_value = {};  // besides two ranks
  std::string_view half = "--comm-hook fp16";           // its README's way to halve the gradient bytes
};

constexpr std::array kVariants = {
    Variant{"minimal", kProjectTrain, kProjectSweep},
    Variant{"custom-hook", kProjectTrain, kProjectSweep, true, "ddp.comm_hook", "mean_after"},
    Variant{"sharded", kProjectTrainSharded, kProjectSweepSharded, false, "fsdp.sharding_strategy",
            "full_shard", "--set fsdp.comm_hook=fp16"},
};

const Variant& variant_named(const std::string& name) {
  std::string names;
  for (const Variant& variant : kVariants) {
    if (variant.name == name) return variant;
    names += (names.empty() ? "" : &variant == &kVariants.back() ? " or " : ", ") + std::string(variant.name);
  }
  throw UsageError("there is no variant '" + name + "': choose " + names);
}

std::string config_of(const Variant& variant) {
  Sources sources;
  sources.overrides = {{"launch.processes_per_node", "2", "hookline new"}};
  const std::string text = chosen_file(resolve(sources, Catalog::built_in()).config);
  if (variant.config_key.empty()) return text;
  const std::string key(variant.config_key);
  const std::size_t dot = key.find('.');
  return with_key(SourceText("hookline.toml", text), {key.substr(0, dot), key.substr(dot + 1)},
                  "\"" + std::string(variant.config_value) + "\"");
}

/// The config, as lines of a ConfigMap.
std::string kubernetes_config(const Variant& variant) {
  std::string text = "    [launch]\n    processes_per_node = 2";
  if (const std::string key(variant.config_key); !variant.has_hook && !key.empty()) {
    const std::size_t dot = key.find('.');
    text += "\n    [" + key.substr(0, dot) + "]\n    " + key.substr(dot + 1) + " = \"" +
            std::string(variant.config_value) + "\"";
  }
  return text;
}

std::vector<ProjectFile> files_of(const std::string& name, const Variant& variant) {
  const bool has_hook = variant.has_hook;
  const std::vector<std::string> command = {"hookline", "launch", "--config", "hookline.toml", "build/train"};
  const std::string warning = std::to_string(kWarningSeconds), nodes = "2",
                    ranks = "2";  // ranks of a node, as in the config
  std::vector<ProjectFile> files = {
      {"CMakeLists.txt",
       fill(kProjectCMake, {{"sources", has_hook ? "train.cpp mean_after.cpp" : "train.cpp"}}) +
           (has_hook ? std::string(kProjectPlugin) : ""),
       "builds build/train against the installed hookline"},
      {"train.cpp", std::string(variant.train), "the program: dataset, network, training loop"},
  };
  if (has_hook)
    files.push_back({"mean_after.cpp", std::string(kProjectHook),
                     "a gradient hook of its own, in the program and as a plug-in"});
  files.insert(
      files.end(),
      {{"hookline.toml", config_of(variant), "who runs where, and how gradients are averaged"},
       {"sweep.toml",
        std::string(variant.sweep) + (has_hook ? "\n[grid.own]\nddp.comm_hook = \"mean_after\"\n" : ""),
        "which settings pay off: `hookline sweep sweep.toml`"},
       {"job.sbatch",
        fill(built_in_template("slurm.sbatch"), {{"name", name},
                                                 {"nodes", nodes},
                                                 {"cpus", ranks},
                                                 {"cpus_line", "#SBATCH --cpus-per-task=" + ranks},
                                                 {"gpus", ""},
                                                 {"log", "slurm-%j.log"},
                                                 {"warning_seconds", warning},
                                                 {"scheduler_arguments", ""},
                                                 {"command", shell_line(command)}}),
        "two nodes of a Slurm cluster: `sbatch job.sbatch`"},
       {"job.yaml",
        fill(built_in_template("kubernetes.yaml"),
             {{"name", name},
              {"nodes", nodes},
              {"nnodes", nodes},
              {"secret",
               "# The launchers know each other by a token. Make it once: kubectl create secret generic " +
                   name + " --from-literal=token=\"$(openssl rand -hex 32)\""},
              {"image", "registry.example/" + name + ":latest"},
              {"warning_seconds", warning},
              {"cpus", ranks},
              {"gpus", ""},
              {"config", kubernetes_config(variant)},
              {"command", R"(["hookline","launch","--config","/etc/hookline/run.toml","build/train"])"}}),
        "two pods of Kubernetes: name your image, make the Secret as a comment in the file says, then "
        "`kubectl apply -f job.yaml`"},
       {".gitignore", std::string(kProjectIgnored), ""}});
  std::string rows;
  for (const ProjectFile& file : files)
    if (!file.what.empty()) rows += "| `" + file.name + "` | " + file.what + " |\n";
  const std::string half(variant.half);
  constexpr std::size_t kColumn = 23;
  files.push_back(
      {"README.md",
       fill(kProjectReadme, {{"name", name},
                             {"prefix", package_prefix()},
                             {"half", half},
                             {"gap", std::string(half.size() < kColumn ? kColumn - half.size() : 1, ' ')},
                             {"files", rows}}),
       ""});
  return files;
}

}  // namespace

int new_project(const Arguments& arguments) {
  std::string variant = "minimal";
  VerbParser parser(
      "hookline new DIR [--variant minimal|custom-hook|sharded]",
      "Make a project that builds and trains: a program, its CMake file, a config, a sweep, jobs for "
      "Slurm and Kubernetes.",
      "hookline new my-training");
  parser.add_text("--variant", variant, "VARIANT",
                  "minimal; custom-hook, with a gradient hook of your own; or sharded, for a sharded model");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("folder", 1, 1);
  const Variant& chosen = variant_named(variant);

  const fs::path folder = parser.plain()[0];
  const std::string name = fs::absolute(folder).lexically_normal().filename().string();
  const std::string job_name =
      folder.has_filename() ? name
                            : fs::absolute(folder).lexically_normal().parent_path().filename().string();
  if (!is_kubernetes_name(job_name))
    throw UsageError("'" + job_name + "' can't name a project and its jobs: a name must " +
                     kKubernetesNameRule);
  expect_access(folder);
  std::error_code error;
  if (fs::exists(folder, error) && (!fs::is_directory(folder, error) || !fs::is_empty(folder, error))) {
    log::error("'" + folder.string() + "' is there already, and not an empty folder: name another");
    return kBadInput;
  }
  fs::create_directories(folder, error);
  if (error) {
    log::error("'" + folder.string() + "' can't be made: " + error.message());
    return kBadInput;
  }
  for (const ProjectFile& file : files_of(job_name, chosen)) replace_durably(folder / file.name, file.text);
  std::cout << "made " << printable(folder.string()) << "; next:" << install_command() << "\n  cd "
            << shell_word(folder.string())
            << "\n  cmake -S . -B build -DCMAKE_PREFIX_PATH=" << shell_word(package_prefix())
            << "\n  cmake --build build\n  hookline launch build/train\n"
            << std::flush;
  return kSuccess;
}

}  // namespace hookline
