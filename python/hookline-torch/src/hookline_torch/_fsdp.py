"""Hooks for FullyShardedDataParallel and for modules that fully_shard has sharded."""

from __future__ import annotations

import sys
from typing import Any, Sequence

import torch
import torch.distributed as dist

from hookline_torch import _C, _sent

_WIRE = {"fp16": torch.float16, "bf16": torch.bfloat16}


class _Counter:
    def __init__(self) -> None:
        self.bytes = 0

    def total(self) -> int:
        return self.bytes


class ShardedHook:
    """A communication hook that is registered with a sharded model. `register` and `apply` return it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._wire = _WIRE[name]
        self._sent = _Counter()
        _sent.count(self, self._sent.total)

    def __repr__(self) -> str:
        return f"<hookline hook {self.name}>"

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank has sent of gradients so far. Where gradients are sharded, they count as half of what
        an all-reduce would send."""
        return self._sent.bytes

    def _count(self, sent: torch.Tensor, part_of_all_reduce: int) -> None:
        self._sent.bytes += sent.numel() * sent.element_size() // part_of_all_reduce

    def _scatter(
        self, output: torch.Tensor, gradient: torch.Tensor, group: dist.ProcessGroup, divisor: float
    ) -> None:
        """Fills `output`, [n], with this rank's part of the sum of all ranks' `gradient`, [size · n], divided by
        `divisor`. Gradients travel in the hook's precision.

        Over Gloo, each rank receives the other ranks' parts and sums them itself in float32: Gloo's reduce-scatter
        does not support float16, and sends as much as an all-reduce.
        """
        size = dist.get_world_size(group)
        if _is_over_gloo(group, gradient.device):
            sent = gradient.to(self._wire)
            received = torch.empty_like(sent)
            dist.all_to_all_single(received, sent, group=group)
            output.copy_(received.view(size, -1).sum(0, dtype=torch.float32).div_(divisor))
        else:
            # fully_shard has divided gradients itself if they were in the wire's precision already.
            before = 1 if gradient.dtype == self._wire and divisor == 1 else _divisor_before(size)
            sent = gradient.div(before).to(self._wire)
            received = torch.empty_like(output, dtype=self._wire)
            _reduce_scatter(received, sent, group=group)
            output.copy_(received).div_(divisor / before)
        self._count(sent, 2)

    def _all_reduce(self, gradient: torch.Tensor, group: dist.ProcessGroup) -> None:
        """Averages `gradient` in place."""
        size = dist.get_world_size(group)
        before = _divisor_before(size)
        sent = gradient.div(before).to(self._wire)
        dist.all_reduce(sent, group=group)
        gradient.copy_(sent).div_(size / before)
        self._count(sent, 1)


_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def _is_over_gloo(group: dist.ProcessGroup, device: torch.device) -> bool:
    return group._get_backend(device).name() == "gloo"  # dist.get_backend() may say "cpu:gloo" or "undefined"


def _divisor_before(size: int) -> int:
    """An average is the sum of `size` gradients divided by `size`. Returns the divisor for before the sum, so that no
    sum overflows; what remains of `size` divides the sum. Source:
    torch.distributed.algorithms._comm_hooks.default_hooks.DefaultState."""
    before = 1
    while size % before == 0 and size / before > before:
        before *= 2
    return before


class _ReduceScatter:
    """torch.distributed.fsdp's interface ReduceScatter, for fully_shard."""

    def __init__(self, hook: ShardedHook) -> None:
        self._hook = hook

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> None:
        if op == dist.ReduceOp.AVG:
            divisor = dist.get_world_size(group)
        elif op == dist.ReduceOp.SUM:
            divisor = 1
        else:
            raise _C.Error(
                f"the hook {self._hook.name} sums or averages gradients, and fully_shard asks for {op}: leave "
                "set_gradient_divide_factor out"
            )
        self._hook._scatter(output_tensor, input_tensor, group, divisor)


# Without annotations, as PyTorch's own.
def _run(state, gradient, output=None):
    hook, group = state
    if output is None:  # NO_SHARD
        hook._all_reduce(gradient, group)
    else:
        hook._scatter(output, gradient, group, dist.get_world_size(group))


def is_sharded(model: torch.nn.Module) -> bool:
    """Whether `model` is one of FullyShardedDataParallel, or was given to fully_shard."""
    fsdp = sys.modules.get("torch.distributed.fsdp")  # if it was never imported, no model is of it
    return fsdp is not None and isinstance(model, (fsdp.FullyShardedDataParallel, fsdp.FSDPModule))


def register_with_fsdp(
    model: torch.nn.Module, hook: str, wrapper: str, native: bool, options: dict[str, Any]
) -> ShardedHook:
    """`register` for a sharded model."""
    from torch.distributed.fsdp import FSDPModule

    if hook not in _WIRE or wrapper != "no":
        name = hook if wrapper == "no" else f"{hook} in {wrapper}"
        raise _C.Error(f"a sharded model takes the hooks fp16 and bf16, not {name}: the others need whole gradients")
    if native:
        raise _C.Error("a sharded model calls its hook from Python: leave native=True out")
    if options:
        raise _C.Error(f"{hook}: unknown option '{next(iter(options))}': it has none")
    if getattr(model, "_hookline_hook", None) is not None:
        raise _C.Error("the model has a communication hook already: a second can't be registered")
    result = ShardedHook(hook)
    if isinstance(model, FSDPModule):
        modules = [each for each in model.modules() if isinstance(each, FSDPModule)]
        for each in modules:
            _expect_fit(each)
        for each in modules:
            each.set_custom_reduce_scatter(_ReduceScatter(result))
    else:
        _register_with_wrapper(model, result)
    model._hookline_hook = result
    return result


def _expect_fit(module: torch.nn.Module) -> None:
    """Raises `Error` unless `module`, which fully_shard has sharded, can take a hook."""
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:  # before torch 2.12 there is one at most
        groups = [state._fsdp_param_group] if state._fsdp_param_group else []
    if len(groups) > 1:
        raise _C.Error(
            f"a module of {type(module).__name__} shards its parameters over several meshes, which leaves no place for "
            "a hook: shard them over one"
        )
    for group in groups:
        if getattr(group.mesh_info, "shard_mesh_size", 1) == 1 and hasattr(group.mesh_info, "replicate_mesh_size"):
            raise _C.Error(
                f"a module of {type(module).__name__} is replicated, not sharded, so there is no reduce-scatter for a "
                "hook: use DistributedDataParallel"
            )
        if type(group._reduce_scatter_comm).__name__ != "DefaultReduceScatter":
            raise _C.Error(
                f"a module of {type(module).__name__} has a reduce-scatter of its own already, which a hook would "
                "replace: register one hook, with the outermost module"
            )


def _register_with_wrapper(model: torch.nn.Module, hook: ShardedHook) -> None:
    units = type(model).fsdp_modules(model)
    if any(each._comm_hook is not None for each in units):
        raise _C.Error("the model has a communication hook already: a second can't be registered")
    if any("HYBRID" in each.sharding_strategy.name for each in units):
        raise _C.Error("FullyShardedDataParallel takes no hook with hybrid sharding: use fully_shard, or another strategy")
    if not model.check_is_root():
        raise _C.Error("this FullyShardedDataParallel is a part of another one: register the hook with the outermost")
    model.register_comm_hook((hook, model.process_group), _run)
    for each in units:  # parts may have groups of their own
        each._comm_hook_state = (hook, each.process_group)
