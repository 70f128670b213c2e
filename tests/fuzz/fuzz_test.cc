// Whatever a file or message from outside contains, its reader accepts it or refuses it with its own error
// type, within the memory that limit_memory() allows. The sanitizers run on the same texts.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor_file.h"
#include "config/print.h"
#include "config/resolve.h"
#include "hooks/catalog/catalog.h"
#include "launcher/import/imported.h"
#include "launcher/rank/error_file.h"
#include "launcher/rendezvous/coordinator.h"
#include "launcher/rendezvous/messages.h"
#include "launcher/report/series.h"
#include "launcher/sweep/file/sweep_file.h"
#include "launcher/sweep/metrics_file.h"
#include "launcher/sweep/trial_files.h"
#include "libexec/estimate/pickle.h"
#include "libexec/rendezvous/lines/line_stream.h"
#include "libexec/rendezvous/store/store_hub.h"
#include "libexec/rendezvous/store/store_word.h"
#include "support/mutate.h"
#include "support/process.h"
#include "support/sanitized.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

using testing::kSanitized;
using testing::mutated;
using testing::TemporaryFolder;

/// Limits memory to 1 GiB: larger allocations throw std::bad_alloc, which no reader catches.
void limit_memory() {
  if (kSanitized) return;  // RLIMIT_DATA would count the shadow memory; ASAN_OPTIONS limit it there
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, rlim_t{1} << 30);
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
}

/// A reader, and texts that it accepts.
struct Reader {
  std::string name;
  std::vector<std::string> texts;
  std::vector<std::string> pieces;  // tokens of its language
  /// Reads `text` in a folder of its own. Returns false if it is refused; throws nothing.
  std::function<bool(const TemporaryFolder&, const std::string& text)> takes;
  int mutations = 2000;
};

const std::vector<std::string> kJsonPieces = {"[",
                                              "]",
                                              "{",
                                              "}",
                                              ",",
                                              ":",
                                              "\"",
                                              "\\u",
                                              "\\u0000",
                                              "\\ud800",
                                              "null",
                                              "true",
                                              "-1",
                                              "0",
                                              "1e999",
                                              "1.5",
                                              "18446744073709551615",
                                              "9223372036854775808",
                                              "-9223372036854775808",
                                              "[[",
                                              "{\"a\":",
                                              "\n",
                                              "\xff",
                                              "é",
                                              "\\"};
const std::vector<std::string> kTomlPieces = {"[",
                                              "]",
                                              "{",
                                              "}",
                                              "\"",
                                              "'",
                                              "\"\"\"",
                                              "=",
                                              ".",
                                              "\n",
                                              "\\u",
                                              "#",
                                              ",",
                                              "\xff",
                                              "1e999",
                                              "0x",
                                              "a.",
                                              "a = {",
                                              "99999999999999999999"};
const std::vector<std::string> kYamlPieces = {
    "[",   "]",   "{",      "}",           "- ",     ": ",        "? ", "&a ", "*a",  "<<: *a",
    "|\n", ">\n", "!!int ", "%YAML 1.2\n", "---\n",  "\t",        "'",  "\"",  "#",   "\n",
    "  ",  "-1",  "\xff",   "null",        "slots=", "torchrun ", "$",  "`",   "\\\n"};

bool takes_manifest(const TemporaryFolder& folder, const std::string& text) {
  folder.write("manifest.json", text);
  try {
    read_manifest(folder.path());
    return true;
  } catch (const Error&) {
    return false;
  }
}

Reader manifest() {
  Manifest manifest{300, 2, "power_sgd", "2026-01-31T12:00:00Z", "0.1.0", {}};
  manifest.files.push_back({"model.safetensors", 1234, "0123456789abcdef"});
  manifest.files.push_back({"rank_0.safetensors", 99, "0123456789abcdef"});
  return {"Manifest", {manifest_text(manifest)}, kJsonPieces, takes_manifest};
}

Reader tensor_file() {
  const std::vector<TensorRow> rows = {{"a", "F32", {2, 3}, 0, 24}, {"b", "I64", {}, 24, 32}};
  return {"TensorFile",
          {header_bytes({{"format", "pt"}}, rows) + std::string(32, 'x')},
          kJsonPieces,
          [](const TemporaryFolder& folder, const std::string& text) {
            try {
              read_tensor_header(folder.write("x.safetensors", text));
              return true;
            } catch (const Error&) {
              return false;
            }
          }};
}

