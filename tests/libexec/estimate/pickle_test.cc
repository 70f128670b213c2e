#include "libexec/estimate/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "pickled.h"

namespace hookline {
namespace {

using testing::pickled::tensor;
using testing::pickled::text;

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kStart = "\x80\x02";
const std::string kStateDict = "ccollections\nOrderedDict\n)Rq" + std::string(1, '\0') + "(" +
                               text("weight") + tensor("FloatStorage", "\x03\x04") + text("bias") +
                               tensor("HalfStorage", "\x03", "1") + text("steps") +
                               tensor("LongStorage", "\x07", "2") + "u}" + text("_metadata") + "}sb";

TEST(Pickle, GivesTheShapesOfAStateDict) {
  EXPECT_THAT(parameter_shapes(read_pickle(kStart + kStateDict + ".")),
              ElementsAre(std::vector<std::int64_t>{3, 4}, std::vector<std::int64_t>{3}));
}

TEST(Pickle, CountsOnlyTheModelOfACheckpoint) {
  const std::string checkpoint = kStart + "}(" + text("model_state_dict") + kStateDict + text("optimizer") +
                                 "}" + text("state") + tensor("FloatStorage", "\x09") + "su.";
  EXPECT_EQ(parameter_shapes(read_pickle(checkpoint)).size(), 2u);
}

TEST(Pickle, SkipsNonParameters) {
  // An optimizer's state, whatever name the model has.
  const std::string adam = "}(" + text("state") + "}" + text("moment") + tensor("FloatStorage", "\x09", "7") +
                           "s" + text("param_groups") + "]u";
  const std::string named = kStart + "}(" + text("net") + kStateDict + text("optimizer") + adam + "u.";
  EXPECT_EQ(parameter_shapes(read_pickle(named)).size(), 2u);
  EXPECT_THAT(parameter_shapes(read_pickle(kStart + adam + ".")), IsEmpty());
  // Running statistics, and all buffers of a pickled module.
  const std::string statistics = kStart + "}(" + text("norm.weight") + tensor("FloatStorage", "\x05", "1") +
                                 text("norm.running_mean") + tensor("FloatStorage", "\x05", "2") + "u.";
  EXPECT_EQ(parameter_shapes(read_pickle(statistics)).size(), 1u);
  const std::string module = kStart + "cmodule\nNet\n)\x81}(" + text("_parameters") + "}" + text("weight") +
                             tensor("FloatStorage", "\x06", "1") + "s" + text("_buffers") + "}" +
                             text("mask") + tensor("FloatStorage", "\x06", "2") + "s" + text("_modules") +
                             "}ub.";
  EXPECT_THAT(parameter_shapes(read_pickle(module)), ElementsAre(std::vector<std::int64_t>{6}));
}

TEST(Pickle, CountsTiedWeightsOnce) {
  const std::string tied = kStart + "}(" + text("embedding") + tensor("FloatStorage", "\x04\x05", "3") +
                           text("head") + tensor("FloatStorage", "\x04\x05", "3") + "u.";
  EXPECT_EQ(parameter_shapes(read_pickle(tied)).size(), 1u);
}

TEST(Pickle, CountsASharedTensorOnce) {
  const std::string shared = kStart + "(" + tensor("FloatStorage", "\x02\x02") + "q" + std::string(1, '\0') +
                             "h" + std::string(1, '\0') + "t.";
  EXPECT_EQ(parameter_shapes(read_pickle(shared)).size(), 1u);
  // A list that contains itself: reading it still terminates.
  EXPECT_THAT(
      parameter_shapes(read_pickle(kStart + "]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a.")),
      IsEmpty());
}

TEST(Pickle, ReadsNumbersOfEverySize) {
  const auto number = [](const std::string& bytes) { return read_pickle(kStart + bytes + ".").root->number; };
  EXPECT_EQ(number("K\xff"), 255);
  EXPECT_EQ(number("M\x01\x02"), 0x201);
  EXPECT_EQ(number("J\xfe\xff\xff\xff"), -2);
  EXPECT_EQ(number(std::string("\x8a\x05\x00\x00\x00\x00\x01", 7)), std::int64_t{1} << 32);
  EXPECT_EQ(number("\x8a\x01\xff"), -1);
  EXPECT_EQ(number(std::string("\x8a\x00", 2)), 0);
}

TEST(Pickle, RefusesTruncationAtEveryByte) {
  const std::string whole = kStart + kStateDict + ".";
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(read_pickle(whole.substr(0, length)), PickleError) << length;
}

TEST(Pickle, SurvivesTenThousandMutations) {
  const std::string whole = kStart + kStateDict + ".";
  std::mt19937 random(7);
  int read = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string mutated = whole;
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes)
      mutated[random() % mutated.size()] = static_cast<char>(random());
    try {
      parameter_shapes(read_pickle(mutated));
      ++read;
    } catch (const PickleError&) {
    }
  }
  EXPECT_GT(read, 100) << "a pickle with a changed name or number is still valid";
}

