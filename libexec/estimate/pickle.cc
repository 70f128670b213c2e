#include "libexec/estimate/pickle.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/text/bytes_text.h"

namespace hookline {
namespace {

using Kind = Pickled::Kind;
using Value = Pickled*;

constexpr std::size_t kMostDimensions = 64;
constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

/// Limits the memory that a pickle takes. Its size is not a limit, since a few bytes of it can double what
/// has been built.
class Budget {
 public:
  void spend(std::uint64_t bytes) {
    if (bytes > left_)
      throw PickleError(
          "reading it takes more than " + binary_bytes_text(kMostPickleBytes) +
          " of memory, and no list of a model's tensors needs as much: it is damaged, or it holds "
          "more than a model");
    left_ -= bytes;
  }

 private:
  std::uint64_t left_ = kMostPickleBytes;
};

/// The virtual machine that runs a pickle, which is a program. Source: Lib/pickletools.py of CPython.
class Machine {
 public:
  explicit Machine(std::string_view bytes) : left_(bytes) {}

  Pickle run() {
    while (true) {
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') break;
      step(code);
    }
    made_.root = pop();
    return std::move(made_);
  }

 private:
  Value make(Kind kind) {
    budget_.spend(sizeof(Pickled));
    made_.values.emplace_back().kind = kind;
    return &made_.values.back();
  }
  /// One value stands for all of this kind.
  Value other() {
    if (!other_) other_ = make(Kind::other);
    return other_;
  }
  Value make_text(Kind kind, std::string text) {
    budget_.spend(text.size());
    const Value value = make(kind);
    value->text = std::move(text);
    return value;
  }
  Value make_number(std::int64_t number) {
    const Value value = make(Kind::number);
    value->number = number;
    return value;
  }

  void step(unsigned char code) {
    switch (code) {
      case 0x80:  // PROTO
        take(1);
        break;
      case 0x95:  // FRAME
        take(8);
        break;
      case '(':
        budget_.spend(2 * sizeof(std::size_t));
        marks_.push_back(stack_.size());
        break;
      case '0':
        pop();
        break;
      case '1':
        pop_to_mark();
        break;
      case '2':
        push(top());
        break;
      case 'N':
        push(other());
        break;
      case 0x88:  // NEWTRUE
        push(make_number(1));
        break;
      case 0x89:  // NEWFALSE
        push(make_number(0));
        break;
      case 'K':
        push(make_number(static_cast<std::int64_t>(number(1))));
        break;
      case 'M':
        push(make_number(static_cast<std::int64_t>(number(2))));
        break;
      case 'J':
        push(make_number(static_cast<std::int32_t>(number(4))));
        break;
      case 0x8a:  // LONG1
        push(make_number(long_number(number(1))));
        break;
      case 'G':
        take(8);
        push(other());
        break;
      case 0x8c:  // SHORT_BINUNICODE
        push(make_text(Kind::text, std::string(take(number(1)))));
        break;
      case 'X':  // BINUNICODE
        push(make_text(Kind::text, std::string(take(number(4)))));
        break;
      case 0x8d:  // BINUNICODE8
        push(make_text(Kind::text, std::string(take(number(8)))));
        break;
      case 'U':  // SHORT_BINSTRING
      case 'C':  // SHORT_BINBYTES
        take(number(1));
        push(other());
        break;
      case 'T':  // BINSTRING
      case 'B':  // BINBYTES
        take(number(4));
        push(other());
        break;
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        take(number(8));
        push(other());
        break;
      case '}':
        push(make(Kind::dictionary));
        break;
      case ']':
      case ')':
      case 0x8f:  // EMPTY_SET
        push(make(Kind::sequence));
        break;
      case 't':
      case 'l':
      case 0x91:  // FROZENSET
        push_sequence(pop_to_mark());
        break;
      case 0x85:  // TUPLE1 to TUPLE3
      case 0x86:
      case 0x87:
        push_sequence(pop_several(code - 0x84u));
        break;
      case 'd':
        push(make(Kind::dictionary));
        add_entries(*top(), pop_below_top());
        break;
      case 'a': {
        const Value item = pop();
        add_items(*top(), {item});
        break;
      }
      case 'e':
      case 0x90: {  // ADDITEMS
        const std::vector<Value> items = pop_to_mark();
        add_items(*top(), items);
        break;
      }
      case 's': {
        const std::vector<Value> both = pop_several(2);
        add_entries(*top(), both);
        break;
      }
      case 'u': {
        const std::vector<Value> items = pop_to_mark();
        add_entries(*top(), items);
        break;
      }
      case 'q':
        memo(number(1));
        break;
      case 'r':
        memo(number(4));
        break;
      case 0x94:  // MEMOIZE
        memo(memo_.size());
        break;
      case 'h':
        push(remembered(number(1)));
        break;
      case 'j':
        push(remembered(number(4)));
        break;
      case 'c': {
        const std::string module = line();
        push(make_text(Kind::global, module + "." + line()));
        break;
      }
      case 0x93: {  // STACK_GLOBAL
        const std::vector<Value> names = pop_several(2);
        budget_.spend(names[0]->text.size() + names[1]->text.size());
        push(make_text(Kind::global, names[0]->text + "." + names[1]->text));
        break;
      }
      case 'Q': {  // BINPERSID: torch's ('storage', type, key, device, number of elements)
        const Value id = pop();
        const Value storage = make(Kind::other);
        if (id->items.size() > 2) {
          budget_.spend(id->items[1]->text.size() + id->items[2]->text.size());
          storage->text = id->items[1]->text;
          storage->storage = id->items[2]->text;
        }
        push(storage);
        break;
      }
      case 'R':
      case 0x81: {  // NEWOBJ
        const std::vector<Value> both = pop_several(2);
        push(built(*both[0], both[1]));
        break;
      }
      case 0x92: {  // NEWOBJ_EX
        const std::vector<Value> parts = pop_several(3);
        push(built(*parts[0], parts[1]));
        break;
      }
      case 'b': {
        const Value state = pop();
        // The state of an OrderedDict, besides its entries, is ignored.
        if (top()->kind == Kind::object) add_items(*top(), {state});
        break;
      }
      default:
        throw PickleError("it holds an instruction (" + std::to_string(code) +
                          ") that torch.save does not write");
    }
  }

