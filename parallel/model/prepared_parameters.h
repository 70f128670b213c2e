// The parameters of a model as prepare() found them: those that the ranks keep equal.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace hookline {

/// Finds out whether a program has exchanged a parameter since: nobody would average the gradients of another tensor, and the
/// ranks would drift apart. A tensor counts as the same one whatever memory, values or dtype it is given.
///
/// Of a tensor that is assigned to a member, and not registered, it knows only in torch's own modules (weight and bias of linear,
/// convolution, normalisation and embedding layers). Not synchronised.
class PreparedParameters {
 public:
  explicit PreparedParameters(std::shared_ptr<torch::nn::Module> module);

  /// Throws Error, which names the parameter, if one was replaced, added or taken out, or requires a gradient and did not then.
  /// Costs a walk through the modules.
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
  /// Registered under other names too, say, which is no harm: those are known then.
  void expect_same_in_other_places();

  std::shared_ptr<torch::nn::Module> module_;
  std::vector<Known> known_;  // in the order of a walk
  std::vector<Member> members_;
};

}  // namespace hookline
