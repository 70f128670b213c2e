"""Python's half of the training parity test: one rank of torch's DistributedDataParallel, through all cases.

Usage: training_python_rank.py DIR RANK
"""

import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from python_hooks import register
from rank_training import Data, network, set_weights, train
from training_cases import CASES, RANKS, SIZES

bytes_sent = 0


def count_all_reduces():
    """The hooks reduce through dist.all_reduce, looked up at each call."""
    all_reduce = dist.all_reduce

    def counted(tensor, *arguments, **keywords):
        global bytes_sent
        bytes_sent += tensor.numel() * tensor.element_size()
        return all_reduce(tensor, *arguments, **keywords)

    dist.all_reduce = counted


def train_case(case, rank, data):
    global bytes_sent
    bytes_sent = 0
    net = network(SIZES)
    if rank == 0:
        set_weights(net, data.initial)
    ddp = DistributedDataParallel(net)
    register(ddp, case)
    final = train(ddp, data, case.steps)
    if case.hook == "no":  # the Reducer's own collective can't be counted from here
        bytes_sent = case.steps * final.numel() * final.element_size()
    return final


def main():
    folder, rank = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    count_all_reduces()

    data = Data.read(folder, rank, SIZES)
    for index, case in enumerate(CASES):
        train_case(case, rank, data).numpy().tofile(folder / f"python{index}.{rank}.bin")
        (folder / f"python{index}.{rank}.txt").write_text(str(bytes_sent))
    dist.barrier()
    dist.destroy_process_group()
    # Skips the interpreter's finalization, in which a Gloo thread that still releases a hook's callback would abort.
    os._exit(0)


if __name__ == "__main__":
    main()
