// The variables of an imported script: which values the launch gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/import/import_parts.h"
#include "launcher/import/imported.h"
#include "launcher/import/shell_script.h"

namespace hookline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::problem;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

const std::string kShell = "only a shell knows";

/// The value of `use` when the launch after `script` passes it as --nproc_per_node.
std::string n_after(const std::string& script, const std::string& use = "$N") {
  const Imported imported = import_any(script + "\ntorchrun --nproc_per_node=" + use + " t.py\n");
  for (const Override& value : imported.values)
    if (value.key == "launch.processes_per_node") return value.value;
  for (const auto& [what, why] : imported.left_out)
    if (what == "--nproc-per-node=" + use && why.starts_with(kShell)) return kShell;
  return "nothing";
}

TEST(ShellVariables, ChangeInArithmetic) {
  for (const char* sum :
       {"((N*=2))", "((N++))", "(( --N ))", "let N*=2", "let 'N = 3'", ": $((N=7))", ": \"$((N+=7))\"",
        "((M = N++ + 1))", "((N <<= 1))", "for ((N=0; N<3; N++)); do :; done", "if ((N=8)); then :; fi",
        "A=(1 $((N--)))", "echo > f; ((N|=1))", "((\nN=8\n))", "N[0]=8", "N[$i]+=8", "((N[0]=8))"})
    EXPECT_EQ(n_after("N=4\n" + std::string(sum)), kShell) << sum;
  for (const char* sum : {"((N==7))", "((N <= 7))", "((M = N))", "((N >= 2 && N != 3))", "let M=N",
                          ": $((N * 2))", "((a); (b))"})
    EXPECT_EQ(n_after("N=4\n" + std::string(sum)), "4") << sum;
  EXPECT_EQ(n_after("N=4", "$((N * 2))"), "8");
}

TEST(ShellVariables, AreUnknownAfterAConditionalChange) {
  for (const char* change :
       {"[[ -n $SLURM ]] && ((N=8))", "[ -n x ] &&\n  N=8", "[ -n x ] || # or\n\n N=8", "a | N=8",
        "false && N=8 &", "while ((i++ < 3)); do N=8; done", "case x in a) N=8;; esac",
        "function f { N=8; }\nf", "f() { N=8; }\nf", "function f() { N=8; }; f",
        "function f { function g { a; }; N=8; }", "N=8 &&\n(a) &", "[ x ] && unset N",
        "if a; then export N=8; fi", "select N in 1 2; do :; done"})
    EXPECT_EQ(n_after("N=4\n" + std::string(change)), kShell) << change;
}

TEST(ShellVariables, AreNotChangedByASubshell) {
  for (const char* change : {"(N=5)", "N=5 &", "(cd x; (N=5); export N=6)", "( ((N=5)) )", "(unset N)",
                             "N=5 | cat", "(source env.sh)", "(read N < f) &", "((N=5); true)",
                             "(case x in x) N=5;; (y) N=6;; esac; N=7)", "X=$(N=5; echo)", "let N=5 &"})
    EXPECT_EQ(n_after("N=2; " + std::string(change)), "2") << change;
  EXPECT_THAT(testing::values(import_any("N=2\n(N=5; torchrun --nproc_per_node=$N t.py)\n")),
              ElementsAre("launch.processes_per_node = 5"));
  EXPECT_THAT(import_any("export A=1\n(export A=2 B=3)\ntorchrun t.py").environment,
              ElementsAre(Pair("A", "1")));
}

TEST(ShellVariables, CanBeUnset) {
  EXPECT_EQ(n_after("N=4; unset N", "${N:-1}"), "1");
  EXPECT_EQ(n_after("N=4; unset -v N", "${N-1}"), "1");
  EXPECT_EQ(n_after("N=4; unset -f N", "${N:-1}"), "4");
  EXPECT_EQ(n_after("N=4; unset $M", "${N:-1}"), kShell);
  EXPECT_EQ(n_after("source env.sh", "${N:-1}"), kShell);
  EXPECT_EQ(n_after("(source env.sh)", "${N:-1}"), "1");
  EXPECT_EQ(n_after("source env.sh; N=", "${N:-1}"), "1");
  EXPECT_EQ(n_after("N=; : ${N:=4}"), "4");
  EXPECT_EQ(n_after("N=2; : \"${N:=4}\""), "2");
  EXPECT_THAT(import_any("export A=1 B=2\nunset A\ntorchrun t.py").environment, ElementsAre(Pair("B", "2")));
}

