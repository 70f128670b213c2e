// hookline submit: writes a job for a scheduler, and hands it over.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <ctime>
#include <iostream>

#include "base/log.h"
#include "base/regular_file.h"
#include "config/print.h"
#include "config/resolve.h"
#include "config/schema/node_count.h"
#include "config/schema/origin_text.h"
#include "config/toml/source_text.h"
#include "config/visible_gpus.h"
#include "launcher/cli/config_choice.h"
#include "launcher/cli/overrides.h"
#include "launcher/cli/scheduler_flags.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/launch/launch_plan.h"
#include "launcher/launch/unread_config.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/shell.h"
#include "launcher/rank/program.h"
#include "launcher/schedulers/job_environment.h"
#include "launcher/schedulers/job_text.h"
#include "launcher/schedulers/kubernetes_job.h"
#include "launcher/schedulers/sbatch_lines.h"
#include "launcher/schedulers/slurm_job.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;

struct SubmitRequest {
  std::string scheduler, name, image, template_file;
  ConfigChoice config;
  std::int64_t nodes = 0;  // 0: as the config says
  bool nodes_are_given = false;
  std::int64_t warning_seconds = 0;  // 0: not given
  std::vector<std::string> sets, scheduler_arguments;
  bool print = false, no_follow = false;
  Variables variables;  // those of this shell that the job gets
};

/// Warns if a preempted job would not resume from its checkpoints.
void tell_of_preemption(const SubmitRequest& request, const RunConfig& config) {
  const TrainingConfig& training = config.training;
  if (!training.checkpoint_every_steps) {
    log::warning(
        "the run keeps no checkpoints: after a preemption it begins again ([training] "
        "checkpoint_every_steps)");
    return;
  }
  if (is_given(config, "training.resume") && training.resume != "auto")
    log::warning("resume is " + to_text(training.resume) + " (" +
                 origin_text(config.origins.at("training.resume")) +
                 "): a requeued job does not resume from its own checkpoints; \"auto\" does");
  if (request.scheduler == "kubernetes")
    log::warning("checkpoint_dir '" + training.checkpoint_dir +
                 "' must be on a volume that all pods share, and the manifest mounts none: add yours, in a "
                 "--template of "
                 "your own");
}