std::string problem_of(const std::string& pickle) {
  try {
    parameter_shapes(read_pickle(kStart + pickle + "."));
  } catch (const PickleError& error) {
    return error.what();
  }
  return "none";
}

/// A tensor whose sizes are given as pickle instructions.
std::string tensor_of_sizes(const std::string& sizes) {
  std::string text = tensor("FloatStorage", "\x07");
  text.replace(text.find("(K\x07t"), 4, "(" + sizes + "t");
  return text;
}

TEST(Pickle, RefusesImpossibleTensorSizes) {
  const std::string huge("\x8a\x08\0\0\0\0\0\0\0\x40", 10);  // 2^62
  const std::string longer("\x8a\x09\0\0\0\0\0\0\0\0\x01", 11);
  const std::string too_many =
      "it holds a tensor of more elements than any machine holds (2^50 are the most)";
  EXPECT_EQ(problem_of(tensor_of_sizes("K\x07")), "none");
  EXPECT_EQ(problem_of(tensor_of_sizes(huge + "K\x04")), too_many);
  EXPECT_EQ(problem_of(tensor_of_sizes("K" + std::string(1, '\0') + huge)), too_many) << "0 hides nothing";
  EXPECT_EQ(problem_of(tensor_of_sizes(longer)), too_many) << "2^64, whose low eight bytes are 0";
  EXPECT_EQ(problem_of(tensor_of_sizes("J\xfb\xff\xff\xffK\x07")),
            "it holds a tensor with a size of -5, and a size is 0 or more");
  EXPECT_EQ(problem_of(tensor_of_sizes(text("five"))), "it holds a tensor with a size that is not a number");
  std::string many;
  for (int i = 0; i < 65; ++i) many += "K\x01";
  EXPECT_EQ(problem_of(tensor_of_sizes(many)),
            "it holds a tensor of 65 dimensions, and a tensor has at most 64");
}

TEST(Pickle, RefusesSmallPicklesThatExpandWithoutBound) {
  const std::string too_much =
      "reading it takes more than 256 MiB of memory, and no list of a model's tensors needs as much: it is "
      "damaged, or it holds more than a model";
  std::string doubled = text("names");
  for (int i = 0; i < 40; ++i) doubled += "2\x93";
  EXPECT_EQ(problem_of(doubled), too_much) << "each instruction doubles a text";
  // Many storages that share one long type name.
  const std::string name(100'000, 'x');
  std::string storages =
      "(" + text("storage") + "c" + name + "\nm\n" + text("0") + "tq" + std::string(1, '\0');
  for (int i = 0; i < 100'000; ++i) storages += "h" + std::string(1, '\0') + "Q";
  EXPECT_EQ(problem_of(storages), too_much);
  EXPECT_EQ(problem_of(std::string(3'000'000, ']')), too_much);
}

TEST(Pickle, IsNotRecursive) {
  EXPECT_THAT(
      parameter_shapes(read_pickle(kStart + std::string(1'000'000, ']') + std::string(999'999, 'a') + ".")),
      IsEmpty());
}

}  // namespace
}  // namespace hookline
