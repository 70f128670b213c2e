"""Hooks for DistributedDataParallel."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hookline_torch import _C, _sent

Option = bool | int | float | str | list[str]

_hooks: weakref.WeakValueDictionary[int, Hook] = weakref.WeakValueDictionary()  # in the order of registration


def errors_to_log() -> list[float]:
    """Compression errors that have been measured since the last call, one for each hook that has a new one, in
    the order of registration."""
    errors = []
    for hook in list(_hooks.values()):
        error = hook.compression_error
        if not hook._is_error_logged:
            hook._is_error_logged = True
            errors.append(error)
    return errors


class Hook:
    """A communication hook that is registered with a model. `register` and `apply` return it."""

    def __init__(self, handle: _C.Handle, model: DistributedDataParallel) -> None:
        self._handle = handle
        # The model's Reducer holds this object, in C++, where Python can't see a circle.
        self._model = weakref.ref(model)
        self._error: float | None = None
        self._is_error_logged = True
        _hooks[id(self)] = self
        _sent.count(self, handle.bytes_sent)

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
        """The same by channel of the hook: ``"gradients"``, and for PowerSGD ``"q"``, what it sends of its factors Q."""
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


def register_with_ddp(
    model: DistributedDataParallel, hook: str, wrapper: str, native: bool, options: dict[str, Option]
) -> Hook:
    """`register` for a model of DistributedDataParallel."""
    _forget_hook_of_original(model)
    # Before any group is made: a group that only some ranks make would hang the others.
    if model._comm_hooks or hasattr(model, "_hookline_hook"):
        raise _C.Error("the model has a communication hook already: a second can't be registered")
    parameters = [each for each in model._module_parameters if each.requires_grad]
    device = parameters[0].device
    if device.type == "cuda":
        problem = _C.cuda_problem()  # loads the module, which hooks of plug-ins may use, too
        if problem and _C.hook_name(hook) in ("power_sgd", "batched_power_sgd"):
            raise _C.Error(f"the hook '{hook}' can't run on a GPU: {problem}")
    group = model.process_group
    backend = group._get_backend(device)

    def make_group(name: str) -> dist.ProcessGroup:
        # One communicator of NCCL's runs all collectives in the order in which they are started. Two of them may wait
        # for each other.
        if backend.name() == "nccl":
            return group
        return dist.new_group(
            dist.get_process_group_ranks(group),
            timeout=getattr(getattr(backend, "options", None), "_timeout", None),
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
