#include "config/toml/diagnostic.h"

#include <gtest/gtest.h>

#include "base/suggest.h"

namespace hookline {
namespace {

Diagnostic sample() {
  return {Severity::error, "run.toml", 7, 1, 4, "rnak = 2", "unknown key 'rnak'", "did you mean 'rank'?"};
}

TEST(Diagnostic, ShowsTheLineAndACaret) {
  EXPECT_EQ(render(sample()),
            "run.toml:7:1: error: unknown key 'rnak'\n"
            "  7 | rnak = 2\n"
            "    | ^~~~ did you mean 'rank'?\n");
}

TEST(Diagnostic, AlignsTheCaretAfterTabsAndMultibyteCharacters) {
  Diagnostic problem = sample();
  problem.severity = Severity::warning;
  problem.line = 12;
  problem.column = 7;
  problem.length = 1;
  problem.line_text = "\té = \"x\"";
  problem.note.clear();
  EXPECT_EQ(render(problem),
            "run.toml:12:7: warning: unknown key 'rnak'\n"
            "  12 | \té = \"x\"\n"
            "     | \t     ^\n");
}

TEST(Diagnostic, UnderlinesNoFurtherThanTheLine) {
  Diagnostic problem = sample();
  problem.column = 8;
  problem.length = 100;
  EXPECT_EQ(render(problem),
            "run.toml:7:8: error: unknown key 'rnak'\n"
            "  7 | rnak = 2\n"
            "    |        ^ did you mean 'rank'?\n");
  problem.column = 1000;
  EXPECT_EQ(render(problem),
            "run.toml:7:1000: error: unknown key 'rnak'\n"
            "  7 | rnak = 2\n"
            "    |         ^ did you mean 'rank'?\n");
}

TEST(Diagnostic, WithoutAPlaceHasNoCaret) {
  Diagnostic problem;
  problem.source = "HOOKLINE_DDP__DIM";
  problem.message = "bad value \"x\"";
  EXPECT_EQ(render(problem), "HOOKLINE_DDP__DIM: error: bad value \"x\"\n");
  problem.note = "must be an integer";
  EXPECT_EQ(render(problem), "HOOKLINE_DDP__DIM: error: bad value \"x\"\n  must be an integer\n");
}

TEST(Diagnostic, KeepsControlCharactersFromTheTerminal) {
  Diagnostic problem = sample();
  problem.line_text = "rnak \x1b[31m";
  EXPECT_EQ(render(problem),
            "run.toml:7:1: error: unknown key 'rnak'\n"
            "  7 | rnak ?[31m\n"
            "    | ^~~~ did you mean 'rank'?\n");
}

TEST(Diagnostic, CutsLongLinesAroundTheCaret) {
  Diagnostic problem = sample();
  problem.line_text = std::string(300, 'a') + "b" + std::string(300, 'c');
  problem.column = 301;
  problem.length = 1;
  EXPECT_EQ(render(problem),
            "run.toml:7:301: error: unknown key 'rnak'\n"
            "  7 | …" +
                std::string(60, 'a') + "b" + std::string(99, 'c') +
                "…\n"
                "    | " +
                std::string(61, ' ') + "^ did you mean 'rank'?\n");
}

TEST(Nearest, ForgivesTyposSwapsAndCase) {
  const std::vector<std::string> words = {"comm_hook", "comm_wrapper", "dim", "fp16", "bf16"};
  EXPECT_EQ(nearest("com_hook", words), "comm_hook");
  EXPECT_EQ(nearest("comm_hoko", words), "comm_hook");
  EXPECT_EQ(nearest("COMM_WRAPPER", words), "comm_wrapper");
  EXPECT_EQ(nearest("dmi", words), "dim");
  EXPECT_EQ(nearest("fp61", words), "fp16");
}

TEST(Nearest, PrefersTheFirstOfEquallyNearWords) { EXPECT_EQ(nearest("xf16", {"bf16", "cf16"}), "bf16"); }

TEST(Nearest, IsNothingWhenNoWordIsNear) {
  EXPECT_EQ(nearest("learning_rate", {"comm_hook", "dim"}), std::nullopt);
  EXPECT_EQ(nearest("ab", {"dim"}), std::nullopt);
  EXPECT_EQ(nearest("", {"dim"}), std::nullopt);
  EXPECT_EQ(nearest("dim", {}), std::nullopt);
  EXPECT_EQ(nearest(std::string(100000, 'x'), {"dim"}), std::nullopt);
}

}  // namespace
}  // namespace hookline
