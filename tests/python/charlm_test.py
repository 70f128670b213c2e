"""The example charlm in Python trains on two ranks, and compresses. usage: charlm_test.py HOOKLINE FOLDER_OF_CHARLM"""

import re
import subprocess
import sys
import tempfile
import unittest

HOOKLINE, CHARLM = sys.argv[1:]


class Charlm(unittest.TestCase):
    def test_trains_with_power_sgd_in_fp16_in_several_buckets(self):
        command = [HOOKLINE, "launch", "--config", f"{CHARLM}/power_sgd.toml", "--comm-wrapper", "fp16"]
        command += [sys.executable, "-u", f"{CHARLM}/train.py", "--epochs", "1", "--stride", "32"]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        epoch = re.search(r"epoch  1  loss ([0-9.]+)  validation ([0-9.]+)", done.stdout)
        self.assertIsNotNone(epoch, done.stdout)
        self.assertLess(float(epoch[1]), 3.2)  # an untrained one has 4.3
        self.assertLess(float(epoch[2]), 3.5)
        found = re.search(
            r"power_sgd\(rank=4, start=20\) in fp16: 4 buckets, sent ([0-9.]+) MB instead of ([0-9.]+) MB", done.stdout
        )
        self.assertIsNotNone(found, done.stdout)
        # Two thirds of the steps travel in fp16, the others in about a twentieth of that.
        self.assertLess(float(found[1]), float(found[2]) * 0.4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