TEST(ShellVariables, AreSetByShellBuiltins) {
  for (const char* change : {"read N < f",
                             "read -r -p 'how many? ' M N",
                             "mapfile N",
                             "mapfile -t N < f",
                             "readarray N",
                             "printf -v N %d 8",
                             "printf -vN %d 8",
                             "source env.sh",
                             ". ./env.sh",
                             "eval \"$X\"",
                             "eval N=8",
                             "getopts ab N",
                             "read -a N <<< '1 2'",
                             "builtin read N",
                             "command . ./env.sh",
                             "declare -i N=2*3",
                             "declare -i N; N=2*3",
                             "declare -u N=x",
                             "declare -n R=N; R=8",
                             "export \"N=$X\"",
                             "export \"$X\"",
                             "export N=$(nproc)",
                             "declare N[0]=3",
                             "read \"$X\"",
                             "IFS=, read -r M N",
                             "while read -r N; do :; done < f",
                             "local N"})
    EXPECT_EQ(n_after("N=4\n" + std::string(change)), kShell) << change;
  for (const char* change : {"export N=8", "export \"N=8\"", "declare N=8", "declare -i N=8",
                             "declare -x 'N=8'", "readonly N=8", "typeset N=8", "command export N=8",
                             "export -- N=8", "export N=\"8\"", "M=8; export N=$M", "A=(8); N=$A"})
    EXPECT_EQ(n_after("N=4\n" + std::string(change)), "8") << change;
  for (const char* change : {"printf '%s' N", "source venv/bin/activate", "eval \"$(conda shell.bash hook)\"",
                             "read M", "declare -p N", "export N", "wait", "read -r M < N"})
    EXPECT_EQ(n_after("N=4\n" + std::string(change)), "4") << change;
}

TEST(ShellVariables, AreExportedAsTheyAreAtTheLaunch) {
  EXPECT_THAT(import_any("export A=1\ntorchrun t.py\nexport A=2 B=3").environment,
              ElementsAre(Pair("A", "1")));
  EXPECT_THAT(import_any("set -a\nA=1\nset +a; B=2\ntorchrun t.py").environment, ElementsAre(Pair("A", "1")));
  EXPECT_THAT(import_any("set -euxo pipefail; set -o allexport; A=1; torchrun t.py").environment,
              ElementsAre(Pair("A", "1")));
  EXPECT_THAT(import_any("export A=1\nexport -n A\ntorchrun t.py").environment, IsEmpty());
  EXPECT_THAT(import_any("run() { torchrun t.py; }\nexport A=1\nrun").environment,
              ElementsAre(Pair("A", "1")));
  EXPECT_THAT(
      import_any("export A+=:/x\ntorchrun t.py").left_out,
      ElementsAre(Pair(HasSubstr("A="), "only a shell knows its value: set it before hookline launch")))
      << "it is appended to what the environment has";
}

TEST(ShellVariables, MayChangeAfterTheLaunchInFunctionsAndLoops) {
  const Imported imported =
      import_any("N=2 M=3\nrun() {\n  torchrun --nproc_per_node=$N --max_restarts=$M t.py\n}\nN=8\nrun");
  EXPECT_THAT(testing::values(imported), ElementsAre("launch.max_restarts = 3"));
  EXPECT_THAT(imported.left_out, ElementsAre(Pair("--nproc-per-node=$N", HasSubstr(kShell))));
  EXPECT_EQ(n_after("f() { N=8; }\nN=4\nf"), kShell);
  EXPECT_EQ(n_after("function f { . env.sh; }\nN=4\nif a; then f 1; fi"), kShell);
  EXPECT_EQ(n_after("f() { N=8; }\nN=4\ng"), "4");
  for (const char* script : {"run() { torchrun --max_restarts=${M:-3} t.py; }\n. ./env.sh\nrun",
                             "M=1\nwhile a; do\n  torchrun --max_restarts=$M t.py\n  M=$((M * 2))\ndone"})
    EXPECT_THAT(testing::values(import_any(script)), IsEmpty()) << script;
}

