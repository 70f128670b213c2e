// The parameters of a model as prepare() found them: those that the ranks keep equal.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace hookline {

/// Detects whether the program has replaced a parameter since prepare(): the gradients of the new tensor
/// would not be averaged, and the ranks would drift apart. A tensor that only gets new memory, values or
/// dtype counts as the same.
///
/// A tensor that is assigned to a member without being registered is noticed only in torch's own modules
/// (weight and bias of linear, convolution, normalisation and embedding layers). Not synchronised.
class PreparedParameters {
 public:
  explicit PreparedParameters(std::shared_ptr<torch::nn::Module> module);

  /// Throws Error, which names the parameter, if one was replaced, added or taken out, or requires a gradient
  /// and did not then. Costs a walk through the modules.
  void expect_unchanged();

 private:
  struct Known {
    at::Tensor parameter;  // may be undefined
    bool requires_grad;
    std::string name;
  };
  struct Member {
    std::shared_ptr<torch::nn::Module> module;
    const at::Tensor* tensor;  // in it
    at::Tensor parameter;
    std::string name;
  };
  /// Accepts the same parameters at other places in the module tree, such as under new names, and remembers
  /// those places.
  void expect_same_in_other_places();

  std::shared_ptr<torch::nn::Module> module_;
  std::vector<Known> known_;  // in the order of a walk
  std::vector<Member> members_;
};

}  // namespace hookline
