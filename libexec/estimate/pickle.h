// Reads the dtypes and shapes of the tensors in one of torch's pickles. It builds no tensors and runs no code
// of the pickled classes. Torch-free.
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

/// A value of a pickle, as far as shapes need it. `items` holds what is in tuples and lists, and the
/// arguments from which a class builds an object; `entries` holds the entries of a dict and the attributes of
/// an object.
struct Pickled {
  enum class Kind { other, number, text, tensor, sequence, dictionary, global, object };
  Kind kind = Kind::other;
  std::int64_t number = 0;
  // For a global, its name ("torch._utils._rebuild_tensor_v2"); for an object, its class; for a tensor, the
  // type of its storage ("torch.FloatStorage").
  std::string text;
  std::vector<Pickled*> items;
  std::vector<std::pair<Pickled*, Pickled*>> entries;
  std::vector<std::int64_t> shape;
  std::string storage;  // of a tensor: its storage, and its offset there
};

/// Owns all values of a pickle, which refer to each other, sometimes in a circle.
struct Pickle {
  std::deque<Pickled> values;
  const Pickled* root = nullptr;
};

/// A pickle that takes more memory is refused: no list of a model's tensors needs that much.
inline constexpr std::uint64_t kMostPickleBytes = std::uint64_t{256} << 20;

/// A pickle that is cut off, or a file that is not a pickle.
class PickleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads protocols 2 to 5, as torch.save writes them. Throws PickleError.
Pickle read_pickle(std::string_view bytes);

/// Collects the shapes of floating-point tensors. A tensor with two names, such as tied weights, counts once.
class DistinctShapes {
 public:
  /// Ignores tensors that are not floating-point.
  void add(const Pickled& tensor);
  std::vector<std::vector<std::int64_t>> take() && { return std::move(shapes_); }

 private:
  std::set<std::pair<std::string, std::vector<std::int64_t>>> counted_;
  std::vector<std::vector<std::int64_t>> shapes_;
};

/// The shapes of the floating-point tensors in `saved`: in a state dict, or in the one that a dict has under
/// model_state_dict, state_dict or model. A tensor with two names counts once. It leaves out what optimizers
/// save, and running statistics and other buffers of modules, as far as it can recognize them.
std::vector<std::vector<std::int64_t>> parameter_shapes(const Pickle& saved);

}  // namespace hookline
