#include "launcher/cli/advice/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hookline {
namespace {

TEST(AdviceText, HasNoColumnForPredictionsIfThereAreNone) {
  const auto model_with = [](const nlohmann::ordered_json& predicted) {
    nlohmann::ordered_json model = {{"chosen", "fp16"},
                                    {"parameters", 1000},
                                    {"gradient_bytes", 4000},
                                    {"ranks", 2},
                                    {"hosts", 1},
                                    {"backend", "Gloo"},
                                    {"settings", {{{"name", "no hook"}}, {{"name", "fp16"}}}}};
    for (auto& row : model["settings"])
      row.update({{"predicted_seconds", predicted}, {"measured_seconds", 0.002}});
    return nlohmann::ordered_json::array({model});
  };
  EXPECT_EQ(advice_text(model_with(nullptr)),
            "1000 parameters, 4 kB of gradients a step · 2 ranks on 1 host over Gloo\n"
            "  hook                                    measured\n"
            "  no hook                                 2 ms\n"
            "  fp16                                    2 ms         <- best here\n");
  EXPECT_THAT(advice_text(model_with(0.0021)), testing::HasSubstr("predicted    measured\n"));
}

}  // namespace
}  // namespace hookline
