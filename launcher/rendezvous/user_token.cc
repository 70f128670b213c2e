#include "launcher/rendezvous/user_token.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/random_hex.h"
#include "base/regular_file.h"
#include "config/sources/find_config.h"

namespace hookline {
namespace fs = std::filesystem;

fs::path user_token_file() {
  const auto folder = own_config_folder();
  if (!folder) throw Error("this user's token can't be kept: $HOME is not set to a folder");
  const fs::path file = *folder / "token";
  std::error_code error;
  if (fs::exists(fs::symlink_status(file, error))) return file;
  const auto failed = [&](const std::string& why) {
    return Error("this user's token can't be kept in '" + file.string() + "': " + why);
  };
  fs::create_directories(*folder, error);
  if (error) throw failed(error.message());
  // Written whole under another name first, so that no launcher ever reads a part of it.
  const fs::path own = file.string() + "." + random_hex(8);
  const int descriptor = ::open(own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) throw failed(std::strerror(errno));
  const std::string problem = write_and_close(descriptor, random_hex(32) + "\n");
  const int linked = problem.empty() ? ::link(own.c_str(), file.c_str()) : -1;
  const int why = errno;
  ::unlink(own.c_str());
  if (!problem.empty()) throw failed(problem);
  if (linked != 0 && why != EEXIST) throw failed(std::strerror(why));  // EEXIST: another launcher was first
  return file;
}

}  // namespace hookline
