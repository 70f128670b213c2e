"""Compares hookline's shard_indices with torch.utils.data.DistributedSampler, live.

Usage: sampler_parity.py SAMPLER_INDICES    (the program built from sampler_indices.cc)
"""

import itertools
import subprocess
import sys

from torch.utils.data.distributed import DistributedSampler

SIZES = [1, 2, 3, 7, 10, 64, 100, 1437, 50_000]
WORLD_SIZES = [1, 2, 3, 4, 7, 16]
SEEDS_AND_EPOCHS = [(0, 0), (0, 1), (7, 3), (42, 100), (2**40 + 5, 2)]


def cases():
    grid = itertools.product(SIZES, WORLD_SIZES, [False, True], [False, True], SEEDS_AND_EPOCHS)
    for size, world_size, shuffle, drop_last, (seed, epoch) in grid:
        for rank in sorted({0, world_size // 2, world_size - 1}):
            yield size, rank, world_size, shuffle, drop_last, seed, epoch


def python_indices(size, rank, world_size, shuffle, drop_last, seed, epoch):
    sampler = DistributedSampler(
        range(size), num_replicas=world_size, rank=rank, shuffle=shuffle, seed=seed, drop_last=drop_last
    )
    sampler.set_epoch(epoch)
    return list(sampler)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    grid = list(cases())
    lines = "".join(" ".join(str(int(field)) for field in case) + "\n" for case in grid)
    answer = subprocess.run([sys.argv[1]], input=lines, capture_output=True, text=True, check=True).stdout
    answers = answer.split("\n")[:-1]
    if len(answers) != len(grid):
        sys.exit(f"{len(grid)} cases, but {len(answers)} answers")
    wrong = 0
    for case, line in zip(grid, answers):
        ours = [int(index) for index in line.split()]
        expected = python_indices(*case)
        if ours != expected:
            wrong += 1
            names = "size rank world_size shuffle drop_last seed epoch".split()
            print("differs:", dict(zip(names, case)), "ours", ours[:8], "Python's", expected[:8])
    if wrong:
        sys.exit(f"{wrong} of {len(grid)} cases differ from DistributedSampler")
    print(f"{len(grid)} cases equal DistributedSampler's")


if __name__ == "__main__":
    main()
