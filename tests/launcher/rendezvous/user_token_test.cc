#include "launcher/rendezvous/user_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "launcher/rendezvous/run_secret.h"
#include "support/failure.h"
#include "support/process.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;
using testing::failure_of;

class UserToken : public ::testing::Test {
 protected:
  UserToken() { ::setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1); }
  ~UserToken() override { ::unsetenv("XDG_CONFIG_HOME"); }

  fs::path file() const { return folder_.path() / "hookline/token"; }

  testing::TemporaryFolder folder_;
};

TEST_F(UserToken, IsTheSameForAllLaunchers) {
  std::vector<std::thread> launchers;
  std::vector<std::string> tokens(8);
  for (std::string& token : tokens)
    launchers.emplace_back([&] { token = testing::read_file(user_token_file()); });
  for (std::thread& launcher : launchers) launcher.join();
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), 1U);
  EXPECT_EQ(tokens[0].size(), 65U);
  EXPECT_EQ(std::distance(fs::directory_iterator(file().parent_path()), fs::directory_iterator()), 1)
      << "nothing else is left";
  struct stat of {};
  ASSERT_EQ(::stat(file().c_str(), &of), 0);
  EXPECT_EQ(of.st_mode & 0777U, 0600U);
}

TEST_F(UserToken, IsDifferentForEachUser) {
  const std::string one = testing::read_file(user_token_file());
  fs::remove(file());
  EXPECT_NE(testing::read_file(user_token_file()), one);
}

TEST_F(UserToken, CannotBeKeptWhereThereIsNoFolder) {
  ::setenv("XDG_CONFIG_HOME", "/proc/self/nowhere", 1);
  EXPECT_EQ(
      failure_of<Error>([] { own_secret(); }),
      "this user's token can't be kept in '/proc/self/nowhere/hookline/token': No such file or directory; "
      "set [rendezvous] token_file or $HOOKLINE_TOKEN on every node");
}

TEST_F(UserToken, IsNotTakenIfOthersMayReadIt) {
  fs::permissions(user_token_file(), fs::perms(0640));
  EXPECT_EQ(failure_of<Error>([] { own_secret(); }),
            "the token file '" + file().string() + "' can be read or written by other users: chmod 600 " +
                file().string() + "; set [rendezvous] token_file or $HOOKLINE_TOKEN on every node");
}

TEST_F(UserToken, IsNotNeededWhereAnotherIsGiven) {
  folder_.write("run.token", std::string(40, 'a') + "\n");
  const fs::path given = folder_.path() / "run.token";
  fs::permissions(given, fs::perms(0600));
  ::setenv("HOOKLINE_TOKEN", std::string(40, 'b').c_str(), 1);
  EXPECT_EQ(take_given_secret(given, false)->token, std::string(40, 'a'));
  EXPECT_EQ(std::getenv("HOOKLINE_TOKEN"), nullptr) << "or child processes would show the token";
  ::setenv("HOOKLINE_TOKEN", std::string(40, 'b').c_str(), 1);
  EXPECT_EQ(take_given_secret("", true)->token, std::string(40, 'b'));
  EXPECT_EQ(std::getenv("HOOKLINE_TOKEN"), nullptr);
  EXPECT_EQ(take_given_secret("", true)->kind, RunSecret::Kind::none);
  EXPECT_FALSE(take_given_secret("", false));
  EXPECT_FALSE(fs::exists(file())) << "only own_secret() writes it";
  const RunSecret own = own_secret();
  EXPECT_EQ(own.kind, RunSecret::Kind::user);
  EXPECT_EQ(own.token + "\n", testing::read_file(file()));
}

TEST_F(UserToken, IsNotTakenFromAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  folder_.write("run.token", std::string(40, 'a') + "\n");
  const fs::path given = folder_.path() / "run.token";
  fs::permissions(given, fs::perms(0600));
  ASSERT_EQ(::chown(given.c_str(), 12345, 12345), 0);
  EXPECT_EQ(failure_of<Error>([&] { take_given_secret(given, false); }),
            "token_file '" + given.string() + "' belongs to another user");
}

}  // namespace
}  // namespace hookline
