#include "launcher/schedulers/slurm_array.h"

#include <charconv>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/lines.h"

namespace hookline {

ArrayQueue array_queue(const std::filesystem::path& script, const std::string& job, Signals& signals) {
  // The script is the last column, since its name may have any character.
  std::vector<std::string> command = {"env",
                                      "-u",
                                      "SQUEUE_PARTITION",
                                      "-u",
                                      "SQUEUE_USERS",
                                      "-u",
                                      "SQUEUE_CLUSTERS",
                                      "squeue",
                                      "-h",
                                      "-r",
                                      "-t",
                                      "all",
                                      "-o",
                                      "%F|%K|%T|%r|%o"};
  if (!job.empty()) command.insert(command.end(), {"-j", job});
  const auto [text, code] = answer_of(command, signals);
  ArrayQueue queue;
  if (code == 127)
    throw NoSlurm("there is no 'squeue' on this machine, and the job of '" + script.string() +
                  "' may still run: run this where Slurm's commands are");
  if (text.find("Invalid job id") != text.npos) return queue;
  if (code != 0) throw SlurmError("Slurm's queue can't be asked: " + text);
  for (const std::string_view line : lines_of(text)) {
    std::vector<std::string> fields;
    std::istringstream in{std::string(line)};
    for (std::string field; fields.size() < 4 && std::getline(in, field, '|');) fields.push_back(field);
    std::string of;
    std::getline(in, of);
    int number = 0;
    if (fields.size() < 4 || of != script.string()) continue;
    const std::string& index = fields[1];
    if (std::from_chars(index.data(), index.data() + index.size(), number).ec != std::errc()) continue;
    queue.job = fields[0];
    queue.elements[number] = {fields[2], fields[3]};
  }
  return queue;
}

}  // namespace hookline
