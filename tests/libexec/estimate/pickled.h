// Fragments of pickles as torch writes them.
#pragma once

#include <string>

namespace hookline::testing::pickled {

/// A pickled string of less than 256 bytes.
inline std::string text(const std::string& word) {
  return "X" + std::string(1, static_cast<char>(word.size())) + std::string(3, '\0') + word;
}

/// A tensor as torch.save and TorchScript write it; each size is below 256.
inline std::string tensor(const std::string& storage, const std::string& sizes,
                          const std::string& key = "0") {
  std::string shape = "(";
  for (const char size : sizes) shape += std::string("K") + size;
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + storage + "\n" + text(key) +
         text("cpu") + "K\x0atQK" + std::string(1, '\0') + shape + "t" + shape + "t\x89" +
         "ccollections\nOrderedDict\n)RtR";
}

}  // namespace hookline::testing::pickled