  /// The object that a call of `global` with `arguments` makes.
  Value built(const Pickled& global, Value arguments) {
    const std::vector<Value>& given = arguments->items;
    if (global.text == "collections.OrderedDict" || global.text == "collections.defaultdict")
      return make(Kind::dictionary);
    if (global.text == "torch._utils._rebuild_parameter" && !given.empty()) return given[0];
    // storage, offset, size, stride, …
    if (global.text.starts_with("torch._utils._rebuild_tensor") && given.size() > 2) {
      budget_.spend(given[0]->storage.size());
      const Value tensor = make_text(Kind::tensor, given[0]->text);
      tensor->storage = given[0]->storage + "@" + std::to_string(given[1]->number);
      tensor->shape = shape_of(*given[2]);
      return tensor;
    }
    const Value object = make_text(Kind::object, global.text);
    object->items.push_back(arguments);
    return object;
  }

  /// The shape in `sizes`. Throws PickleError if it is not one, or if no machine could hold such a tensor.
  std::vector<std::int64_t> shape_of(const Pickled& sizes) {
    if (sizes.kind != Kind::sequence) throw PickleError("it holds a tensor without sizes");
    if (sizes.items.size() > kMostDimensions)
      throw PickleError("it holds a tensor of " + std::to_string(sizes.items.size()) +
                        " dimensions, and a tensor has at most " + std::to_string(kMostDimensions));
    budget_.spend(sizes.items.size() * sizeof(std::int64_t));
    std::vector<std::int64_t> shape;
    std::int64_t elements = 1;
    for (const Value size : sizes.items) {
      if (size->kind != Kind::number) throw PickleError("it holds a tensor with a size that is not a number");
      if (size->number < 0)
        throw PickleError("it holds a tensor with a size of " + std::to_string(size->number) +
                          ", and a size is 0 or more");
      // A size of 0 counts as 1 here: it would hide an overflow of the others.
      if (__builtin_mul_overflow(elements, std::max<std::int64_t>(size->number, 1), &elements) ||
          elements > kMostElements)
        throw PickleError("it holds a tensor of more elements than any machine holds (2^50 are the most)");
      shape.push_back(size->number);
    }
    return shape;
  }

  std::string_view take(std::uint64_t count) {
    if (count > left_.size()) throw PickleError("it is cut off");
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  /// Reads a little-endian number of so many bytes.
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t result = 0;
    const std::string_view taken = take(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      result |= static_cast<std::uint64_t>(static_cast<unsigned char>(taken[i])) << (8 * i);
    return result;
  }

  /// Reads a two's complement number of `bytes` bytes. If it does not fit into 64 bits, returns the nearest
  /// that does.
  std::int64_t long_number(std::uint64_t bytes) {
    const std::string_view taken = take(bytes);
    const bool is_negative = !taken.empty() && (taken.back() & 0x80);
    std::uint64_t result = is_negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = 7; i + 1 < taken.size(); ++i) {
      const bool fits =
          taken[i + 1] == (is_negative ? '\xff' : '\0') && static_cast<bool>(taken[7] & 0x80) == is_negative;
      if (!fits)
        return is_negative ? std::numeric_limits<std::int64_t>::min()
                           : std::numeric_limits<std::int64_t>::max();
    }
    for (std::size_t i = std::min<std::size_t>(taken.size(), 8); i-- > 0;)
      result = (result << 8) | static_cast<unsigned char>(taken[i]);
    return static_cast<std::int64_t>(result);
  }

  std::string line() {
    const std::size_t end = left_.find('\n');
    if (end == left_.npos) throw PickleError("it is cut off");
    const std::string_view taken = take(end + 1);
    return std::string(taken.substr(0, end));
  }