Reader pickle() {
  std::string state =
      "\x80\x02"
      "ccollections\nOrderedDict\n)Rq";
  state += std::string(1, '\0') + "(X\x06";
  state += std::string(3, '\0') + "weightctorch._utils\n_rebuild_tensor_v2\n((X\x07" + std::string(3, '\0') +
           "storagectorch\nFloatStorage\nX\x01" + std::string(3, '\0') + "0X\x03" + std::string(3, '\0') +
           "cpuK\x0ctQK" + std::string(1, '\0') +
           "(K\x03K\x04t(K\x04K\x01t\x89"
           "ccollections\nOrderedDict\n)RtRu.";
  return {"Pickle",
          {state},
          {"(",
           "t",
           "l",
           "d",
           "}",
           "]",
           ")",
           "a",
           "e",
           "s",
           "u",
           "q\x01",
           "h\x01",
           "2",
           "0",
           "1",
           "R",
           "Q",
           "b",
           "\x81",
           "\x92",
           "\x93",
           "\x94",
           "K\xff",
           "J\xff\xff\xff\xff",
           "\x8a\x09",
           "X\xff\xff\xff\xff",
           "."},
          [](const TemporaryFolder&, const std::string& text) {
            try {
              parameter_shapes(read_pickle(text));
              return true;
            } catch (const PickleError&) {
              return false;
            }
          },
          20'000};
}

Reader resolved() {
  RunConfig config;
  config.origins["ddp.comm_hook"] = {OriginKind::file, "run\n.toml:3:1"};
  config.origins["logging.dir"] = {OriginKind::command_line, "--set \"logging.dir\""};
  return {"ResolvedConfig",
          {to_json(config)},
          kJsonPieces,
          [](const TemporaryFolder& folder, const std::string& text) {
            try {
              read_resolved(folder.write("resolved.json", text), Catalog::built_in());
              return true;
            } catch (const ConfigError&) {
              return false;
            }
          },
          kSanitized ? 100 : 400};
}

Reader metrics() {
  return {
      "Metrics",
      {"{\"step\": 1, \"loss\": 0.5, \"seconds\": 1.5, \"bytes_sent\": 0}\n{\"step\": 2, \"loss\": NaN}\nno "
       "JSON\n"
       "{\"step\": 2, \"loss\": 0.25, \"name\": \"x\", \"seconds\": 3, \"bytes_sent\": 8}\n{\"loss\": -inf}"},
      kJsonPieces,
      [](const TemporaryFolder& folder, const std::string& text) {
        const fs::path file = folder.write("metrics.jsonl", text);
        MetricsFile metrics(file, "loss");
        metrics.finish();
        std::string loss;
        return !read_series(file, 10, loss).empty() || !metrics.points().empty();
      }};
}

Reader error_file() {
  return {
      "ErrorFile",
      {R"({"message": {"message": "it broke", "extraInfo": {"type": "Error", "step": 7, "py_callstack": "…"}}})",
       R"({"message": "it broke"})"},
      kJsonPieces,
      [](const TemporaryFolder& folder, const std::string& text) {
        return read_error_file(folder.write("error.json", text)).error.has_value();
      }};
}

NodeHello hello_of(const std::string& host) { return {host, 2, 1, {{"launch.nnodes", "2"}}}; }

/// A message that parses is passed to a coordinator too, which must survive it.
bool takes_message(const TemporaryFolder&, const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  Coordinator coordinator({2, 3}, {}, "a", hello_of("one"), now);
  coordinator.take({"b", {hello_of("two")}}, now);
  const auto up = up_of("b", text);
  if (up)
    for (const Word& said : coordinator.take(*up, now)) down_of(to_line(said.what));
  for (const Word& said : coordinator.tick(now + std::chrono::hours(1))) down_of(to_line(said.what));
  const auto down = down_of(text);
  if (!down) return up.has_value();
  to_line(*down);
  if (const auto* succession = std::get_if<Succession>(&*down)) {
    Coordinator successor({2, 3}, {}, "a", hello_of("one"), now,
                          TakenOver{*succession, 7, std::chrono::seconds(10)});
    successor.take({"b", {hello_of("two")}}, now);
    for (const Word& said : successor.tick(now + std::chrono::hours(1))) down_of(to_line(said.what));
  }
  return true;
}

Reader messages() {
  const Seat seat{2, 1, 1, 2, 2, 3, "a", "h"};
  const Succession succession{
      2, 1, 3, "one", "a", 1, NodeFailed{1, 3, Exited{9}, 12}, 40, {{"b", "two", "10.0.0.2"}}};
  return {"NodeMessages",
          {to_line(Up{"b", hello_of("two")}), to_line(Up{"b", NodeFailed{1, 3, Signalled{9, true}, 12}}),
           to_line(Up{"b", NodeEnd{1, 15, true, "fell", 3}}), to_line(Up{"b", NodePace{1, 3, 0.25}}),
           to_line(Up{"b", Leave{10}}), to_line(Up{"b", StorePort{1, 29500}}), to_line(Up{"b", Seated{2}}),
           to_line(Down(succession)), to_line(Down(seat)), to_line(Down(StopRound{1, "so"})),
           to_line(Down(EndRun{1, "so"})), to_line(Down(Refuse{"so"})), to_line(Down(Rejoin{})),
           to_line(Down(Say{"so"}))},
          kJsonPieces,
          takes_message};
}

bool takes_frame(const TemporaryFolder&, const std::string& text) {
  const auto frame = LineStream::parse(text);
  if (!frame) return false;
  LineStream stream;
  stream.heard(frame->received);
  if (frame->kind != LineStream::Kind::line) return true;
  stream.takes(*frame);
  const auto word = store_word_of(frame->line);
  EXPECT_TRUE(!word || store_word_of(to_line(*word)).has_value());
  return true;
}

/// What the relays of two nodes send each other.
Reader relay_frames() {
  LineStream stream;
  const auto frame_of = [&](const StoreWord& word) {
    return stream.send(std::make_shared<const std::string>(to_line(word)));
  };
  return {"RelayFrames",
          {frame_of({StoreWord::Kind::open, 7, "", 3}), frame_of({StoreWord::Kind::data, 18, "bytes"}),
           frame_of({StoreWord::Kind::end, 18446744073709551615U}),
           frame_of({StoreWord::Kind::reached, 0, "10.0.0.1"}), stream.count(LineStream::Kind::heartbeat),
           stream.count(LineStream::Kind::resume), stream.count(LineStream::Kind::answer)},
          {"L", "B", "R", "A", "\n", " ", "-", "0", "18446744073709551616", "store ", "reached ", "open ",
           "data ", "end "},
          takes_frame,
          20'000};
}

bool takes_store_requests(const TemporaryFolder&, const std::string& text) {
  StoreHub hub;
  hub.begin_round(1);
  hub.open({}, 1);
  const auto answers = hub.take({}, text);
  return answers.empty() || !answers.back().is_last;
}

/// What ranks, and whoever connects to their store, may send.
Reader store_requests() {
  const std::string greeting = to_bytes({StoreQuery::validate});
  const auto after_greeting = [&](const StoreRequest& request) { return greeting + to_bytes(request); };
  std::vector<std::string> pieces = {greeting, std::string(1, '\0'), std::string(8, '\0'),
                                     "\xff\xff\xff\xff"};
  for (char query = 0; query <= static_cast<char>(StoreQuery::barrier); ++query)
    pieces.emplace_back(1, query);
  return {
      "StoreRequests",
      {after_greeting({StoreQuery::set_many, {"a", "b"}, {"1", "2"}}),
       after_greeting({StoreQuery::compare_set, {"a"}, {"", "new"}}),
       after_greeting({StoreQuery::add, {"n"}, {}, -5}), after_greeting({StoreQuery::get_many, {"a", "b"}}),
       after_greeting({StoreQuery::wait, {"a", "b"}}), after_greeting({StoreQuery::push, {"q"}, {"1"}}),
       after_greeting({StoreQuery::pop, {"q"}}), after_greeting({StoreQuery::ping, {}, {}, 7})},
      pieces,
      takes_store_requests,
      20'000};
}

Reader imports() {
  std::vector<std::string> texts;
  for (const auto& entry : fs::directory_iterator(IMPORTS)) texts.push_back(testing::read_file(entry.path()));
  std::sort(texts.begin(), texts.end());
  return {"Imports", texts, kYamlPieces, [](const TemporaryFolder&, const std::string& text) {
            try {
              import_any(text, IMPORTS "/script.sh");  // a script may refer to a file beside it
              return true;
            } catch (const ImportError&) {
              return false;
            }
          }};
}

Reader sweep_file() {
  return {"SweepFile",
          {"[sweep]\nprogram = [\"train\", \"--lr\", \"{lr}\"]\nmetric = \"loss\"\nseeds = [1, 2]\n[fixed]\n"
           "launch.processes_per_node = 2\n[baseline]\nargs.lr = 0.1\n[grid]\nddp.comm_hook = [\"fp16\", "
           "\"bf16\"]\n"
           "args.lr = { from = 1e-3, to = 1e-1, count = 3, log = true }\n[random]\nsamples = 20\nseed = 1\n"
           "args.lr = { from = 1e-3, to = 1e-1, log = true }\n[exclude.slow]\nddp.comm_hook = \"bf16\"\n"},
          kTomlPieces,
          [](const TemporaryFolder& folder, const std::string& text) {
            return read_sweep(folder.write("sweep.toml", text), Catalog::built_in()).ok;
          },
          100};
}

Reader trial_result() {
  const TemporaryFolder folder;
  TrialResult result;
  result.status = TrialStatus::done;
  result.metric = 0.5;
  result.measures = R"({"step_seconds": 0.1, "phase_seconds": {"forward": 0.05}})";
  write_result(folder.path(), "a1", result);
  return {"TrialResult",
          {testing::read_file(folder.path() / kResultFile)},
          kJsonPieces,
          [](const TemporaryFolder& here, const std::string& text) {
            here.write(kResultFile, text);
            try {
              return read_result(here.path(), "a1").has_value();
            } catch (const UnreadableResult&) {
              return false;
            }
          }};
}

Reader hook_row() {
  return {
      "HookRow",
      {R"({"name": "clip", "summary": "Clips.", "options": [{"name": "max_norm", "type": "number", "default": 0.5}]})"},
      kJsonPieces,
      [](const TemporaryFolder&, const std::string& text) {
        try {
          hook_row_from_json(text);
          return true;
        } catch (const CatalogError&) {
          return false;
        }
      }};
}

struct NamedReader {
  const char* name;
  Reader (*make)();

  /// GoogleTest appends it to the test's name.
  friend void PrintTo(const NamedReader& reader, std::ostream* out) { *out << reader.name; }
};

class Fuzz : public ::testing::TestWithParam<NamedReader> {};

TEST_P(Fuzz, EveryTextIsAcceptedOrRefusedWithTheReadersError) {
  const Reader reader = GetParam().make();
  const TemporaryFolder folder;
  limit_memory();
  for (const std::string& text : reader.texts) ASSERT_TRUE(reader.takes(folder, text)) << text;
  std::mt19937 random(20260301);
  int refused = 0;
  for (int i = 0; i < reader.mutations; ++i) {
    const std::string text = mutated(reader.texts[random() % reader.texts.size()], reader.pieces, random);
    try {
      refused += !reader.takes(folder, text);
    } catch (const std::exception& error) {
      FAIL() << reader.name << ", mutation " << i << ": " << error.what() << "\n" << text.substr(0, 2000);
    }
  }
  EXPECT_GT(refused, reader.name == "Metrics" ? -1 : reader.mutations / 50) << reader.name;
}

/// Deeply nested brackets, alone and after the start of a valid text.
TEST_P(Fuzz, SurvivesNestingOfAnyDepth) {
  constexpr std::size_t kDepth = 500'000;
  const Reader reader = GetParam().make();
  const TemporaryFolder folder;
  limit_memory();
  for (const std::string open : {"[", "{", "{\"a\":", "(", "- ", "? ", "x=["}) {
    std::string many;
    while (many.size() < kDepth) many += open;
    for (const std::string& text : {many, reader.texts[0].substr(0, reader.texts[0].size() / 2) + many,
                                    "{\"message\":" + many, "x = " + many}) {
      try {
        reader.takes(folder, text);
      } catch (const std::exception& error) {
        FAIL() << reader.name << ", " << open << ": " << error.what();
      }
    }
  }
}

const NamedReader kReaders[] = {
    {"Manifest", manifest},           {"TensorFile", tensor_file}, {"Pickle", pickle},
    {"ResolvedConfig", resolved},     {"Metrics", metrics},        {"ErrorFile", error_file},
    {"NodeMessages", messages},       {"Imports", imports},        {"SweepFile", sweep_file},
    {"TrialResult", trial_result},    {"HookRow", hook_row},       {"RelayFrames", relay_frames},
    {"StoreRequests", store_requests}};

INSTANTIATE_TEST_SUITE_P(Of, Fuzz, ::testing::ValuesIn(kReaders),
                         [](const auto& reader) { return std::string(reader.param.name); });

}  // namespace
}  // namespace hookline
