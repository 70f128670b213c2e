#include "launcher/rendezvous/run_secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/lines.h"
#include "base/regular_file.h"
#include "launcher/rank/rank_environment.h"
#include "launcher/rendezvous/user_token.h"

namespace hookline {
namespace {

constexpr std::uint64_t kMostTokenBytes = 4096;
const char* const kMakeOne = "make one with: (umask 077; openssl rand -hex 32 > token)";

RunSecret checked(const std::string& text, const std::string& where) {
  std::string token(trimmed(text));
  if (token.find('\n') != std::string::npos)
    throw Error(where + " has more than one line, and a token has one: " + kMakeOne);
  if (token.size() < kFewestTokenCharacters)
    throw Error(where + " is too short for a token: it has " + std::to_string(token.size()) +
                " of at least " + std::to_string(kFewestTokenCharacters) + " characters; " + kMakeOne);
  return {RunSecret::Kind::token, std::move(token), where};
}

/// The secret in a file that only this user may read; `what` it is, for people.
RunSecret secret_in(const std::filesystem::path& file, const std::string& what) {
  const std::string name = what + " '" + file.string() + "'";
  InputFile opened(file, kMostTokenBytes);
  struct stat of {};
  if (opened.good() && ::fstat(opened.descriptor(), &of) == 0) {
    if (of.st_uid != ::geteuid() && of.st_uid != 0) throw Error(name + " belongs to another user");
    if ((of.st_mode & 077) != 0)
      throw Error(name + " can be read or written by other users: chmod 600 " + file.string());
  }
  const std::string text = opened.good() ? opened.read_all() : "";
  if (opened.problem() != FileProblem::none)
    throw Error(name + " can't be read: " + opened.why() +
                (file.string().starts_with("~") ? "; ~ is not expanded here: write the path in full" : ""));
  return checked(text, name);
}

/// The variable's value, which is then gone, also from /proc/PID/environ.
std::optional<std::string> take_variable(const char* name) {
  char* const value = std::getenv(name);
  if (!value) return std::nullopt;
  std::string copy = value;
  ::explicit_bzero(value, copy.size());
  ::unsetenv(name);
  return copy;
}

}  // namespace

std::string RunSecret::ticket() const {
  if (kind == Kind::token) return "the token that is here in " + from;
  if (kind == Kind::none) return "insecure = true in [rendezvous], as here";
  return "this user's token, which is here in " + from +
         " (hosts that do not share the home folder need [rendezvous] token_file or $HOOKLINE_TOKEN)";
}

void forget(RunSecret& secret) {
  ::explicit_bzero(secret.token.data(), secret.token.size());
  secret.token.clear();
}

void drop_given_token() { take_variable(kTokenVariable); }

std::optional<RunSecret> take_given_secret(const std::filesystem::path& file, bool insecure) {
  const std::optional<std::string> variable = take_variable(kTokenVariable);
  if (!file.empty()) return secret_in(file, "token_file");
  if (variable) return checked(*variable, std::string("$") + kTokenVariable);
  if (insecure) return RunSecret{RunSecret::Kind::none};
  return std::nullopt;
}

RunSecret own_secret() {
  try {
    const std::filesystem::path own = user_token_file();
    RunSecret secret = secret_in(own, "the token file");
    secret.kind = RunSecret::Kind::user;
    secret.from = "'" + own.string() + "'";
    return secret;
  } catch (const Error& error) {
    throw Error(error.what() + std::string("; set [rendezvous] token_file or $") + kTokenVariable +
                " on every node");
  }
}

std::string secret_text(const RunSecret& secret) {
  return secret.kind == RunSecret::Kind::none ? "none" : "token " + secret.token;
}

}  // namespace hookline