/// Throws UsageError for a request that this scheduler can't run.
void check_for_scheduler(const SubmitRequest& request, const RunConfig& config) {
  const bool for_kubernetes = request.scheduler == "kubernetes";
  if (!request.image.empty() && !for_kubernetes) throw UsageError("--image is for kubernetes");
  if (!request.template_file.empty() && request.scheduler == "mpirun")
    throw UsageError("--template is for slurm and kubernetes");
  if (request.warning_seconds > 0 && request.scheduler == "mpirun")
    throw UsageError("--warning-seconds is for slurm and kubernetes");
  if (!request.scheduler_arguments.empty() && for_kubernetes)
    throw UsageError("--scheduler-arg is for slurm and mpirun");
  if (request.scheduler == "mpirun") {
    expect_words(request.scheduler_arguments);
    expect_no_process_count(request.scheduler_arguments);
  } else
    expect_options(request.scheduler_arguments);
  if (request.scheduler == "slurm") {
    expect_own_log(request.scheduler_arguments);
    for (const LayoutOption& option : layout_options(request.scheduler_arguments)) {
      if (option.is_of_nodes)
        throw UsageError(
            "--scheduler-arg '" + option.word +
            "' asks for nodes in addition to hookline's own --nodes: write --nodes N before the program");
      if (option.word != "--ntasks-per-node=1")
        throw UsageError(
            "--scheduler-arg '" + option.word +
            "' asks for tasks, and a launch is one task on each node, which starts the ranks there: write "
            "--set launch.processes_per_node=N");
    }
  }
  if (config.launch.node_rank)
    throw UsageError("node_rank is given (" + origin_text(config.origins.at("launch.node_rank")) +
                     "), and all nodes of a job run the same command: leave it out");
  const bool is_plain = std::all_of(request.name.begin(), request.name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (!is_plain)
    throw UsageError("'" + request.name +
                     "' is not a name for a job, which has letters, digits, '-', '_' and '.': choose another "
                     "with --name");
}

/// What each node runs. `program`: with its arguments.
std::vector<std::string> launch_command(const SubmitRequest& request, const RunConfig& config,
                                        const std::string& hookline, const std::string& config_file,
                                        const std::string& profile, const std::vector<std::string>& program) {
  std::vector<std::string> command = {hookline, "launch"};
  if (!config_file.empty()) command.insert(command.end(), {"--config", config_file});
  if (!profile.empty()) command.insert(command.end(), {"--profile", profile});
  for (const std::string& set : request.sets) command.insert(command.end(), {"--set", set});
  if (request.nodes_are_given && is_given(config, "launch.nnodes"))
    command.insert(command.end(), {"--set", "launch.nnodes=" + std::to_string(request.nodes)});
  // A job that is started again, after a preemption or a failed node, resumes.
  if (config.training.checkpoint_every_steps && !is_given(config, "training.resume"))
    command.insert(command.end(), {"--set", "training.resume=auto"});
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

std::string own_program() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? "hookline" : self.string();
}

/// Says what the job asks for where this host can't count GPUs: the job's hosts may have some.
void tell_of_gpus(const LaunchConfig& launch, const NodeResources& needed) {
  if (launch.device == "auto" && needed.gpus == 0)
    log::info(
        "device is \"auto\", and this host has no GPU, so the job asks for none; for ranks that are to "
        "use GPUs: --set launch.device=cuda");
  if (needed.gpus > 0 && !launch.processes_per_node && visible_gpus() == 0)
    log::info(
        "processes_per_node is \"auto\", and this host has no GPUs to count, so the job asks for one GPU on "
        "each node; for more: --set launch.processes_per_node=N");
}

/// What of this shell's variables the job gets.
Variables variables_of_job(const SubmitRequest& request, const Variables& here) {
  if (request.scheduler == "mpirun") return passed_by_mpirun(here, request.scheduler_arguments);
  if (request.scheduler == "slurm") return exported_by_sbatch(here, request.scheduler_arguments);
  return {};
}

/// Do the arguments pass variables as MPICH's and Intel's launchers take them, and not as Open MPI's does?
bool is_for_hydra(const SubmitRequest& request) {
  return std::any_of(request.scheduler_arguments.begin(), request.scheduler_arguments.end(),
                     [](const std::string& each) { return each.starts_with("-genv"); });
}

/// The line by which a shell starts the launchers. Those of several nodes get a token, which is on no command
/// line.
std::string mpirun_line(const SubmitRequest& request, const std::vector<std::string>& command) {
  std::vector<std::string> line = {
      "mpirun", "-np", std::to_string(request.nodes), "--map-by", "ppr:1:node", "--bind-to", "none"};
  const bool passes_token =
      request.nodes > 1 && !is_for_hydra(request) && !value_of(request.variables, kTokenVariable);
  if (passes_token) line.insert(line.end(), {"-x", kTokenVariable});
  line.insert(line.end(), request.scheduler_arguments.begin(), request.scheduler_arguments.end());
  line.insert(line.end(), command.begin(), command.end());
  const std::string token =
      R"(HOOKLINE_TOKEN="${HOOKLINE_TOKEN:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}" )";
  return (passes_token ? token : "") + shell_line(line);
}

void warn_of_lost_variables(const SubmitRequest& request, const Variables& here) {
  std::vector<std::string> lost = lost_variables(here, request.variables);
  if (value_of(here, kTokenVariable) && !value_of(request.variables, kTokenVariable)) {
    if (request.scheduler == "mpirun" && is_for_hydra(request))
      lost.emplace_back(kTokenVariable);
    else if (request.scheduler != "mpirun")
      log::info(std::string(kTokenVariable) + " is not passed on: the job has a token of its own");
  }
  for (const std::string& name : lost) {
    std::string why = "Kubernetes passes on no variables of this shell: use --set instead";
    if (request.scheduler == "slurm")
      why = "--export or SBATCH_EXPORT keeps it back: use --set instead, or name it there";
    if (request.scheduler == "mpirun")
      why = std::string("mpirun passes on only the variables that it is given: use ") +
            (name == kTokenVariable ? "--scheduler-arg=-genvlist --scheduler-arg="
                                    : "--set instead, or --scheduler-arg=-x --scheduler-arg=") +
            name;
    log::warning(name + " is set here, but the job does not get it: " + why);
  }
}

std::string slurm_script(const SubmitRequest& request, const RunConfig& config,
                         const std::vector<std::string>& command, const fs::path& log) {
  const NodeResources needed = resources_of(config, value_of(request.variables, "OMP_NUM_THREADS"));
  const SbatchLines lines = sbatch_lines(needed, request.scheduler_arguments);
  if (!lines.warning.empty()) log::warning(lines.warning);
  const std::string script = fill(template_text(request.template_file, "slurm.sbatch"),
                                  {{"name", request.name},
                                   {"nodes", std::to_string(request.nodes)},
                                   {"log", log.string()},
                                   {"warning_seconds", std::to_string(request.warning_seconds)},
                                   {"cpus", std::to_string(needed.cpus)},
                                   {"cpus_line", lines.cpus},
                                   {"gpus", lines.gpus},
                                   {"scheduler_arguments", lines.arguments},
                                   {"command", shell_line(command)}});
  if (!lines.user_asks_for_gpus) tell_of_gpus(config.launch, needed);
  return script;
}

/// The config for a container, which has none of the files here.
std::string config_text(const Resolution& resolution) {
  if (resolution.files.empty()) return "# all defaults\n";
  if (resolution.files.size() == 1 && resolution.profiles.empty()) return text_of_file(resolution.files[0]);
  return chosen_to_toml(resolution.config);
}

/// `command`: the command of each pod.
std::string manifest_of(const SubmitRequest& request, const RunConfig& config, const std::string& config_text,
                        const std::vector<std::string>& command) {
  for (const std::string& word : command)
    if (first_invalid_byte(word))
      throw UsageError("the argument '" + word +
                       "' is not valid UTF-8, which a Kubernetes manifest must be: change it, or rename the "
                       "file that it names");
  KubernetesJob job;
  job.name = request.name, job.image = request.image;
  job.nodes = request.nodes;
  job.nnodes = request.nodes_are_given ? std::to_string(request.nodes) : config.launch.nnodes;
  job.warning_seconds = request.warning_seconds;
  job.needed = resources_of(config, std::nullopt);
  job.config = config_text, job.command = command;
  std::string manifest = kubernetes_manifest(template_text(request.template_file, "kubernetes.yaml"), job);
  tell_of_gpus(config.launch, job.needed);
  return manifest;
}

/// The job's number. Throws as submit_job does.
std::string submit_to_slurm(const fs::path& script, Signals& signals) {
  try {
    return submit_job(script, signals);
  } catch (const Interrupted&) {
    log::warning("sbatch was interrupted, and Slurm may have taken '" + script.string() +
                 "': squeue shows whether it did");
    throw;
  }
}

int hand_to_slurm(const SubmitRequest& request, const RunConfig& config,
                  const std::vector<std::string>& command) {
  const fs::path folder = "hookline-runs";
  const fs::path log = folder / "slurm-%j.log";
  const std::string script = slurm_script(request, config, command, log);
  tell_of_preemption(request, config);
  if (request.print) {
    std::cout << script << std::flush;
    log::info("the job's log goes to " + folder.string() +
              "/ in its working directory (by default, where you run sbatch): make " + folder.string() +
              "/ there before you submit it");
    return kSuccess;
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    log::error("can't make the folder '" + folder.string() +
               "', where jobs and their logs go: " + error.message());
    return kBadInput;
  }
  const fs::path file = folder / (request.name + "-" + std::to_string(std::time(nullptr)) + ".sbatch");
  if (const std::string why = write_regular_file(file, script); !why.empty()) {
    log::error("can't write '" + file.string() + "': " + why);
    return kBadInput;
  }
  Signals signals;
  const std::string job = submit_to_slurm(file, signals);
  const fs::path job_log = folder / ("slurm-" + job + ".log");
  log::info("job " + job + ", written to " + file.string() + "; its log is " + job_log.string());
  if (request.no_follow) return kSuccess;
  try {
    return follow_job(job, job_log, signals);
  } catch (const Interrupted&) {
    log::info("job " + job + " still runs, or waits to run; 'scancel " + job + "' cancels it");
    throw;
  }
}

}  // namespace

