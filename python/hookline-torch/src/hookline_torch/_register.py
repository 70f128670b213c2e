"""The functions by which a script registers a hook with its model."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any, Iterable

import torch
from torch.nn.parallel import DistributedDataParallel

from hookline_torch import _C
from hookline_torch._ddp import Hook, Option, register_with_ddp
from hookline_torch._fsdp import ShardedHook, is_sharded, register_with_fsdp

# Keys that this module acts on, or that have no effect in PyTorch either.
_APPLIED = {"ddp.comm_hook", "ddp.comm_wrapper", "ddp.plugins", "ddp.dim", "ddp.check_reduction"}


def hooks() -> list[dict[str, Any]]:
    """The hooks that `register` knows, plug-ins' included: name, summary, options with their defaults, and whether
    fp16 and bf16 may wrap the hook."""
    return _C.hooks()


def register(
    model: torch.nn.Module,
    hook: str,
    *,
    wrapper: str = "no",
    plugins: Iterable[str | os.PathLike[str]] = (),
    native: bool = False,
    **options: Option,
) -> Hook | ShardedHook:
    """Registers a communication hook by its name: ``register(model, "power_sgd", wrapper="fp16",
    matrix_approximation_rank=2)``.

    `model` is a DistributedDataParallel model, or the outermost module of a sharded one
    (FullyShardedDataParallel or ``fully_shard``). A sharded model takes ``"fp16"`` and ``"bf16"``, the precision in
    which its gradients travel.

    Call it on every rank, with the same arguments, before the model's first forward. `wrapper` is the precision
    in which the hook works: ``"no"``, ``"fp16"`` or ``"bf16"``. `plugins` are shared libraries that bring hooks
    of their own. With `native`, the model's Reducer calls the hook without Python in between, which a sharded
    model can't do.

    Raises `Error` for an unknown name, an option that the hook doesn't have or that is out of range, `native` for a
    sharded model, and a model that has a hook already; `TypeError` for a model that isn't wrapped.
    """
    for plugin in plugins:
        _C.load_plugin(os.fspath(plugin))
    if is_sharded(model):
        return register_with_fsdp(model, hook, wrapper, native, options)
    if isinstance(model, DistributedDataParallel):
        return register_with_ddp(model, hook, wrapper, native, options)
    if hasattr(model, "_orig_mod"):
        advice = "register the hook before torch.compile"
    elif "accelerate" in sys.modules:
        advice = (
            "Accelerate wraps a model only if it runs several processes, and on the CPU only if the launch has "
            'device = "cpu"'
        )
    else:
        advice = "wrap the model first"
    raise TypeError(
        "hookline.register takes a model of DistributedDataParallel, FullyShardedDataParallel or fully_shard, not "
        f"{type(model).__name__}: {advice}"
    )


def apply(
    model: torch.nn.Module, config: str | os.PathLike[str] | None = None, *, native: bool = False
) -> Hook | ShardedHook | None:
    """Registers the hook that the config names, ``[fsdp]`` for a sharded model and ``[ddp]`` for any other; returns
    None if it names none.

    `config` is a TOML file; without one it is the config of the run that ``hookline launch`` started. Outside of
    such a run, HOOKLINE_ variables alone set keys. Warns of other keys of ``[ddp]``, ``[fsdp]`` and
    ``[training]``, on which only C++ programs act. Raises `Error` with the report of every problem if the config
    can't be used.
    """
    settings = _C.chosen_hooks(None if config is None else os.fspath(config))
    if settings["warnings"]:
        warnings.warn(settings["warnings"].strip(), stacklevel=2)
    hook, wrapper, plugins, options = (
        settings["comm_hook"],
        settings["comm_wrapper"],
        settings["plugins"],
        settings["comm_state_option"],
    )
    applied = _APPLIED
    if is_sharded(model):
        hook, wrapper, plugins, options = settings["fsdp_comm_hook"], "no", (), {}
        applied = {"fsdp.comm_hook"}
    elif hook == "auto":
        raise _C.Error(
            'ddp.comm_hook = "auto" chooses a hook in C++ programs alone: name a hook, '
            "or let 'hookline advise' choose one"
        )
    unapplied = {key: value for key, value in settings["given"].items() if key not in applied}
    if unapplied:
        warnings.warn(
            "hookline.apply has not applied "
            + ", ".join(f"{key} = {json.dumps(value)}" for key, value in unapplied.items())
            + ": it acts on the hook alone; pass other options to what wraps the model",
            stacklevel=2,
        )
    if hook == "no" and wrapper == "no":
        return None
    return register(model, hook, wrapper=wrapper, plugins=plugins, native=native, **options)
