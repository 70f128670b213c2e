"""Runs the unit tests of the script that is started, on this rank."""

import sys
import unittest

import torch
import torch.distributed as dist


def main(backend="gloo"):
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    result = unittest.main(module="__main__", exit=False, verbosity=2 if dist.get_rank() == 0 else 0).result
    dist.barrier()
    dist.destroy_process_group()
    sys.exit(not result.wasSuccessful())
