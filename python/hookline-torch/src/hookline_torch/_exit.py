"""Lets the threads of Gloo's process groups finish before Python ends."""

import pathlib
import time

_NAME = b"pt_gloo_runloop"  # as torch names these threads
# Samples, 1 ms apart. A thread that waits for the GIL seems to sleep, too. It gets the GIL between two samples, unless
# another thread of Python's gets it each time.
_CALM = 10


def _works(task: pathlib.Path) -> bool:
    """Says whether ``task``, a thread's folder in /proc, is a Gloo thread that does not wait for work or for a peer."""
    try:
        if (task / "comm").read_bytes().rstrip() != _NAME:
            return False
        return (task / "stat").read_bytes().rpartition(b")")[2].split()[0] != b"S"
    except OSError:  # it has ended
        return False


def finish_gloo(limit: float = 5.0) -> None:
    """Wait until no Gloo thread works any more, for ``limit`` seconds at most.

    A collective wakes its caller before the Gloo thread has released the collective's tensors. For a tensor that
    Python has seen, that takes the GIL; once Python ends, taking it ends the process by SIGABRT ("terminate called
    without an active exception"). Neither ``destroy_process_group`` nor deleting the model prevents that.
    """
    end = time.monotonic() + limit
    calm = 0
    while calm < _CALM and time.monotonic() < end:
        time.sleep(0.001)  # without the GIL
        calm = 0 if any(map(_works, pathlib.Path("/proc/self/task").iterdir())) else calm + 1
