"""The training of one of Python's ranks in the parity tests: the network, what it reads, and the steps. `sizes` are the
widths of the layers."""

import dataclasses
import pathlib

import numpy
import torch

from training_cases import BATCH_SIZE, LEARNING_RATE, STEPS


def network(sizes):
    layers = []
    for fan_in, fan_out in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


@dataclasses.dataclass
class Data:
    """The weights that rank 0 starts with, and a rank's batches, one a step."""

    initial: torch.Tensor
    inputs: torch.Tensor
    targets: torch.Tensor

    @classmethod
    def read(cls, folder: pathlib.Path, rank: int, sizes: list[int]):
        def tensor(name, *shape):
            return torch.from_numpy(numpy.fromfile(folder / name, dtype=numpy.float32)).view(*shape)

        return cls(
            tensor("initial.bin", -1),
            tensor(f"inputs{rank}.bin", STEPS, BATCH_SIZE, sizes[0]),
            tensor(f"targets{rank}.bin", STEPS, BATCH_SIZE, sizes[-1]),
        )


def set_weights(net, weights):
    # A copy, since the parameters become views of the vector.
    torch.nn.utils.vector_to_parameters(weights.clone(), net.parameters())


def train(model, data, steps):
    """Trains a DistributedDataParallel model; returns its weights as one tensor."""
    sgd = torch.optim.SGD(model.parameters(), LEARNING_RATE)
    for x, y in zip(data.inputs[:steps], data.targets):
        sgd.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        sgd.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()
