// What the nodes of a run must hold to be let in.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace hookline {

/// The fewest characters of a token: whoever records a handshake can try tokens at leisure.
inline constexpr std::size_t kFewestTokenCharacters = 32;

/// A run's secret, and where it is from.
struct RunSecret {
  enum class Kind {
    token,  // all nodes were given it
    user,   // this user's own, on all hosts that share the home folder
    none    // none: anybody may join
  };
  Kind kind = Kind::user;
  std::string token = {};
  std::string from = {};  // where the token is from, for people

  /// What another node must have to join, worded to follow "needs" in a message: "the token that is here in
  /// $HOOKLINE_TOKEN".
  std::string ticket() const;
};

/// Takes the secret that is given: its token is in `file`, or if no file is named, in $HOOKLINE_TOKEN;
/// without either, `insecure` lets the run do without a token. Nothing if none of the three is given. In any
/// case $HOOKLINE_TOKEN vanishes from this process's environment, so that no other process can read it there
/// or inherit it. Throws Error if the token can't be used: the file is not this user's alone, or the token is
/// too short or has more than one line.
std::optional<RunSecret> take_given_secret(const std::filesystem::path& file, bool insecure);

/// For a run that needs no token: $HOOKLINE_TOKEN vanishes as above.
void drop_given_token();

/// Overwrites the token that `secret` holds, once it is no longer needed; not the copies made on its way
/// here.
void forget(RunSecret& secret);

/// The secret whose token is in user_token_file(). Throws Error if that can't be used.
RunSecret own_secret();

/// The text from which the run's keys are derived, of one line.
std::string secret_text(const RunSecret& secret);

}  // namespace hookline
