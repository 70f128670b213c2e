#include "launcher/schedulers/job_text.h"

#include "base/lines.h"
#include "launcher/schedulers/templates.h"

namespace hookline {

std::string_view built_in_template(const std::string& name) {
  static const std::map<std::string, std::string_view> templates{{"slurm.sbatch", kSlurmTemplate},
                                                                 {"slurm_array.sbatch", kSlurmArrayTemplate},
                                                                 {"kubernetes.yaml", kKubernetesTemplate}};
  return templates.at(name);
}

std::string fill(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string result;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    std::string filled;
    for (std::size_t next = 0; next < line.size();) {
      const auto begin = line.find("${", next), close = line.find('}', begin == line.npos ? next : begin);
      if (begin == line.npos || close == line.npos) {
        filled += line.substr(next);
        break;
      }
      if (begin > next && line[begin - 1] == '$') {  // $${NAME} is the shell's ${NAME}
        filled += line.substr(next, begin - 1 - next);
        filled += line.substr(begin, close + 1 - begin);
        next = close + 1;
        continue;
      }
      const std::string name(line.substr(begin + 2, close - begin - 2));
      const auto value = values.find(name);
      if (value == values.end()) {
        std::string known;
        for (const auto& [key, unused] : values) known += (known.empty() ? "" : ", ") + ("${" + key + "}");
        throw TemplateError("line " + std::to_string(number) + ": there is no ${" + name + "}; known are " +
                            known);
      }
      filled += line.substr(next, begin - next);
      filled += value->second;
      next = close + 1;
    }
    if (filled.empty() && !line.empty()) continue;
    result += filled + "\n";
  }
  return result;
}

}  // namespace hookline