int submit(const Arguments& arguments) {
  SubmitRequest request;
  VerbParser parser("hookline submit --scheduler S [flags] program [arguments]",
                    "Write a job that launches a program on several nodes, and submit it to Slurm. A "
                    "preempted job saves a checkpoint, is queued again, and resumes.",
                    "hookline submit --scheduler slurm --nodes 2 --config run.toml --print ./train");
  parser.add_text("--scheduler", request.scheduler, "S",
                  "slurm; or kubernetes or mpirun, which need --print");
  request.config.add_file_flag(parser);
  request.config.add_profile_flag(parser);
  parser.add_number("--nodes", request.nodes, "N", "How many nodes; else [launch] nnodes",
                    {1, NodeCount::kMost});
  parser.add_text("--name", request.name, "NAME", "The job's name; else the program's");
  parser.add_text("--image", request.image, "IMAGE",
                  "Container image for Kubernetes, with hookline and the program in it");
  parser.add_number("--warning-seconds", request.warning_seconds, "N",
                    "Slurm: warn the job this many seconds before its time is over; Kubernetes: seconds that "
                    "a pod may take to stop; else 90",
                    {1, 86400});
  parser.add_text("--template", request.template_file, "FILE", "Template to use instead of the built-in one");
  parser.add_texts("--set", request.sets, "KEY=VALUE",
                   "Any value of the config, such as training.max_steps=1000; may be repeated");
  parser.add_texts(
      "--scheduler-arg", request.scheduler_arguments, "ARG",
      "An argument of sbatch or mpirun, such as --time=02:00:00; may be repeated, for mpirun once per word");
  parser.add_flag("--print", request.print, "Print the job instead of submitting it");
  parser.add_flag("--no-follow", request.no_follow,
                  "Return when the job is queued, instead of showing its log");
  if (!parser.parse(arguments, PlainArguments::end_flags)) return kSuccess;
  const auto& schedulers = {"slurm", "kubernetes", "mpirun"};
  if (std::find(schedulers.begin(), schedulers.end(), request.scheduler) == schedulers.end())
    throw UsageError(request.scheduler.empty() ? "--scheduler is missing: slurm, kubernetes or mpirun"
                                               : "there is no scheduler '" + request.scheduler +
                                                     "': choose slurm, kubernetes or mpirun");
  std::vector<std::string> program = parser.plain();
  if (!program.empty() && program[0].ends_with(".toml") && request.config.file.empty()) {
    request.config.file = program[0];
    program.erase(program.begin());
  }
  if (program.empty())
    throw UsageError(
        "the program to launch is missing; for example: hookline submit --scheduler slurm --config run.toml "
        "./train");
  const bool for_kubernetes = request.scheduler == "kubernetes";

  // For Kubernetes the program may exist only in the container. Otherwise its hooks are read, as launch does.
  std::optional<Program> here;
  if (!for_kubernetes) here = find_program(program, search_path());
  const CatalogOf hooks = catalog_of(here ? std::optional(here->file) : std::nullopt);
  Sources sources = request.config.sources();
  const Variables variables_here = variables_for_jobs();
  request.variables = variables_of_job(request, variables_here);
  sources.environment = request.variables;
  // A profile that HOOKLINE_PROFILE names is passed on as a flag, as the config file is.
  std::string profile = request.config.profile;
  if (const auto variable = value_of(variables_here, "HOOKLINE_PROFILE"); profile.empty() && variable) {
    profile = *variable;
    if (!value_of(request.variables, "HOOKLINE_PROFILE"))
      sources.environment.emplace_back("HOOKLINE_PROFILE", profile);
  }
  const std::string config_file = sources.file ? sources.file->string() : "";
  sources.overrides = overrides_from_sets(request.sets);
  expect_each_key_once(sources.overrides);
  hooks.apply_to(sources);
  sources.allow_program_hooks = sources.allow_program_hooks || for_kubernetes;
  const Resolution resolution = resolve(sources, hooks.catalog);
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;
  warn_of_lost_variables(request, variables_here);
  warn_of_config_for_ranks(request.config);
  request.nodes_are_given = request.nodes != 0;
  if (request.nodes_are_given &&
      resolution.config.origins.at("launch.nnodes").kind == OriginKind::command_line)
    throw UsageError("--nodes and --set launch.nnodes both say how many nodes: give one of them");
  if (request.nodes == 0) request.nodes = NodeCount::parse(resolution.config.launch.nnodes)->total();
  if (request.name.empty()) request.name = fs::path(program[0]).stem().string();
  check_for_scheduler(request, resolution.config);
  if (request.warning_seconds == 0) request.warning_seconds = kWarningSeconds;
  if (here) warn_of_script(resolution.config, *here);

  try {
    if (request.scheduler == "mpirun") {
      const auto command =
          launch_command(request, resolution.config, own_program(), config_file, profile, program);
      if (!request.print)
        throw UsageError(
            "hookline does not start mpirun: print its command with --print, and run it yourself");
      std::cout << mpirun_line(request, command) << "\n" << std::flush;
      return kSuccess;
    }
    if (for_kubernetes) {
      if (request.image.empty())
        throw UsageError("--image is missing: the container that holds hookline and the program");
      if (request.image.find_first_not_of(
              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@-") != request.image.npos)
        throw UsageError(
            "--image '" + request.image +
            "' is not a name of an image, which has letters, digits, '.', '_', ':', '/', '@' and '-' only");
      if (!is_kubernetes_name(request.name))
        throw UsageError("'" + request.name + "' is not a name for Kubernetes: it must " +
                         kKubernetesNameRule + ": name the job with --name");
      if (!request.print)
        throw UsageError(
            "hookline does not submit to Kubernetes itself: pipe the manifest to kubectl: hookline submit … "
            "--print … | "
            "kubectl apply -f -");
      const std::string manifest = manifest_of(
          request, resolution.config, config_text(resolution),
          launch_command(request, resolution.config, "hookline", "/etc/hookline/run.toml", "", program));
      tell_of_preemption(request, resolution.config);
      std::cout << manifest << std::flush;
      return kSuccess;
    }
    return hand_to_slurm(
        request, resolution.config,
        launch_command(request, resolution.config, own_program(), config_file, profile, program));
  } catch (const TemplateError& error) {
    throw UsageError("the template '" + request.template_file + "', " + error.what());
  } catch (const SlurmError& error) {
    log::error(error.what());
    return kFailure;
  } catch (const Interrupted& by) {
    return 128 + by.signal;
  }
}

}  // namespace hookline
