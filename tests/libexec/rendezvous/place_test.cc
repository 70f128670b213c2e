#include "libexec/rendezvous/place.h"

#include <gtest/gtest.h>

namespace hookline {
namespace {

TEST(RelayPlace, IsReadFromWhatTheLauncherWrites) {
  const RelayPlace place = place_of(
      R"({"alone": false, "serves": true, "may_join": false, "address": "10.0.0.7", "name": "node7", "port": 29500, "node": "a",
          "descriptor": 5, "ticket": "a token", "join_seconds": 1.5, "node_timeout_seconds": 30})");
  EXPECT_FALSE(place.alone);
  EXPECT_TRUE(place.serves);
  EXPECT_FALSE(place.may_join);
  EXPECT_EQ(place.address_and_port(), "10.0.0.7:29500");
  EXPECT_EQ(place.name, "node7");
  EXPECT_EQ(place.node, "a");
  EXPECT_EQ(place.descriptor, 5);
  EXPECT_EQ(place.ticket, "a token");
  EXPECT_EQ(place.join_timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(place.node_timeout, std::chrono::seconds(30));
}

TEST(RelayPlace, IsRefusedIfIncomplete) { EXPECT_ANY_THROW(place_of(R"({"serves": true})")); }

}  // namespace
}  // namespace hookline
