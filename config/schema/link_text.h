// A network between hosts, as a config or a command line names it.
#pragma once

#include <string>

#include "base/error.h"

namespace hookline {

struct NamedLink {
  double bits_per_second = 0;
  double latency_seconds = 0;  // of a message, one way; 0: not named
};

/// A text that names no link.
class LinkTextError : public Error {
 public:
  LinkTextError(const std::string& problem, const std::string& why)
      : Error(problem + ": " + why), problem_(problem), why_(why) {}

  const std::string& problem() const { return problem_; }  // "'fast' is not a speed"
  const std::string& why() const { return why_; }          // or what to do

 private:
  std::string problem_, why_;
};

/// "1gbit", "100mbit", "2.5gbit": bits a second. Throws LinkTextError.
double link_speed_of(const std::string& text);

/// True for text that names the report of a `hookline test` rather than a speed: it ends in .json, or has a
/// slash that is not that of "125MB/s".
bool names_link_report(const std::string& text);

/// The lowest speed and the highest latency of the links between hosts in the report `name` of a `hookline
/// test --json`, since an all-reduce waits for both. Throws LinkTextError.
NamedLink link_in_report(const std::string& name);

/// "1gbit", or "1gbit,0.2ms" with the latency of a message; or a report by its file's name. Throws
/// LinkTextError.
NamedLink link_of(const std::string& text);

/// "941.5mbit,0.2ms", which link_of() reads.
std::string to_text(const NamedLink& link);

}  // namespace hookline
