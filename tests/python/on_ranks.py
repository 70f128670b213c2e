"""For scripts of tests that every rank runs."""

import sys
import unittest

import torch
import torch.distributed as dist

import hookline


class TestCase(unittest.TestCase):
    def expect_error(self, text, call):
        with self.assertRaises(hookline.Error) as caught:
            call()
        self.assertEqual(str(caught.exception), text)


def main(backend="gloo"):
    """Runs the tests of the script that was started."""
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    result = unittest.main(module="__main__", exit=False, verbosity=2 if dist.get_rank() == 0 else 0).result
    dist.barrier()
    dist.destroy_process_group()
    sys.exit(not result.wasSuccessful())