TEST(ShellVariables, MayChangeThroughNamerefs) {
  for (const char* script :
       {"declare -n R=N; N=2; R=7", "declare -n R; N=2; R=N; R=7", "declare -n \"R=N\"; N=2; R=7",
        "typeset -n R=N; N=2; ((R++))", "declare -n R=N; N=2; R+=0", "declare -n R=N; N=2; unset R",
        "declare -n R=N; N=2; read R < f", "declare -n R=N; N=2; for R in 7; do :; done",
        "declare -n R=N; N=2; : ${R:=7}", "declare -n R=N; N=2; R[0]=7", "declare -n R=N; N=2; printf -v R 7",
        "declare -n R=N; f() { R=7; }; N=2; f", "f() { R=7; }; declare -n R=N; N=2; f",
        "f() { local -n R=$1; R=7; }; N=2; f N", "declare -n R=N; N=2; if a; then R=7; fi",
        "declare -n R=N; N=2; declare R=7", "declare -n R=N; N=2; export R=7"})
    EXPECT_EQ(n_after(script), kShell) << script;
  EXPECT_EQ(n_after("declare -n R=N; N=2"), "2");
  EXPECT_EQ(n_after("declare -n R=N; R=7; N=2"), "2");
  EXPECT_EQ(n_after("N=2; (declare -n R=N; R=7)"), "2");
  EXPECT_EQ(n_after("declare -n R=M; R=7; N=2; export -n N"), "2") << "export has another -n";
  EXPECT_EQ(n_after("declare -n R=N; N=2", "$R"), kShell);
}

TEST(ShellVariables, AreSplitAtTheCharactersInIFS) {
  const auto program = [](const std::string& script) {
    std::vector<std::string> words = import_any(script).program;
    words.erase(words.begin());
    return words;
  };
  EXPECT_THAT(testing::values(import_any("IFS=,\nA=--nproc_per_node,2\ntorchrun $A t.py")),
              ElementsAre("launch.processes_per_node = 2"));
  EXPECT_THAT(testing::values(import_any("IFS=,\nA=accelerate,launch\n$A --num_processes 2 t.py")),
              ElementsAre("launch.processes_per_node = 2"));
  EXPECT_THAT(program("IFS=' ,'; A=' ,a b , c,,d, '; torchrun t.py x$A\"y\" $A"),
              ElementsAre("x", "a", "b", "c", "", "d", "y", "", "a", "b", "c", "", "d"));
  EXPECT_THAT(program("IFS=$'\\n\\t'; A='a b'; torchrun t.py $A"), ElementsAre("a b"));
  EXPECT_THAT(program("IFS=; A='a b'; E=; torchrun t.py $A $E"), ElementsAre("a b"));
  EXPECT_THAT(program("S=$IFS; IFS=,; IFS=$S; A='a b,c'; torchrun t.py $A"), ElementsAre("a", "b,c"));
  EXPECT_THAT(program("IFS=,; unset IFS; A='a b,c'; torchrun t.py $A"), ElementsAre("a", "b,c"));
  EXPECT_THAT(program("(IFS=,); IFS=, read -r x; A='a b,c'; torchrun t.py $A"), ElementsAre("a", "b,c"));
  EXPECT_THAT(program("IFS=,; A=(a 'b c'); B=\"${A[*]}\"; torchrun t.py \"$B\" \"${A[@]}\""),
              ElementsAre("a,b c", "a", "b c"));
  EXPECT_THAT(program("join() { local IFS=,; echo \"$*\"; }; join a; A='a b'; torchrun t.py $A"),
              ElementsAre("a", "b"));
  EXPECT_THAT(program("source env.sh; A='a b'; torchrun t.py $A"), ElementsAre("a", "b"));
  for (const char* change : {"IFS=$1", "read IFS", "if a; then IFS=,; fi", "f() { IFS=,; }", "eval 'IFS=,'",
                             "f() { declare -g IFS=,; }", "A=(a b); f() { local IFS=,; }; IFS=$X"}) {
    const Imported imported = import_any(std::string(change) + "; A='--nnodes 2'; torchrun $A t.py");
    EXPECT_THAT(imported.left_out, Contains(Pair("$A", HasSubstr("which flags it holds")))) << change;
    EXPECT_THAT(imported.values, IsEmpty()) << change;
    EXPECT_EQ(n_after(std::string(change) + "; N=4"), "4") << change;
    EXPECT_EQ(n_after(std::string(change) + "; N='4'", "\"$N\""), "4") << change;
  }
  EXPECT_THAT(import_any("f() { local IFS=,; torchrun $A t.py; }; A='--nnodes 2'; f").values, IsEmpty());
  EXPECT_THAT(import_any("A='--nnodes 2'; while a; do torchrun $A t.py; IFS=,; done").values, IsEmpty());
}

