#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/line_splitter.h"
#include "launcher/output/output_queue.h"
#include "launcher/output/rank_stream.h"
#include "launcher/output/tail.h"
#include "launcher/supervise/failure_report.h"
#include "support/process.h"

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using testing::TemporaryFolder;

using Lines = std::vector<std::string>;

Lines fed(LineSplitter& lines, std::string_view bytes) {
  Lines taken;
  lines.feed(bytes, [&](std::string_view line) { taken.emplace_back(line); });
  return taken;
}

Lines finished(LineSplitter& lines) {
  Lines taken;
  lines.finish([&](std::string_view line) { taken.emplace_back(line); });
  return taken;
}

TEST(LineSplitter, PassesOnEachLine) {
  LineSplitter lines;
  EXPECT_THAT(fed(lines, "a\n\nb\n"), ElementsAre("a", "", "b"));
}

TEST(LineSplitter, HoldsAnUnfinishedLineUntilItIsComplete) {
  LineSplitter lines;
  EXPECT_THAT(fed(lines, "al"), IsEmpty());
  EXPECT_THAT(fed(lines, "pha\nbe"), ElementsAre("alpha"));
  EXPECT_EQ(lines.unfinished(), "be");
  EXPECT_THAT(finished(lines), ElementsAre("be"));
  EXPECT_THAT(finished(lines), IsEmpty());
}

TEST(LineSplitter, SplitsAnOverlongLine) {
  LineSplitter lines(4);
  EXPECT_THAT(fed(lines, "abcdefghij"), ElementsAre("abcd", "efgh"));
  EXPECT_THAT(fed(lines, "\n"), ElementsAre("ij"));
}

TEST(LineSplitter, AddsNoEmptyLineAfterALineOfMaximumLength) {
  LineSplitter lines(4);
  EXPECT_THAT(fed(lines, "abcd\nef\n"), ElementsAre("abcd", "ef"));
}

TEST(LineSplitter, KeepsOnlyTheLastStateOfALineThatIsOverwritten) {
  LineSplitter lines;
  EXPECT_THAT(fed(lines, "10%\r20%\r3"), IsEmpty());
  EXPECT_TRUE(lines.has_overwritten());
  EXPECT_EQ(lines.take_overwritten(), "20%");
  EXPECT_FALSE(lines.has_overwritten());
  EXPECT_THAT(fed(lines, "0%\r"), IsEmpty());
  EXPECT_FALSE(lines.has_overwritten()) << "it may be the end of the line";
  EXPECT_THAT(fed(lines, "100%\r\nnext\r\n"), ElementsAre("100%", "next"));
  EXPECT_FALSE(lines.has_overwritten());
  EXPECT_THAT(fed(lines, "\r\r\rdone\n"), ElementsAre("done"));
  EXPECT_THAT(fed(lines, "half\r"), IsEmpty());
  EXPECT_THAT(finished(lines), ElementsAre("half"));
}

TEST(Tail, KeepsTheLastLines) {
  Tail tail(3, 100);
  for (const char* line : {"one", "two", "three", "four"}) tail.add(line);
  EXPECT_THAT(tail.lines(), ElementsAre("two", "three", "four"));
}

TEST(Tail, LeavesOutLibtorchsFramesAndEmptyLines) {
  Tail tail(3, 100);
  for (const char* line : {"  what():  shapes cannot be multiplied",
                           "Exception raised from here:", "frame #0: a (0x1)", "", "frame #1: b (0x2)", ""})
    tail.add(line);
  EXPECT_THAT(tail.lines(),
              ElementsAre("  what():  shapes cannot be multiplied", "Exception raised from here:"));
}

TEST(Tail, CutsLongLines) {
  Tail tail(2, 3);
  tail.add("abcdefghi");
  tail.add("xyz");
  EXPECT_THAT(tail.lines(), ElementsAre("abc", "xyz"));
}

TEST(OutputQueue, KeepsWhatTheReaderDoesNotTake) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor reader(ends[0]), writer(ends[1]);
  OutputQueue queue(writer.get());
  const std::string text = std::string(999, 'x') + "\n";
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    queue.write(text);
    expected += text;
  }
  EXPECT_FALSE(queue.is_empty());

  std::string received;
  std::string buffer(65536, '\0');
  while (received.size() < expected.size()) {
    const ssize_t count = read(reader.get(), buffer.data(), buffer.size());
    ASSERT_GT(count, 0);
    received.append(buffer, 0, static_cast<std::size_t>(count));
    queue.pump();
  }
  EXPECT_EQ(received, expected);
  EXPECT_TRUE(queue.is_empty());
}

TEST(OutputQueue, RemembersWhyItStoppedWriting) {
  const FileDescriptor full(open("/dev/full", O_WRONLY));
  ASSERT_TRUE(full.is_open());
  OutputQueue queue(full.get());
  queue.write("lost\n");
  EXPECT_EQ(queue.error_number(), ENOSPC);
  EXPECT_TRUE(queue.is_empty());
  queue.write("ignored\n");
  EXPECT_TRUE(queue.is_empty());
}

