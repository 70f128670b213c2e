"""Python's half of the gradient parity test: one rank, which puts the gradients of all cases through PyTorch's hooks.

Usage: gradient_python_rank.py DIR RANK
"""

import os
import pathlib
import sys

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gradient_cases import CASES, RANKS, SHAPES, STEPS, gradients
from python_hooks import register


class Given(torch.nn.Module):
    """The gradient of its output is what it is given."""

    def __init__(self):
        super().__init__()
        for name, shape in SHAPES.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape)))

    def forward(self, given):
        total = None
        for name, parameter in self.named_parameters():
            term = (parameter * given[name]).sum()
            total = term if total is None else total + term
        return total


def main():
    folder, rank = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    for index, (case, has_zero) in enumerate(CASES):
        model = DistributedDataParallel(Given(), bucket_cap_mb=25)
        register(model, case)
        for step in range(STEPS):
            model.zero_grad()
            model({name: torch.from_numpy(gradients(name, step, rank, has_zero)) for name in SHAPES}).backward()
            if rank == 0:
                result = {name: parameter.grad.numpy() for name, parameter in model.module.named_parameters()}
                numpy.savez(folder / f"python{index}.{step}.npz", **result)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # skips the finalization in which a Gloo thread that releases a hook's callback may abort


if __name__ == "__main__":
    main()
