// Parses Accelerate's YAML and its values, before the keys get a meaning.
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <vector>

#include "launcher/import/accelerate_config.h"

namespace hookline {
namespace {

std::string line_of(const YAML::Mark& mark) { return std::to_string(mark.line + 1); }

/// Refuses a key that occurs twice: yaml-cpp would take the first value, and Accelerate takes the last.
class KeyWatch : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { begin_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { node(mark, nullptr); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { node(mark, nullptr); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    node(mark, &value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    node(mark, nullptr);
    open_.emplace_back();
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    node(mark, nullptr);
    open_.emplace_back().is_map = true;
  }
  void OnMapEnd() override { open_.pop_back(); }

  const YAML::Mark& begin() const { return begin_; }

 private:
  struct Collection {
    bool is_map = false, is_value_next = false;
    std::map<std::string, YAML::Mark> keys;
  };

  void node(const YAML::Mark& mark, const std::string* text) {
    if (open_.empty() || !open_.back().is_map) return;
    Collection& map = open_.back();
    map.is_value_next = !map.is_value_next;
    if (!map.is_value_next || !text) return;
    const auto [known, is_first] = map.keys.emplace(*text, mark);
    if (is_first) return;
    const bool is_one_line = known->second.line == mark.line;
    throw ImportError((is_one_line
                           ? "line " + line_of(mark) + " sets"
                           : "lines " + line_of(known->second) + " and " + line_of(mark) + " both set") +
                      " '" + *text + "'" + (is_one_line ? " twice" : "") +
                      ", and Accelerate takes the last: remove the other");
  }

  std::vector<Collection> open_;
  YAML::Mark begin_;
};

void check(const std::string& text) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  KeyWatch first, second;
  if (parser.HandleNextDocument(first) && parser.HandleNextDocument(second))
    throw ImportError("line " + line_of(second.begin()) +
                      ": a second document begins here, and Accelerate reads only one: put the one to import "
                      "into a file of its own");
}

}  // namespace

void explaining_yaml_errors(const std::function<void()>& read) {
  constexpr const char* kNoText =
      "a key or a value is a list or a mapping where Accelerate's config has text";
  try {
    read();
  } catch (const YAML::DeepRecursion&) {  // yaml-cpp's own limit, which it words as "bad file"
    throw ImportError("it nests lists and mappings deeper than any config of Accelerate's");
  } catch (const YAML::RepresentationException& error) {  // a key that is a list, or a missing value
    throw ImportError(error.mark.is_null() ? std::string(kNoText)
                                           : "line " + line_of(error.mark) + ": " + kNoText);
  } catch (const YAML::Exception& error) {
    throw ImportError("line " + line_of(error.mark) + ": not valid YAML: " + error.msg);
  }
}

YAML::Node accelerate_yaml(const std::string& text) {
  YAML::Node root;
  explaining_yaml_errors([&] { root = YAML::Load(text); });
  if (!root.IsMap()) throw ImportError("it is not a config of Accelerate's, which maps keys to values");
  explaining_yaml_errors([&] { check(text); });
  return root;
}

std::string text_of(const YAML::Node& node) { return node.IsScalar() ? node.Scalar() : YAML::Dump(node); }

std::optional<bool> boolean_of(const YAML::Node& node) {
  static const std::map<std::string, bool> kWords = {
      {"yes", true},  {"Yes", true},  {"YES", true},  {"no", false},    {"No", false},    {"NO", false},
      {"true", true}, {"True", true}, {"TRUE", true}, {"false", false}, {"False", false}, {"FALSE", false},
      {"on", true},   {"On", true},   {"ON", true},   {"off", false},   {"Off", false},   {"OFF", false}};
  if (!node.IsScalar()) return std::nullopt;
  const auto known = kWords.find(node.Scalar());
  return known == kWords.end() ? std::nullopt : std::optional(known->second);
}

bool is_off(const YAML::Node& node) { return boolean_of(node) == false; }

std::string value_of(const YAML::Node& node) {
  const std::string text = text_of(node);
  const bool is_plain = node.Tag() == "?";  // not in quotation marks
  const auto boolean = boolean_of(node);
  if (boolean && (is_plain || text == "True" || text == "False")) return *boolean ? "true" : "false";
  return text;
}

bool is_nothing(const YAML::Node& node) {
  return node.IsNull() || ((node.IsMap() || node.IsSequence()) && node.size() == 0) ||
         (node.IsScalar() && (node.Scalar().empty() || node.Scalar() == "null"));
}

}  // namespace hookline