TEST(RankStream, ContinuesWithoutALogThatCannotBeWritten) {
  TemporaryFolder folder;
  const FileDescriptor shown(open((folder.path() / "shown").c_str(), O_WRONLY | O_CREAT, 0644));
  OutputQueue queue(shown.get());
  std::vector<int> failures;
  const FileDescriptor full(memfd_create("full", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fcntl(full.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  RankStream stream("/proc/self/fd/" + std::to_string(full.get()), "[0] ", queue,
                    [&failures](const std::filesystem::path&, int error) { failures.push_back(error); });
  {
    const FileDescriptor rank = stream.open_pipe();
    ASSERT_EQ(write(rank.get(), "one\ntwo", 7), 7);
    EXPECT_TRUE(stream.take(1000));
    ASSERT_EQ(write(rank.get(), "!\n", 2), 2);
    EXPECT_TRUE(stream.take(1000));
    EXPECT_FALSE(stream.take(1000));
    EXPECT_TRUE(stream.is_open());
  }
  stream.take(1000);
  EXPECT_FALSE(stream.is_open());
  EXPECT_THAT(failures, ElementsAre(EPERM));
  EXPECT_EQ(testing::read_file(folder.path() / "shown"), "[0] one\n[0] two!\n");
}

TEST(FailureReport, NamesTheRankItsExitItsLastOutputAndItsLogs) {
  Failure failure{{1, Exited{7}}, "node7", "/runs/latest/1", {"loading", "boom"}, {}, {}, {}, {}, {}};
  EXPECT_EQ(failure_report(failure),
            "rank 1 exited with code 7\n"
            "  the end of its standard error:\n"
            "    loading\n"
            "    boom\n"
            "  its logs on node7: /runs/latest/1/");
  failure.stopped_ranks = {2};
  EXPECT_EQ(failure_report(failure),
            "rank 1 exited with code 7\n"
            "  rank 2 was stopped then, by a signal or a debugger: the others may have waited for it\n"
            "  the end of its standard error:\n"
            "    loading\n"
            "    boom\n"
            "  its logs on node7: /runs/latest/1/");
  failure.stopped_ranks.clear();
  failure.error = RankError{"no such file\nlook elsewhere", "DataError", 12};
  EXPECT_EQ(failure_report(failure),
            "rank 1 exited with code 7\n"
            "  its error at step 12:\n"
            "    DataError: no such file\n"
            "    look elsewhere\n"
            "  the end of its standard error:\n"
            "    loading\n"
            "    boom\n"
            "  its logs on node7: /runs/latest/1/");
}

TEST(FailureReport, SaysWhatToDoIfLibtorchIsNotFound) {
  const std::string loader =
      "./train: error while loading shared libraries: libtorch_cpu.so: cannot open shared object file: No "
      "such file or directory";
  const Failure failure{{0, Exited{127}}, "node7", "/runs/latest/0", {loader}, {}, {}, {}, {}, {}};
  EXPECT_EQ(
      failure_report(failure),
      "rank 0 exited with code 127\n"
      "  the end of its standard error:\n"
      "    " +
          loader +
          "\n"
          "  the program does not find its torch: for hookline's own programs, let HOOKLINE_TORCH name it; "
          "for yours, build it again, or add the folder of torch's libraries to LD_LIBRARY_PATH\n"
          "  its logs on node7: /runs/latest/0/");
}

TEST(FailureReport, LosesOnlyItsMiddleOnTheWayToOtherNodes) {
  const std::string just_short_enough(64 << 10, 'a');
  EXPECT_EQ(shortened_report(just_short_enough), just_short_enough);
  const std::string begin(48 << 10, 'b'), end(16 << 10, 'e');
  EXPECT_EQ(shortened_report(begin + std::string(3'000'000, 'm') + end),
            begin + "\n  … 3 MB are left out here; its logs have them …\n" + end);
}

TEST(FailureReport, ShowsASignalsStackAfterItsReason) {
  Failure failure{{1, Signalled{SIGSEGV}}, "node7", "/runs/latest/1", {}, {}, {}, {}, {}, {}};
  failure.error = RankError{"the program used address 0x0, where there is no memory", "SIGSEGV", 12};
  failure.stack_lines = {"in thread 7 'train', the innermost call first:",
                         "  frame #0: f() (0x12 in /train)"};
  EXPECT_EQ(failure_report(failure),
            "rank 1 was killed by SIGSEGV (signal 11)\n"
            "  its error at step 12:\n"
            "    SIGSEGV: the program used address 0x0, where there is no memory\n"
            "    in thread 7 'train', the innermost call first:\n"
            "      frame #0: f() (0x12 in /train)\n"
            "  it wrote nothing to standard error\n"
            "  its logs on node7: /runs/latest/1/");
}

TEST(FailureReport, NamesRanksThatExitedWithZeroBefore) {
  Failure failure{{0, Exited{1}}, "node7", "/runs/latest/0", {}, {}, {}, {}, {}, {}};
  failure.finished_ranks = {{2, 3}, {4}};
  const auto first_lines = [&] {
    const std::string text = failure_report(failure);
    return text.substr(0, text.find("\n  it wrote nothing"));
  };
  EXPECT_EQ(first_lines(),
            "rank 0 exited with code 1\n"
            "  before that, rank 2 had exited with code 0 at step 3 and rank 4 had exited with code 0");
  failure.was_waiting = true;
  EXPECT_EQ(first_lines(),
            "rank 0 exited with code 1, after rank 2 had exited with code 0 at step 3 and rank 4 had exited "
            "with code 0, while others were waiting in a collective");
}

TEST(FailureReport, EscapesTerminalControlCharacters) {
  Failure failure{
      {1, Exited{7}}, "node\x1b[7m", "/runs/\u202e/1", {"\x1b]0;mine\x07", "\xff"}, {}, {}, {}, {}, {}};
  failure.error = RankError{"first\n\x1b[2Jsecond", "Data\nError", 12};
  EXPECT_EQ(failure_report(failure),
            "rank 1 exited with code 7\n"
            "  its error at step 12:\n"
            "    Data\\nError: first\n"
            "    \\x1b[2Jsecond\n"
            "  the end of its standard error:\n"
            "    \\x1b]0;mine\\x07\n"
            "    \\xff\n"
            "  its logs on node\\x1b[7m: /runs/\\u202e/1/");
}

TEST(FailureReport, ExplainsAKillFromOutside) {
  Failure failure{{0, Signalled{SIGKILL}}, "node7", "/runs/latest/0", {}, {}, {}, {}, {}, {}};
  const auto report = [&] {
    const std::string text = failure_report(failure);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(report(),
            "rank 0 was killed by SIGKILL (signal 9); the kernel does that to a process when memory runs out "
            "(see dmesg)");
  failure.memory_ran_out = true;
  EXPECT_EQ(report(), "rank 0 was killed by SIGKILL (signal 9); memory ran out, and the kernel chose it");
  failure.memory_ran_out = false;
  EXPECT_EQ(report(),
            "rank 0 was killed by SIGKILL (signal 9); memory had not run out: a process sent the signal");
  failure.cause.outcome = Signalled{SIGSEGV, true};
  EXPECT_EQ(report(), "rank 0 was killed by SIGSEGV (signal 11, core dumped)");
}

TEST(ErrorFile, IsReadAsTorchelasticWritesIt) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    return read_error_file(folder.write("error.json", text)).error;
  };
  auto error = read(
      R"({"message": {"message": "ValueError: no", "extraInfo": {"py_callstack": "…", "timestamp": "1700000000"}}})");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "ValueError: no");
  EXPECT_EQ(error->type, "");
  EXPECT_FALSE(error->step);
  error = read(R"({"message": {"message": "no", "extraInfo": {"type": "DataError", "step": 7}}})");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->type, "DataError");
  EXPECT_EQ(error->step, 7);
  error = read(R"({"message": "by hand"})");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "by hand");
  for (const std::string damaged : {"", "{\"message\": {\"mess", "[1]", "{}", "{\"message\": 7}"})
    EXPECT_FALSE(read(damaged)) << damaged;
  EXPECT_EQ(read_error_file(folder.write("error.json", "{")).problem,
            "it holds no message in the form that torchelastic writes");
  const ErrorFile missing = read_error_file(folder.path() / "missing.json");
  EXPECT_FALSE(missing.error);
  EXPECT_EQ(missing.problem, "") << "a rank need not leave one";
}

TEST(ErrorFile, IgnoresAnInvalidStep) {
  const TemporaryFolder folder;
  const auto step = [&](const std::string& number) {
    return read_error_file(
               folder.write("error.json",
                            R"({"message": {"message": "no", "extraInfo": {"step": )" + number + "}}}"))
        .error->step;
  };
  EXPECT_EQ(step("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* number : {"18446744073709551615", "9223372036854775808", "-1", "1.5", "1e30", "\"7\""})
    EXPECT_FALSE(step(number)) << number;
}

TEST(ErrorFile, DoesNotBlockTheReader) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "error.json";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(read_error_file(pipe).problem, StartsWith("it is a named pipe"));
  EXPECT_EQ(read_error_file(folder.write("large.json", std::string(2 << 20, ' '))).problem,
            "it has 2 MiB, and at most 1 MiB are read");
  EXPECT_THAT(read_error_file("/dev/zero").problem, StartsWith("it is a device"));
  EXPECT_EQ(read_error_file(folder.path()).problem, "it is a directory");
}

}  // namespace
}  // namespace hookline
