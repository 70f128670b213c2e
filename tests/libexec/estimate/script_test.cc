#include "libexec/estimate/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "pickled.h"
#include "support/failure.h"

namespace hookline {
namespace {

using testing::pickled::tensor;
using testing::pickled::text;

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Shape = std::vector<std::int64_t>;

/// A pickled object. `attributes` alternates names and values, as pickle instructions.
std::string object(const std::string& module, const std::string& name, const std::string& attributes) {
  return "c" + module + "\n" + name + "\n)\x81}(" + attributes + "ub";
}

struct Archive {
  std::string pickle;
  std::map<std::string, std::string> records;

  std::vector<Shape> shapes() const {
    return script_parameter_shapes(read_pickle("\x80\x02" + pickle + "."), [this](const std::string& name) {
      const auto found = records.find(name);
      return found == records.end() ? std::nullopt : std::optional(found->second);
    });
  }
  std::string problem() const {
    return testing::failure_of<ScriptError>([this] { shapes(); });
  }
};

std::string module_code(const std::string& name, const std::string& parameters,
                        const std::string& more = "") {
  return "class " + name + "(Module):\n  __parameters__ = [" + parameters + "]\n  __buffers__ = []\n" + more +
         "  def forward(self: __torch__." + name + ",\n    x: Tensor) -> Tensor:\n    return x\n";
}

TEST(Script, CountsWhatTheCodeDeclaresAsParameters) {
  const Archive archive{
      object("__torch__", "Net",
             text("weight") + tensor("FloatStorage", "\x02\x03", "0") + text("running") +
                 tensor("FloatStorage", "\x07", "1") + text("count") + tensor("LongStorage", "\x05", "2") +
                 text("bias") + "N" + text("left") +
                 object("__torch__.layers.___torch_mangle_0", "Linear",
                        text("0") + tensor("DoubleStorage", "\x04", "3") + text("training") + "\x88") +
                 text("tied") +
                 object("__torch__.layers.___torch_mangle_0", "Linear",
                        text("0") + tensor("DoubleStorage", "\x04", "3"))),
      {{"code/__torch__.py", module_code("Net", "\"weight\", \"count\", \"bias\", ")},
       {"code/__torch__/layers/___torch_mangle_0.py", module_code("Linear", "\"0\", ")}}};
  EXPECT_THAT(archive.shapes(), ElementsAre(Shape{2, 3}, Shape{4}));
}

TEST(Script, RunsNoCodeToRestoreAModule) {
  const Archive archive{
      "c__torch__\nNet\n)\x81(" + tensor("FloatStorage", "\x02") + "tb",
      {{"code/__torch__.py",
        module_code("Net", "\"weight\", ",
                    "  def __setstate__(self: __torch__.Net,\n    state: Tensor) -> NoneType:\n")}}};
  EXPECT_EQ(
      archive.problem(),
      "its module '__torch__.Net' is restored by a function of the file, __setstate__, and hookline runs "
      "no code of a model file");
}

TEST(Script, SkipsObjectsThatAreNotModules) {
  const Archive archive{
      object("__torch__", "Net",
             text("packed") + object("__torch__.torch.classes.quantized", "LinearPackedParamsBase", "") +
                 text("list") +
                 object("__torch__", "Record", text("weight") + tensor("FloatStorage", "\x09"))),
      {{"code/__torch__.py", "class Record:\n  __parameters__ = [\"weight\", ]\n" + module_code("Net", "")}}};
  EXPECT_THAT(archive.shapes(), IsEmpty());
}

TEST(Script, SaysWhatItCannotRead) {
  EXPECT_EQ((Archive{"}", {}}.problem()), "it holds no module");
  EXPECT_EQ((Archive{object("__torch__", "Net", ""), {}}.problem()),
            "its code has no class '__torch__.Net': it is damaged");
  const std::map<std::string, std::string> code = {{"code/__torch__.py", module_code("Net", "\"w\", ")}};
  EXPECT_EQ((Archive{"c__torch__\nNet\n)\x81", code}.problem()),
            "its module '__torch__.Net' has no list of attributes: it is damaged");
  EXPECT_EQ(
      (Archive{object("__torch__", "Net", text("w") + "ctorch._utils\n_rebuild_sparse_tensor\n)R"), code}
           .problem()),
      "the parameter 'w' of its module '__torch__.Net' is stored in a form that can't be read here, such "
      "as a sparse or quantized one");
}

TEST(Script, ReadsOnlyDeclarations) {
  const auto classes = classes_in(
      "op_version_set = 1\nclass A(Module):\n  __parameters__ = [\"a\\\"b\", \"c\", ]\n"
      "class B(NamedTuple):\n  x : Tensor\nclass C:\n  def __setstate__(self: C, state: int) -> NoneType:\n");
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_TRUE(classes.at("A").is_module);
  EXPECT_THAT(classes.at("A").parameters, UnorderedElementsAre("a\"b", "c"));
  EXPECT_FALSE(classes.at("B").is_module || classes.at("C").is_module || classes.at("A").restores_itself);
  EXPECT_TRUE(classes.at("C").restores_itself);
}

TEST(Script, TerminatesOnASelfReferencingModule) {
  const Archive archive{"c__torch__\nNet\n)\x81q" + std::string(1, '\0') + "}(" + text("self") + "h" +
                            std::string(1, '\0') + text("w") + tensor("HalfStorage", "\x03") + "ub",
                        {{"code/__torch__.py", module_code("Net", "\"w\", ")}}};
  EXPECT_THAT(archive.shapes(), ElementsAre(Shape{3}));
}

}  // namespace
}  // namespace hookline
