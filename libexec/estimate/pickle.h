// The tensors in a pickle of torch's, by dtype and shape alone: nothing is built, and no code of a class is run. Torch-free.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hookline {

/// What a pickle holds, as far as shapes need it. Tuples, lists and what a class was given to build an object from are
/// `items`; a dict's entries, and an object's attributes, are `entries`.
struct Pickled {
  enum class Kind { other, number, text, tensor, sequence, dictionary, global, object };
  Kind kind = Kind::other;
  std::int64_t number = 0;
  // Of a global "torch._utils._rebuild_tensor_v2"; of an object its class; of a tensor the type of its storage,
  // "torch.FloatStorage".
  std::string text;
  std::vector<Pickled*> items;
  std::vector<std::pair<Pickled*, Pickled*>> entries;
  std::vector<std::int64_t> shape;
  std::string storage;  // of a tensor: which, and where in it
};

/// Values refer to each other, at times in a circle: all live as long as this.
struct Pickle {
  std::deque<Pickled> values;
  const Pickled* root = nullptr;
};

/// A pickle that takes more memory is refused: no list of a model's tensors does.
inline constexpr std::uint64_t kMostPickleBytes = std::uint64_t{256} << 20;

/// A pickle that is cut off, or not one.
class PickleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads protocols 2 to 5, as torch.save writes them. Throws PickleError.
Pickle read_pickle(std::string_view bytes);

/// Shapes of floating-point tensors, each once, though two names may share one: tied weights are one parameter.
class DistinctShapes {
 public:
  /// Of other kinds of numbers it takes no notice.
  void add(const Pickled& tensor);
  std::vector<std::vector<std::int64_t>> take() && { return std::move(shapes_); }

 private:
  std::set<std::pair<std::string, std::vector<std::int64_t>>> counted_;
  std::vector<std::vector<std::int64_t>> shapes_;
};

/// Of the tensors of floating-point numbers in `saved`, each once, though two names may share one: of a state dict, or of
/// the one in a dict under model_state_dict, state_dict or model. Left out are what an optimizer saves, and the running
/// statistics and other buffers of modules, as far as they can be told.
std::vector<std::vector<std::int64_t>> parameter_shapes(const Pickle& saved);

}  // namespace hookline
