"""Hooks for DistributedDataParallel."""

from __future__ import annotations

import json
import os
import sys
import warnings
import weakref
from typing import Any, Iterable

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hookline_torch import _C

Option = bool | int | float | str | list[str]

# Keys that this module acts on, or that have no effect in PyTorch either.
_APPLIED = {"ddp.comm_hook", "ddp.comm_wrapper", "ddp.plugins", "ddp.dim", "ddp.check_reduction"}


_hooks: weakref.WeakSet[Hook] = weakref.WeakSet()
_sent_before = 0  # by hooks that are gone


def bytes_sent() -> int:
    """Bytes that this rank has handed to collectives through all hooks so far."""
    return _sent_before + sum(each.bytes_sent for each in _hooks)


def errors_to_log() -> list[float]:
    """Compression errors that have been measured since the last call, one for each hook that has a new one."""
    errors = []
    for hook in _hooks:
        error = hook.compression_error
        if not hook._is_error_logged:
            hook._is_error_logged = True
            errors.append(error)
    return errors


def _is_gone(handle: _C.Handle) -> None:
    global _sent_before
    _sent_before += handle.bytes_sent()


class Hook:
    """A communication hook that is registered with a model. `register` and `apply` return it."""

    def __init__(self, handle: _C.Handle, model: DistributedDataParallel) -> None:
        self._handle = handle
        # The model's Reducer holds this object, in C++, where Python can't see a circle.
        self._model = weakref.ref(model)
        self._error: float | None = None
        self._is_error_logged = True
        _hooks.add(self)
        weakref.finalize(self, _is_gone, handle)

    def __deepcopy__(self, memo: dict[int, Any]) -> Hook:
        # The Reducer of a copied model has no hook, as with PyTorch's hooks.
        warnings.warn(
            f"the copy of the model does not have its hook, {self.name}: register one before you train the copy",
            stacklevel=2,
        )
        memo[id(self)] = self
        return self

    def __reduce__(self) -> str:
        raise TypeError(
            "a model with a hook of hookline can't be pickled: save model.module.state_dict() and hook.state_dict()"
        )

    def __repr__(self) -> str:
        return f"<hookline hook {self.name}>"

    @property
    def name(self) -> str:
        """The hook with its options: ``power_sgd(rank=2, start=10) in fp16``."""
        return self._handle.describe()

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank has handed to collectives so far."""
        return self._handle.bytes_sent()

    @property
    def bytes_by_stage(self) -> dict[str, int]:
        """The same by stage of the hook: ``{"gradients": …, "P": …, "Q": …}``."""
        return self._handle.bytes_by_stage()

    @property
    def compression_error(self) -> float | None:
        """‖g − e‖ / ‖e‖ for the hook's gradients g and their exact average e, over sampled elements.

        Measured in the hook's steps 1, 2, 4, 8, … (counted from 0); this is the last measured one's. None before the
        first, and for a hook that sends as many bytes as the gradients have. Read it between two steps.
        """
        error = self._handle.take_compression_error()
        if error is not None:
            self._error, self._is_error_logged = error, False
        return self._error

    def state_dict(self) -> dict[str, Any]:
        """What the hook keeps from step to step, such as PowerSGD's error feedback, for a checkpoint.

        Call it between two steps. The tensors are copies. ``"own"`` differs between ranks: each rank saves its
        own dictionary.
        """
        return self._handle.save()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned. Call it on every rank, before the model's first forward.

        If the number of ranks has changed, what belonged to a single rank starts fresh. Raises `Error` if the
        state is of another hook, of other options, or of another model.
        """
        model = self._model()
        if model is None:
            raise _C.Error(f"the model of the hook {self.name} is gone")
        self._handle.load(state, model.reducer)


# Without annotations: DistributedDataParallel compares them with types, and here they would be strings.
def _run(state, bucket):
    return state._handle.run(bucket)


def _forget_hook_of_original(model: DistributedDataParallel) -> None:
    """A copied model holds the Hook of the original, which its Reducer doesn't have."""
    hook = getattr(model, "_hookline_hook", None)
    if hook is not None and hook._model() is not model:
        model._comm_hooks = [each for each in model._comm_hooks if each[1] is not hook]
        del model._hookline_hook


