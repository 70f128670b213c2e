"""Bytes that this rank has handed to collectives through all hooks."""

from __future__ import annotations

import weakref
from typing import Callable

_of_hooks: dict[int, Callable[[], int]] = {}
_sent_before = 0  # by hooks that are gone


def count(hook: object, bytes_sent: Callable[[], int]) -> None:
    """Includes what `hook` sends. `bytes_sent` must not keep the hook alive."""
    _of_hooks[id(bytes_sent)] = bytes_sent
    weakref.finalize(hook, _is_gone, bytes_sent).atexit = False


def bytes_sent() -> int:
    """Bytes so far, those of hooks that are gone included."""
    return _sent_before + sum(each() for each in list(_of_hooks.values()))


def _is_gone(of_hook: Callable[[], int]) -> None:
    global _sent_before
    _sent_before += of_hook()
    del _of_hooks[id(of_hook)]
