#include "libexec/rendezvous/run_keys.h"

#include <gtest/gtest.h>
#include <zmq.h>

#include <string>

namespace hookline {
namespace {

TEST(RunKeys, FollowFromTheSecretAndThePlaceAlone) {
  const RunKeys keys = keys_of("token abc", "node1:1"), same = keys_of("token abc", "node1:1");
  EXPECT_EQ(keys.serving.secret_key, same.serving.secret_key);
  EXPECT_EQ(keys.joining.public_key, same.joining.public_key);
  for (const RunKeys& other : {keys_of("token abd", "node1:1"), keys_of("token abc", "node1:2")}) {
    EXPECT_NE(keys.serving.secret_key, other.serving.secret_key);
    EXPECT_NE(keys.joining.secret_key, other.joining.secret_key);
  }
  EXPECT_NE(keys.serving.secret_key, keys.joining.secret_key);
}

// libzmq derives the same public key, by its own code.
TEST(RunKeys, AreKeyPairsOfCurve) {
  const RunKeys keys = keys_of("token abc", "node1:1");
  for (const KeyPair& pair : {keys.serving, keys.joining}) {
    char secret[41], expected[41], given[41];
    ASSERT_TRUE(zmq_z85_encode(secret, pair.secret_key.data(), pair.secret_key.size()));
    ASSERT_EQ(zmq_curve_public(expected, secret), 0);
    ASSERT_TRUE(zmq_z85_encode(given, pair.public_key.data(), pair.public_key.size()));
    EXPECT_STREQ(given, expected);
  }
}

}  // namespace
}  // namespace hookline