TEST(ShellVariables, ReportDefaultsThatReplacedTheEnvironment) {
  const auto remarks = [](const std::string& script) { return import_any(script).remarks; };
  const Imported both = import_any(
      "NODES=${SLURM_NNODES:-1}\ntorchrun --nnodes=$NODES --nproc_per_node $((NODES * ${GPUS:=4})) \\\n"
      "  --master_addr ${MASTER_ADDR-localhost} t.py");
  EXPECT_THAT(testing::values(both), ElementsAre("launch.nnodes = 1", "launch.processes_per_node = 4",
                                                 "rendezvous.main_address = localhost"));
  EXPECT_THAT(both.remarks,
              ElementsAre("line 1: ${SLURM_NNODES:-1} became its default, '1': if the environment sets "
                          "SLURM_NNODES, launch with --set launch.nnodes=N --set launch.processes_per_node=N",
                          "line 2: ${GPUS:=4} became its default, '4': if the environment sets GPUS, launch "
                          "with --set launch.processes_per_node=N",
                          "line 2: ${MASTER_ADDR-localhost} became its default, 'localhost': if the "
                          "environment sets MASTER_ADDR, launch with --set rendezvous.main_address=HOST"));
  constexpr const char* kLearningRate =
      "line 1: ${LR:-0.1} became its default, '0.1': if the environment sets LR, write its value into the "
      "script, and import it again";
  for (const char* script :
       {"torchrun t.py --lr ${LR:-0.1}", "LR=${LR:-0.1}; export LR; torchrun t.py --lr $LR",
        "A=(--lr ${LR:-0.1}); torchrun t.py \"${A[@]}\"", "RATE=${LR:-0.1} torchrun t.py",
        "srun -w ${LR:-0.1} torchrun t.py", "torchrun --max_restarts=${LR:-0.1} t.py --lr ${LR:-0.1}",
        "N=${LR:-0.1}; if a; then N=0.1; fi; torchrun t.py $N"})
    EXPECT_THAT(remarks(script), ElementsAre(kLearningRate)) << script;
  EXPECT_THAT(remarks("torchrun ${MORE:-} t.py"),
              ElementsAre(AllOf(HasSubstr("line 1: ${MORE:-} became its default, an empty string"),
                                HasSubstr("MORE, write its value into the script"))));
  EXPECT_THAT(remarks("PET_NNODES=${N:-2} torchrun --rdzv-conf timeout=${T:-60} t.py"),
              UnorderedElementsAre(HasSubstr("N, launch with --set launch.nnodes=N"),
                                   HasSubstr("T, launch with --set launch.join_timeout_seconds=N")));
  EXPECT_THAT(remarks("accelerate launch --main_process_ip ${IP:-::1} --num_machines ${M:-1} --num_processes "
                      "${N:-2} --mixed_precision ${P:-no} --quiet --role ${R:-x} t.py"),
              UnorderedElementsAre(HasSubstr("IP, launch with --set rendezvous.main_address=HOST"),
                                   HasSubstr("M, write its value into the script"),
                                   HasSubstr("N, launch with --set launch.processes_per_node=N"),
                                   HasSubstr("P, write its value into the script")));
  for (const char* script :
       {"N=4; torchrun --nproc_per_node=${N:-1} t.py", "unset N; torchrun --nproc_per_node=${N:-1} t.py",
        "echo ${LR:-0.1}; torchrun t.py", "torchrun --role ${R:-x} t.py", "MASTER_ADDR=${A:-h} torchrun t.py",
        ". ./env.sh; torchrun --nproc_per_node=${N:-1} t.py",
        "torchrun --nproc_per_node=${N:-$(nproc)} t.py"})
    EXPECT_THAT(remarks(script), IsEmpty()) << script;
}