  void push(Value value) {
    if (stack_.size() == stack_.capacity()) budget_.spend(2 * sizeof(Value) * (stack_.size() + 1));
    stack_.push_back(value);
  }
  void push_sequence(std::vector<Value> items) {
    budget_.spend(sizeof(Value) * items.size());
    const Value value = make(Kind::sequence);
    value->items = std::move(items);
    push(value);
  }
  Value top() const {
    if (stack_.empty()) throw PickleError("it takes from an empty stack");
    return stack_.back();
  }
  Value pop() {
    const Value value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<Value> pop_several(std::size_t count) {
    if (stack_.size() < count) throw PickleError("it takes from an empty stack");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Value> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    return values;
  }
  std::vector<Value> pop_to_mark() {
    if (marks_.empty() || marks_.back() > stack_.size())
      throw PickleError("it goes back to a mark that is not there");
    const std::size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return pop_several(count);
  }
  /// Pops the values between the mark and the top. The top stays.
  std::vector<Value> pop_below_top() {
    const Value kept = pop();
    std::vector<Value> values = pop_to_mark();
    push(kept);
    return values;
  }

  void add_items(Pickled& list, const std::vector<Value>& values) {
    budget_.spend(2 * sizeof(Value) * values.size());  // a vector that grows has up to twice what it needs
    list.items.insert(list.items.end(), values.begin(), values.end());
  }

  /// Adds entries from alternating keys and values.
  void add_entries(Pickled& dictionary, const std::vector<Value>& values) {
    if (values.size() % 2) throw PickleError("it holds a key without a value");
    budget_.spend(2 * sizeof(Value) * values.size());
    for (std::size_t i = 0; i < values.size(); i += 2)
      dictionary.entries.emplace_back(values[i], values[i + 1]);
  }

  void memo(std::uint64_t index) {
    if (index > memo_.size()) throw PickleError("it skips an index of its memo");
    if (index == memo_.size()) {
      budget_.spend(2 * sizeof(Value));
      memo_.push_back(nullptr);
    }
    memo_[index] = top();
  }
  Value remembered(std::uint64_t index) const {
    if (index >= memo_.size()) throw PickleError("it asks for what its memo does not have");
    return memo_[index];
  }

  std::string_view left_;
  Budget budget_;
  Pickle made_;
  Value other_ = nullptr;
  std::vector<Value> stack_, memo_;
  std::vector<std::size_t> marks_;
};

bool is_floating_point(const std::string& storage) {
  static constexpr std::array kTypes = {"FloatStorage", "HalfStorage", "BFloat16Storage", "DoubleStorage"};
  for (const char* type : kTypes)
    if (storage == std::string("torch.") + type) return true;
  return false;
}

const Pickled* entry(const Pickled& dictionary, std::string_view name) {
  for (const auto& [key, value] : dictionary.entries)
    if (key->text == name) return value;
  return nullptr;
}

/// True for what Optimizer.state_dict() returns.
bool is_of_optimizer(const Pickled& value) { return entry(value, "state") && entry(value, "param_groups"); }

bool is_statistic(std::string_view name) {
  return name.ends_with("running_mean") || name.ends_with("running_var");
}

/// The parts of `value` that may hold parameters, from the last to the first: of a module, only its
/// parameters and its submodules.
std::vector<const Pickled*> inside(const Pickled& value) {
  std::vector<const Pickled*> parts;
  if (is_of_optimizer(value)) return parts;
  if (const Pickled* modules = entry(value, "_modules"); modules && entry(value, "_parameters"))
    return {modules, entry(value, "_parameters")};
  for (auto each = value.entries.rbegin(); each != value.entries.rend(); ++each)
    if (!is_statistic(each->first->text)) parts.push_back(each->second);
  parts.insert(parts.end(), value.items.rbegin(), value.items.rend());
  return parts;
}

}  // namespace

Pickle read_pickle(std::string_view bytes) { return Machine(bytes).run(); }

void DistinctShapes::add(const Pickled& tensor) {
  if (is_floating_point(tensor.text) && counted_.emplace(tensor.storage, tensor.shape).second)
    shapes_.push_back(tensor.shape);
}

std::vector<std::vector<std::int64_t>> parameter_shapes(const Pickle& saved) {
  const Pickled* model = saved.root;
  for (const char* name : {"model", "state_dict", "model_state_dict"}) {
    if (const Pickled* named = entry(*saved.root, name); named && !named->entries.empty()) model = named;
  }
  DistinctShapes shapes;
  std::set<const Pickled*> seen;
  std::vector<const Pickled*> left = {model};
  while (!left.empty()) {
    const Pickled* const value = left.back();
    left.pop_back();
    if (!seen.insert(value).second) continue;
    if (value->kind == Kind::tensor) shapes.add(*value);
    const std::vector<const Pickled*> parts = inside(*value);
    left.insert(left.end(), parts.begin(), parts.end());
  }
  return std::move(shapes).take();
}

}  // namespace hookline
