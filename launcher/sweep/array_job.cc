#include "launcher/sweep/array_job.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "base/text/time_text.h"
#include "checkpoint/replace_durably.h"
#include "launcher/process/shell.h"
#include "launcher/schedulers/job_text.h"
#include "launcher/schedulers/slurm_array.h"
#include "launcher/schedulers/slurm_job.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kRecord = ".json";
constexpr std::uint64_t kLargestRecordBytes = 64 << 20;

fs::path with(const fs::path& stem, const char* suffix) { return stem.string() + suffix; }

/// The folder's log names as a Slurm pattern, in which % begins a placeholder.
std::string log_pattern(const fs::path& folder) {
  std::string text;
  for (const char c : folder.string()) text += c == '%' ? std::string("%%") : std::string(1, c);
  return text + "/%A_%a.log";
}

int index_of_element(const std::string& element) {
  int number = 0;
  const auto [end, problem] = std::from_chars(element.data(), element.data() + element.size(), number);
  if (problem != std::errc() || end != element.data() + element.size() || number < 1)
    throw Error("'" + element + "' is not an element of an array job: elements are counted from 1");
  return number;
}

ArrayJob job_in(const fs::path& file) {
  try {
    InputFile in(file, kLargestRecordBytes);
    const std::string text = in.read_all();
    if (in.problem() != FileProblem::none) throw Error(in.why());
    const Json json = read_json<Json>(text);
    ArrayJob job;
    job.number = json.at("job").get<std::string>();
    job.stem = file.parent_path() / file.stem();
    for (const auto& [element, id] : json.at("elements").items())
      job.elements[index_of_element(element)] = id.get<std::string>();
    return job;
  } catch (const std::exception& error) {  // including JSON errors
    throw Error("'" + file.string() + "', which says what trials a job of Slurm's has, can't be used: " +
                error.what() + "; once that job is over, remove the file");
  }
}

}  // namespace

fs::path ArrayJob::log_of(int element) const {
  return stem.parent_path() / (number + "_" + std::to_string(element) + ".log");
}

fs::path stem_now(const fs::path& folder) {
  return folder / "array" / (time_name(std::time(nullptr)) + "-" + std::to_string(getpid()));
}

std::string array_script(const ArrayRequest& request, const fs::path& stem, std::size_t count) {
  std::string array = "1-" + std::to_string(count);
  if (request.most_at_once) array += "%" + std::to_string(*request.most_at_once);
  const SbatchLines lines = sbatch_lines(request.needed, request.scheduler_arguments);
  const fs::path folder = stem.parent_path();
  return fill(request.template_text, {{"name", request.name},
                                      {"array", array},
                                      {"cpus", std::to_string(request.needed.cpus)},
                                      {"cpus_line", lines.cpus},
                                      {"gpus", lines.gpus},
                                      {"log", shell_word(log_pattern(folder))},
                                      {"scheduler_arguments", lines.arguments},
                                      {"command", shell_line({request.hookline.string(), "trial"})},
                                      {"trials", shell_word((folder.parent_path() / "trials").string())},
                                      {"list", shell_word(with(stem, ".trials").string())}});
}

ArrayJob submit_array(const ArrayRequest& request, const fs::path& folder,
                      const std::vector<std::string>& trials, Signals& signals) {
  ArrayJob job;
  job.stem = stem_now(folder);
  std::string list;
  for (const std::string& id : trials) {
    list += id + "\n";
    job.elements[static_cast<int>(job.elements.size()) + 1] = id;
  }
  const std::string script = array_script(request, job.stem, trials.size());
  std::error_code error;
  fs::create_directories(job.stem.parent_path(), error);
  if (error)
    throw Error("the folder '" + job.stem.parent_path().string() + "' can't be made: " + error.message());
  replace_durably(with(job.stem, ".trials"), list);
  replace_durably(job.script(), script);
  keep(job);
  try {
    job.number = submit_job(job.script(), signals);
  } catch (const NoSlurm&) {
    fs::remove(with(job.stem, kRecord), error);
    throw;
  } catch (const SlurmError& refusal) {
    // The job may be queued anyway: sbatch's answer was lost, or no job number was found in it. If Slurm
    // can't say now, the next command asks it.
    try {
      job.number = array_queue(job.script(), "", signals).job;
    } catch (const SlurmError& silence) {
      throw LostAnswer(refusal.what() + std::string("; ") + silence.what() + ", so the job may be queued");
    }
    if (job.number.empty() && dynamic_cast<const LostAnswer*>(&refusal)) throw;
    if (job.number.empty()) {
      fs::remove(with(job.stem, kRecord), error);
      throw;
    }
    log::warning(refusal.what() + std::string("; it is queued nevertheless, as job ") + job.number);
  }
  keep(job);
  return job;
}

std::vector<ArrayJob> kept_jobs(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator each(folder / "array", error), end; !error && each != end;
       each.increment(error))
    if (each->path().extension() == kRecord) files.push_back(each->path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error("the folder '" + (folder / "array").string() + "' can't be read: " + error.message());
  std::sort(files.begin(), files.end());
  std::vector<ArrayJob> jobs;
  for (const fs::path& file : files) jobs.push_back(job_in(file));
  return jobs;
}

void keep(const ArrayJob& job) {
  const fs::path file = with(job.stem, kRecord);
  if (job.elements.empty()) {
    std::error_code error;
    fs::remove(file, error);
    if (error) throw Error("'" + file.string() + "' can't be removed: " + error.message());
    return;
  }
  Json elements = Json::object();
  for (const auto& [element, id] : job.elements) elements[std::to_string(element)] = id;
  replace_durably(file, Json{{"job", job.number}, {"elements", elements}}.dump(2) + "\n");
}

}  // namespace hookline
