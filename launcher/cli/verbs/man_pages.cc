// Man pages, made from the verbs' help.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verb_table.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

/// Escapes text for roff: a line never begins with a control character, and '-' stays a '-'.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) result += "\\&";
      result += c;
    }
  }
  return result;
}

std::string page_name(const std::string& verb) {
  std::string name = "hookline" + (verb.empty() ? "" : "-" + verb);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string head(const std::string& name, const std::string& summary) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return ".TH \"" + roff(upper) + "\" 1 \"\" \"hookline " HOOKLINE_VERSION "\" \"hookline\"\n.SH NAME\n" +
         roff(name) + " \\- " + roff(summary) + "\n";
}

std::string page(const Verb& verb) {
  Description description;
  verb.run({});
  const DescribedVerb& described = description.verb;
  std::string text = head(page_name(verb.name), verb.summary) + ".SH SYNOPSIS\n.B " + roff(described.usage) +
                     "\n.SH DESCRIPTION\n" + roff(described.summary) + "\n.SH OPTIONS\n";
  for (const DescribedFlag& flag : described.flags) {
    text += ".TP\n.B " + roff(flag.name) + (flag.value.empty() ? "" : " \\fI" + roff(flag.value) + "\\fR") +
            "\n" + roff(flag.help) + "\n";
  }
  return text + ".SH EXAMPLE\n.nf\n" + roff(described.example) + "\n.fi\n.SH SEE ALSO\n.BR hookline (1)\n";
}

std::string first_page() {
  std::string text = head("hookline", "launch and configure distributed training in C++ on libtorch") +
                     ".SH SYNOPSIS\n.B hookline\n.I verb\n[\\fIflags\\fR]\n.SH VERBS\n";
  for (const Verb& verb : verbs())
    text += ".TP\n.B " + roff(verb.name) + "\n" + roff(verb.summary) + ": see\n.BR " +
            roff(page_name(verb.name)) + " (1).\n";
  text +=
      ".SH EXIT STATUS\nOf\n.BR hookline\\-launch (1):\nthe code of the rank that failed first, 128 + n for "
      "signal n; 0 if all went "
      "well; 2 for bad input, in which case nothing was started; 69 if nodes were lost and the ranks got no "
      "further; 75 if the ranks saved their state before a preemption; 124 if no rank finished a step for "
      "stall_timeout_seconds; 126 or 127 if the program can't be run or was not found; 1 for anything "
      "else.\n"
      ".SH FILES\n.TP\n.B ./hookline.toml, $XDG_CONFIG_HOME/hookline/config.toml\nThe config that is read if "
      "none is named: "
      "the first that is there.\n.TP\n.B hookline\\-runs/\nA folder for each run, with the logs of its "
      "ranks.\n"
      ".SH ENVIRONMENT\n.TP\n.B HOOKLINE_TABLE__KEY\nA value of the config, such as "
      "HOOKLINE_DDP__COMM_HOOK.\n.TP\n"
      ".B HOOKLINE_PROFILE\nThe profile of the config that is used.\n";
  return text + ".SH EXAMPLE\n.nf\nhookline launch \\-\\-config run.toml ./train \\-\\-epochs 5\n.fi\n";
}

void write_page(const fs::path& folder, const std::string& verb, const std::string& text) {
  const fs::path file = folder / (page_name(verb) + ".1");
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw Error("can't write '" + file.string() + "'");
}

}  // namespace

int man_pages(const Arguments& arguments) {
  if (arguments.size() != 1) throw UsageError("man-pages needs a folder to write to");
  const fs::path folder = arguments[0];
  fs::create_directories(folder);
  for (const Verb& verb : verbs()) write_page(folder, verb.name, page(verb));
  write_page(folder, "", first_page());
  return kSuccess;
}

}  // namespace hookline
