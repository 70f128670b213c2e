// Shared memory under load: many steps with random delays, and ranks that are killed at any instant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "shared_memory/hand_over.h"
#include "support/process.h"
#include "support/sanitized.h"
#include "tests/shared_memory/random_steps.h"

namespace hookline::testing {
namespace {

class Steps : public ::testing::TestWithParam<int> {};

TEST_P(Steps, MatchAPlainLoopBitForBit) {
  constexpr int kSteps = kThreadSanitized ? 250 : 1000;
  const int ranks = GetParam();
  run_ranks(ranks, [ranks](SharedCollectives& group, int rank) {
    EXPECT_EQ(RandomSteps(group, rank, ranks).run(kSteps), "") << "rank " << rank << " of " << ranks;
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Steps, ::testing::Range(2, 9));

constexpr int kMostRanks = 5;
constexpr std::chrono::seconds kPatience{2};  // limit for handing over memory

/// Communication between the test and the processes it starts, in shared memory.
struct Board {
  std::atomic<bool> has_address, victim_is_gone;
  char address[256];
  std::atomic<int> seated;
  struct Rank {
    std::atomic<bool> is_over;
    char error[256], left_behind[1024];
  } ranks[kMostRanks];
};

struct Unmap {
  void operator()(Board* board) const { ::munmap(board, sizeof *board); }
};

std::unique_ptr<Board, Unmap> make_board() {
  void* const memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return std::unique_ptr<Board, Unmap>(new (memory) Board{});
}

/// The shared segments of this process, mapped or open.
std::string segments_here() {
  constexpr const char* kName = "memfd:hookline";
  std::string found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(kName) != line.npos) found += line + "\n";
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // set if the descriptor is closed by now
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (target.find(kName) != target.npos) found += target + "\n";
  }
  return found;
}

void wait_for(const Board& board, const std::function<bool()>& condition) {
  while (!condition()) {
    if (board.victim_is_gone && !condition()) throw Error("a rank is gone before all had shared memory");
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

/// As parallel/groups/shared_memory_group opens it, with the board for a store.
std::shared_ptr<SharedSegment> open_segment(Board& board, int rank, int ranks) {
  const std::size_t bytes = SharedCollectives::bytes_for(ranks);
  if (rank == 0) {
    auto segment = std::make_shared<SharedSegment>(bytes);
    SharedCollectives::prepare(*segment, ranks);
    SegmentSource source(*segment);
    std::snprintf(board.address, sizeof board.address, "%s", source.address().c_str());
    board.has_address = true;
    source.hand_over(ranks - 1, kPatience);
    return segment;
  }
  wait_for(board, [&] { return board.has_address.load(); });
  return receive_segment(board.address, bytes, kPatience);
}

/// Acts as a rank until another rank dies.
void be_rank(Board& board, int rank, int ranks) {
  std::string error;
  try {
    SharedCollectives group(open_segment(board, rank, ranks), rank, ranks, kTimeout);
    ++board.seated;
    wait_for(board, [&] { return board.seated == ranks; });
    error = RandomSteps(group, rank, ranks).run(std::numeric_limits<int>::max());
  } catch (const Error& problem) {
    error = problem.what();
  }
  Board::Rank& own = board.ranks[rank];
  std::snprintf(own.error, sizeof own.error, "%s", error.c_str());
  std::snprintf(own.left_behind, sizeof own.left_behind, "%s", segments_here().c_str());
  own.is_over = true;
}

// A rank may also be killed during the hand-over: then it is enough that the others do not wait long for it.
TEST(Kills, AtAnyInstantFailTheOthersNamingTheRankAndLeaveNoSegment) {
  constexpr int kAttempts = kSanitized ? 20 : 60;
  std::minstd_rand random(11);
  int in_steps = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int ranks = 2 + static_cast<int>(random() % (kMostRanks - 1));
    const int victim = static_cast<int>(random()) % ranks;
    const auto board = make_board();
    std::vector<pid_t> processes;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t process = ::fork();
      ASSERT_GE(process, 0);
      if (process == 0) {
        be_rank(*board, rank, ranks);
        ::_exit(0);
      }
      processes.push_back(process);
    }
    const bool is_early = attempt % 5 == 0;
    if (!is_early) {
      EXPECT_TRUE(eventually([&] { return board->seated == ranks; }));
    }
    ::usleep(static_cast<unsigned>(random()) % (is_early ? 3'000 : 20'000));
    ::kill(processes[static_cast<std::size_t>(victim)], SIGKILL);
    const auto killed_at = std::chrono::steady_clock::now();
    ::waitpid(processes[static_cast<std::size_t>(victim)], nullptr, 0);
    const bool had_begun = board->seated == ranks;
    in_steps += had_begun;
    board->victim_is_gone = true;
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == victim) continue;
      const Board::Rank& survivor = board->ranks[rank];
      EXPECT_TRUE(eventually([&] { return survivor.is_over.load(); })) << "rank " << rank << " of " << ranks;
      if (had_begun) {
        EXPECT_STREQ(survivor.error, ("rank " + std::to_string(victim) + "'s process has ended").c_str())
            << "rank " << rank << " of " << ranks;
      } else {
        EXPECT_STRNE(survivor.error, "") << "rank " << rank << " of " << ranks;
      }
      EXPECT_STREQ(survivor.left_behind, "") << "rank " << rank << " of " << ranks;
      int status = -1;
      if (!survivor.is_over) ::kill(processes[static_cast<std::size_t>(rank)], SIGKILL);
      ::waitpid(processes[static_cast<std::size_t>(rank)], &status, 0);
      EXPECT_EQ(status, 0);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - killed_at, std::chrono::seconds(10))
        << "seconds, not the timeout";
    if (HasFailure()) break;
  }
  EXPECT_GE(in_steps, kAttempts * 2 / 3);
  EXPECT_EQ(segments_here(), "");
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find("hookline"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace hookline::testing
