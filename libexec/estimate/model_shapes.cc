// The shapes of the parameters in a model file of torch's, for hookline estimate.
//
//     model_shapes FILE
//
// Prints a JSON list of them. The exit code is 2, with a sentence on standard error, for a file that can't be read.
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libexec/estimate/pickle.h"

namespace hookline {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

Shapes shapes_in(const std::string& file) {
  // Both kinds are zip archives. TorchScript, which C++'s torch::save writes too, has its constants apart.
  caffe2::serialize::PyTorchStreamReader archive(file);
  if (!archive.hasRecord("constants.pkl")) {
    // A record is stored in fewer bytes than it has: a megabyte of a file may be gigabytes of memory.
    if (const std::size_t bytes = archive.getRecordSize("data.pkl"); bytes > kMostPickleBytes)
      throw PickleError("its list of tensors has " + std::to_string(bytes >> 20) + " MiB, and the most is " +
                        std::to_string(kMostPickleBytes >> 20) +
                        " MiB: it is damaged, or no model of torch's");
    const auto [bytes, size] = archive.getRecord("data.pkl");
    return parameter_shapes(read_pickle({static_cast<const char*>(bytes.get()), size}));
  }
  Shapes shapes;
  for (const at::Tensor& parameter : torch::jit::load(file, at::kCPU).parameters()) {
    if (parameter.is_floating_point()) shapes.push_back(parameter.sizes().vec());
  }
  return shapes;
}

}  // namespace
}  // namespace hookline

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: model_shapes FILE; hookline estimate starts it\n");
    return 2;
  }
  try {
    std::printf("%s\n", nlohmann::json(hookline::shapes_in(argv[1])).dump().c_str());
    return 0;
  } catch (const c10::Error& error) {
    const std::string why = error.what_without_backtrace();
    std::fprintf(stderr, "%s\n", why.substr(0, why.find('\n')).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 2;
}
