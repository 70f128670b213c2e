"""charlm in Python: the same small transformer, in PyTorch's DistributedDataParallel with a hook of hookline's.

hookline launch --config examples/charlm/power_sgd.toml examples/charlm/train.py --text a_book.txt
"""

import argparse
import pathlib
import time

import hookline
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CONTEXT, WIDTH, HEADS, LAYERS = 128, 128, 4, 4


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.attention = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = torch.nn.Linear(WIDTH, WIDTH)
        self.norm_of_mlp = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.norm(x)).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(*parts, is_causal=True)
        y = x + self.projection(seen.transpose(1, 2).reshape(batch, length, width))
        return y + self.down(gelu(self.up(self.norm_of_mlp(y))))


class Net(torch.nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.token = torch.nn.Embedding(vocabulary, WIDTH)
        self.place = torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Windows(Dataset):
    """Windows of CONTEXT tokens, each with the same window one token later."""

    def __init__(self, tokens, stride):
        self.tokens, self.stride = tokens, stride

    def __len__(self):
        return (len(self.tokens) - CONTEXT - 1) // self.stride + 1

    def __getitem__(self, index):
        start = index * self.stride
        return self.tokens[start : start + CONTEXT], self.tokens[start + 1 : start + CONTEXT + 1]


def loss_of(model, data, target):
    return cross_entropy(model(data).flatten(0, 1), target.flatten())


@torch.no_grad()
def validation_loss(net, windows):
    """The mean over this rank's windows, averaged over the ranks."""
    mine = DataLoader(windows, 16, sampler=DistributedSampler(windows, shuffle=False))
    loss = torch.stack([loss_of(net, *batch) for batch in mine]).mean()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def main():
    parser = argparse.ArgumentParser(description="Trains a small transformer on the characters of a text.")
    parser.add_argument("--text", type=pathlib.Path, default="/usr/share/common-licenses/GPL-3")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--stride", type=int, default=CONTEXT // 8, help="a window begins every so many characters")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(5)
    codes = torch.frombuffer(bytearray(options.text.read_bytes()), dtype=torch.uint8).long()
    alphabet, tokens = codes.unique(return_inverse=True)
    split = len(tokens) - len(tokens) // 10
    training = Windows(tokens[:split], options.stride)
    sampler = DistributedSampler(training)
    loader = DataLoader(training, batch_size=16, sampler=sampler)

    model = DistributedDataParallel(Net(len(alphabet)), bucket_cap_mb=1)  # several buckets
    hook = hookline.apply(model)  # as [ddp] of the config says
    adamw = torch.optim.AdamW(model.parameters(), 0.001)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        start = time.perf_counter()
        for data, target in loader:
            loss = loss_of(model, data, target)
            adamw.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adamw.step()
            hookline.step(loss=loss.item())
        speed = len(loader) * 16 * CONTEXT * dist.get_world_size() / (time.perf_counter() - start)
        validation = validation_loss(model.module, Windows(tokens[split:], CONTEXT))
        hookline.log(validation_loss=validation, tokens_per_second=speed)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1:2}  loss {loss.item():.3f}  validation {validation:.3f}  {speed:.0f} tokens/s")
    if hook and dist.get_rank() == 0:
        whole = options.epochs * len(loader) * sum(4 * each.numel() for each in model.parameters())
        print(
            f"{hook.name}: {len(hook.state_dict()['buckets'])} buckets, sent {hook.bytes_sent / 1e6:.1f} MB instead of "
            f"{whole / 1e6:.1f} MB"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
