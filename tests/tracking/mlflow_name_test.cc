// Names of metrics on an MLflow server; servers_test checks that a real one accepts them.
#include "tracking/mlflow_name.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace hookline {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string result;
  while (times-- > 0) result += text;
  return result;
}

TEST(MlflowName, KeepsNamesThatEveryServerAccepts) {
  for (const std::string& name :
       {std::string("loss"), std::string("top-5 accuracy"), std::string("train/loss_2.5"),
        std::string("損失"), std::string("精度"), std::string("größe"), std::string("точность"),
        std::string("R²"), std::string("손실"), std::string("データ"), std::string("a/.../b"),
        std::string(".hidden"), std::string("a/.b/..c"), std::string(250, 'x'), repeated("損", 250)})
    EXPECT_EQ(name_for_mlflow(name), name);
}

TEST(MlflowName, KeepsCollidingNamesDistinct) {
  EXPECT_EQ(name_for_mlflow("top-5 %"), "top-5 _-4cb5e33f");
  EXPECT_EQ(name_for_mlflow("top-5 $"), "top-5 _-bede603c");
  EXPECT_EQ(name_for_mlflow("a:b"), "a_b-99e64889");
  EXPECT_EQ(name_for_mlflow("a_b"), "a_b");
  EXPECT_EQ(name_for_mlflow("loss 😀"), "loss _-e533711e");
  EXPECT_EQ(name_for_mlflow("gr\xf6\xdf"
                            "e"),
            "gr__e-6f37b9b4")
      << "no UTF-8";
  EXPECT_EQ(name_for_mlflow(std::string(251, 'x')), std::string(241, 'x') + "-00466ae5");
  EXPECT_EQ(name_for_mlflow(repeated("損", 251)), repeated("損", 241) + "-fa4403d6");
  std::set<std::string> names;
  for (const char* name :
       {"नमस्ते", "नमस्ता", "\xe0\x80\xaf", "\xed\xa0\x80", "\xc3", "\xc3\xa9\xa9", "é", "e\u0301"})
    names.insert(name_for_mlflow(name));
  EXPECT_EQ(names.size(), 8u);
}

TEST(MlflowName, IsAValidPath) {
  EXPECT_EQ(name_for_mlflow("/train//../a:b/"), "_/train/_/_/a_b/_-1e957077");
  EXPECT_EQ(name_for_mlflow(".."), "_-f6f437a3");
  EXPECT_EQ(name_for_mlflow("..."), "_..-6f55d0cd");
  EXPECT_EQ(name_for_mlflow("..b"), "_.b-636d02a1");
  EXPECT_EQ(name_for_mlflow("./a"), "_/a-639f6922");
  EXPECT_EQ(name_for_mlflow("/a"), "_/a-fa3e8e4c");
  EXPECT_EQ(name_for_mlflow("a/"), "a/_-1cf17859");
  EXPECT_EQ(name_for_mlflow("a/../b"), "a/_/b-b0dcb6c4");
}

}  // namespace
}  // namespace hookline
