"""examples/digits in Python: the same network, data, schedule and number of ranks in torch's DistributedDataParallel.

Usage: torchrun --nproc-per-node 2 digits.py DIGITS_CSV
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH, LEARNING_RATE, MOMENTUM, SEED = 10, 32, 0.1, 0.9, 5


def read(file, is_test):
    with open(file, encoding="ascii") as lines:
        rows = [[int(value) for value in line.split(",")] for i, line in enumerate(lines) if (i % 5 == 0) == is_test]
    table = torch.tensor(rows)
    return TensorDataset(table[:, :64].float().reshape(-1, 1, 8, 8) / 16, table[:, 64])


def network():
    """The network of examples/digits/net.h."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
        nn.LogSoftmax(1),
    )


def main():
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("gloo")
    torch.manual_seed(SEED)
    train_set, test_set = read(sys.argv[1], False), read(sys.argv[1], True)
    model = DistributedDataParallel(network())
    sgd = torch.optim.SGD(model.parameters(), LEARNING_RATE, momentum=MOMENTUM)
    sampler = DistributedSampler(train_set, seed=SEED)
    loader = DataLoader(train_set, batch_size=BATCH, sampler=sampler)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        sgd.param_groups[0]["lr"] = LEARNING_RATE * (1 - epoch / EPOCHS)
        losses = []
        for images, labels in loader:
            loss = nn.functional.nll_loss(model(images), labels)
            loss.backward()
            sgd.step()
            sgd.zero_grad()
            losses.append(loss.detach())
        mean = torch.stack(losses).mean()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1:2}  loss {mean.item() / dist.get_world_size():.4f}", flush=True)
    images, labels = test_set.tensors
    with torch.no_grad():
        mine = slice(dist.get_rank(), None, dist.get_world_size())
        right = (model(images[mine]).argmax(1) == labels[mine]).sum()
    dist.all_reduce(right)
    if dist.get_rank() == 0:
        print(f"test accuracy {100 * right.item() / len(test_set):.2f} %", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
