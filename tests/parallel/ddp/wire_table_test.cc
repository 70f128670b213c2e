#include "parallel/model/wire_table.h"

#include <gtest/gtest.h>

namespace hookline {
namespace {

CommunicationStats power_sgd_report() {
  CommunicationStats report;
  report.pipeline = "power_sgd(rank=2, start=10) in fp16";
  report.parameters = 6'300'000;
  report.gradient_bytes = 25'200'000;
  report.steps = 100;
  report.bytes_sent = 252'000'000;
  report.bytes_per_step = 50'000;
  report.first_full_step = 10;
  return report;
}

TEST(WireTable, DescribesAModelsPipelineInOneLine) {
  EXPECT_EQ(
      pipeline_line(power_sgd_report()),
      "power_sgd(rank=2, start=10) in fp16 · 6.3 million parameters · 25.2 MB -> 50 kB a step after step 10");
  CommunicationStats plain;
  plain.pipeline = "no hook";
  plain.parameters = 99'999;
  plain.gradient_bytes = plain.bytes_per_step = 399'996;
  EXPECT_EQ(pipeline_line(plain), "no hook · 99999 parameters · 400 kB -> 400 kB a step");
}

TEST(WireTable, HasARowForEachModel) {
  CommunicationStats silent = power_sgd_report();
  silent.pipeline = "noop";
  silent.bytes_sent = 0;
  EXPECT_EQ(wire_table({power_sgd_report(), silent}),
            "hook                                            steps   uncompressed sent by a rank    ratio\n"
            "power_sgd(rank=2, start=10) in fp16               100        2.52 GB         252 MB     10.0\n"
            "noop                                              100        2.52 GB            0 B        -");
}

TEST(WireTable, IsAsWideAsTheLongestHook) {
  CommunicationStats longest = power_sgd_report();
  longest.pipeline = "power_sgd(rank=2), 25 MiB buckets, chosen by auto, others before";
  const std::string table = wire_table({power_sgd_report(), longest});
  EXPECT_EQ(table.find('\n'), table.find('\n', table.find('\n') + 1) - table.find('\n') - 1) << table;
}

TEST(WireTable, IsEmptyWithoutModels) { EXPECT_EQ(wire_table({}), ""); }

}  // namespace
}  // namespace hookline