def hooks() -> list[dict[str, Any]]:
    """The hooks that `register` knows, plug-ins' included: name, summary, options with their defaults, and whether
    fp16 and bf16 may wrap the hook."""
    return _C.hooks()


def register(
    model: DistributedDataParallel,
    hook: str,
    *,
    wrapper: str = "no",
    plugins: Iterable[str | os.PathLike[str]] = (),
    native: bool = False,
    **options: Option,
) -> Hook:
    """Registers a communication hook by its name: ``register(model, "power_sgd", wrapper="fp16",
    matrix_approximation_rank=2)``.

    Call it on every rank, with the same arguments, before the model's first forward. `wrapper` is the precision
    in which the hook works: ``"no"``, ``"fp16"`` or ``"bf16"``. `plugins` are shared libraries that bring hooks
    of their own. With `native`, the model's Reducer calls the hook without Python in between.

    Raises `Error` for an unknown name, an option that the hook doesn't have or that is out of range, and a model
    that has a hook already.
    """
    if not isinstance(model, DistributedDataParallel):
        advice = (
            'Accelerate does so if it runs several processes, on the CPU only with [launch] device = "cpu"'
            if "accelerate" in sys.modules
            else "wrap the model first"
        )
        raise TypeError(f"hookline.register takes a DistributedDataParallel model, not {type(model).__name__}: {advice}")
    _forget_hook_of_original(model)
    # Before any group is made: a group that only some ranks make would hang the others.
    if model._comm_hooks or hasattr(model, "_hookline_hook"):
        raise _C.Error("the model has a communication hook already: a second can't be registered")
    for plugin in plugins:
        _C.load_plugin(os.fspath(plugin))
    parameters = [each for each in model._module_parameters if each.requires_grad]
    if "power" in hook.lower() and parameters[0].is_cuda:
        raise _C.Error(
            "hookline's PowerSGD needs hookline's CUDA module on a GPU, which Python can't load yet: "
            "use the hooks fp16 or bf16, or PyTorch's powerSGD_hook"
        )
    group = model.process_group
    options_of_group = getattr(group._get_backend(parameters[0].device), "options", None)

    def make_group(name: str) -> dist.ProcessGroup:
        return dist.new_group(
            dist.get_process_group_ranks(group),
            timeout=getattr(options_of_group, "_timeout", None),
            backend=dist.get_backend(group),
            use_local_synchronization=True,
            group_desc=f"hookline {name}",
        )

    handle = _C.Handle(
        hook, wrapper, options, parameters, dist.get_rank(group), dist.get_world_size(group), make_group
    )
    result = Hook(handle, model)
    if native:
        handle.register_natively(model.reducer)
        model.logger._set_comm_hook_name(handle.describe())
    else:
        model.register_comm_hook(result, _run)
    model._hookline_hook = result
    return result


def apply(
    model: DistributedDataParallel, config: str | os.PathLike[str] | None = None, *, native: bool = False
) -> Hook | None:
    """Registers the hook that ``[ddp]`` of the config names; returns None if it names none.

    `config` is a TOML file; without one it is the config of the run that ``hookline launch`` started. Outside of
    such a run, HOOKLINE_ variables alone set keys. Warns of other keys of ``[ddp]``, ``[fsdp]`` and
    ``[training]``, on which only C++ programs act. Raises `Error` with the report of every problem if the config can't be used.
    """
    table = _C.ddp_table(None if config is None else os.fspath(config))
    if table["warnings"]:
        warnings.warn(table["warnings"].strip(), stacklevel=2)
    hook, wrapper = table["comm_hook"], table["comm_wrapper"]
    if hook == "auto":
        raise _C.Error(
            'ddp.comm_hook = "auto" chooses a hook in C++ programs alone: name a hook, '
            "or let 'hookline advise' choose one"
        )
    unapplied = {key: value for key, value in table["given"].items() if key not in _APPLIED}
    if unapplied:
        warnings.warn(
            "hookline.apply has not applied "
            + ", ".join(f"{key} = {json.dumps(value)}" for key, value in unapplied.items())
            + ": it acts on the hook alone; pass options of DistributedDataParallel to its constructor",
            stacklevel=2,
        )
    if hook == "no" and wrapper == "no":
        return None
    return register(
        model,
        hook,
        wrapper=wrapper,
        plugins=table["plugins"],
        native=native,
        **table["comm_state_option"],
    )