TEST(ShellVariables, AreLimitedInSize) {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  const std::string large =
      ": the script's variables hold more than 1 MiB of text here: write the values that the launch needs "
      "into its command";
  const std::string launch = "torchrun --nproc_per_node=$A t.py\n";
  EXPECT_EQ(problem("A=1\n" + repeated("A=$A$A\n", 40) + launch), "line 20" + large);
  EXPECT_EQ(problem("A=1\n" + repeated("A+=$A\n", 40) + launch), "line 20" + large);
  EXPECT_EQ(problem("A=('')\n" + repeated("A+=(\"${A[@]}\")\n", 40) + launch), "line 16" + large);
  EXPECT_EQ(problem("A=" + repeated("x", 20'000) + "\nexport" + repeated(" A", 1000) + "\n" + launch),
            "line 2" + large);
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "A" + std::to_string(i) + "=1\n";
  EXPECT_EQ(problem(many + repeated("(source f)\n", 50'000) + launch), "line 2031" + large);
  EXPECT_EQ(problem("\ntorchrun --nproc_per_node=" + repeated("${a:-", 100'000) + "1" +
                    repeated("}", 100'000) + " t.py"),
            "line 2: it nests ${...} deeper than 50 levels: write the value itself in its place");
  EXPECT_EQ(n_after("", repeated("${a:-", 40) + "3" + repeated("}", 40)), "3");
  EXPECT_EQ(problem(repeated("if a\n", 100'000) + launch), "line 101: it nests 'if' deeper than 100 levels");
  EXPECT_EQ(problem(repeated("((a);", 100'000) + repeated(")", 100'000) + launch),
            "line 1: it nests parentheses deeper than 100 levels");
  EXPECT_THAT(problem(repeated("cd x\ntorchrun a\n", 50'000)),
              StartsWith("lines 2, 4, 6, 8, 10, 12, 14, 16 and 49992 more each start a program"));
}

TEST(ShellScript, UnderstandsAnsiCQuoting) {
  const auto word = [](const std::string& text) {
    return read_shell_script("c " + text).commands[0].words[1].text;
  };
  EXPECT_EQ(word("$'a\\tb'"), "a\tb");
  EXPECT_EQ(word("--log_dir=$'a\\tb\\'c d'e"), "--log_dir=a\tb'c de");
  EXPECT_EQ(word("$'\\x41\\101\\u00e9\\cA\\e\\q\\\\'"), "AA\xc3\xa9\x01\x1b\\q\\");
  EXPECT_EQ(word("$'a\\0b'c"), "ac");
  EXPECT_EQ(word("\"$'a\\tb'\""), "$'a\\tb'");
  EXPECT_EQ(word("$\"a b\""), "a b");
  EXPECT_EQ(word("$(echo 'a\\' $'b\\')')"), "$(echo 'a\\' $'b\\')')");
  EXPECT_EQ(import_any("torchrun t.py $'a\\tb'").program.back(), "a\tb");
  EXPECT_EQ(problem("torchrun $'x"), "line 1: a quotation mark $' is not closed");
}

}  // namespace
}  // namespace hookline
