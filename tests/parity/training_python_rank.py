"""Python's half of the training parity test: one rank of torch's DistributedDataParallel, through all cases.

Usage: training_python_rank.py DIR RANK
"""

import os
import pathlib
import sys

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from python_hooks import register
from training_cases import BATCH_SIZE, CASES, LEARNING_RATE, RANKS, SIZES, STEPS

bytes_sent = 0


def count_all_reduces():
    """The hooks reduce through dist.all_reduce, looked up at each call."""
    all_reduce = dist.all_reduce

    def counted(tensor, *arguments, **keywords):
        global bytes_sent
        bytes_sent += tensor.numel() * tensor.element_size()
        return all_reduce(tensor, *arguments, **keywords)

    dist.all_reduce = counted


def network():
    layers = []
    for fan_in, fan_out in zip(SIZES, SIZES[1:]):
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


def train(case, rank, initial, inputs, targets):
    global bytes_sent
    bytes_sent = 0
    net = network()
    if rank == 0:
        # A copy, since the parameters become views of the vector.
        torch.nn.utils.vector_to_parameters(initial.clone(), net.parameters())
    ddp = DistributedDataParallel(net)
    register(ddp, case)
    sgd = torch.optim.SGD(net.parameters(), LEARNING_RATE)
    for x, y in zip(inputs[: case.steps], targets):
        sgd.zero_grad()
        torch.nn.functional.mse_loss(ddp(x), y).backward()
        sgd.step()
    final = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
    if case.hook == "no":  # the Reducer's own collective can't be counted from here
        bytes_sent = case.steps * final.numel() * final.element_size()
    return final


def main():
    folder, rank = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    count_all_reduces()

    def read(name, *shape):
        return torch.from_numpy(numpy.fromfile(folder / name, dtype=numpy.float32)).view(*shape)

    initial = read("initial.bin", -1)
    inputs = read(f"inputs{rank}.bin", STEPS, BATCH_SIZE, SIZES[0])
    targets = read(f"targets{rank}.bin", STEPS, BATCH_SIZE, SIZES[-1])
    for index, case in enumerate(CASES):
        train(case, rank, initial, inputs, targets).numpy().tofile(folder / f"python{index}.{rank}.bin")
        (folder / f"python{index}.{rank}.txt").write_text(str(bytes_sent))
    dist.barrier()
    dist.destroy_process_group()
    # Skips the interpreter's finalization, in which a Gloo thread that still releases a hook's callback would abort.
    os._exit(0)


if __name__ == "__main__":
    main()
