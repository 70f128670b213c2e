"""What a rank tells its launcher and the run's trackers."""

from __future__ import annotations

import atexit
import os
import sys

from hookline_torch import _C, _ddp, _sent

_reports: _C.RankReports | None = None
_exits_with_failure = False


def _of_this_process() -> _C.RankReports:
    global _reports
    if _reports is None:
        _reports = _C.RankReports()
        atexit.register(_end)
        _write_uncaught_to_error_file()
        _watch_exit_code()
    return _reports


def _write_uncaught_to_error_file() -> None:
    """The launcher's report of a failed rank has what the rank's error file says, and its step."""
    print_it = sys.excepthook

    def write_and_print(kind, error, traceback) -> None:
        written = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
        if not issubclass(kind, KeyboardInterrupt) and not os.path.exists(written):  # torch's @record writes it, too
            _C.write_error_file(f"{kind.__name__}: {error}", kind.__name__)
        print_it(kind, error, traceback)

    sys.excepthook = write_and_print


def _watch_exit_code() -> None:
    """Nothing else says at the end of the program with which code it exits."""
    exit_now = sys.exit

    def remember_and_exit(code=None):
        global _exits_with_failure
        _exits_with_failure = code not in (None, 0)
        exit_now(code)

    sys.exit = remember_and_exit


def _end() -> None:
    # The interpreter has set last_value if an exception other than SystemExit ends the program.
    _reports.end(_exits_with_failure or hasattr(sys, "last_value"))


def step(number: int | None = None, *, loss: float | None = None) -> None:
    """Reports that this rank has finished an optimizer step: call it on every rank, after ``optimizer.step()``.

    The launcher then shows the run's progress, notices a run that stalls, and names the step of a rank that fails.
    `number` counts from 1; without it, the step is the one after the last reported, so a resumed script passes it once. Logs
    ``compression_error`` after a step in which a hook has measured it. Without ``hookline launch`` this only counts.
    """
    reports = _of_this_process()
    reports.step(number, loss, _sent.bytes_sent())
    for error in _ddp.errors_to_log():
        reports.log({"compression_error": error}, _sent.bytes_sent())


def log(**values: float) -> None:
    """Logs metrics of the last step: ``hookline.log(loss=0.3)``. Rank 0's reach the run's metrics.jsonl, which sweeps
    and reports read, and the trackers of ``[logging]``; other ranks' are dropped.

    Raises `Error` for a name that every line has anyway: step, seconds, bytes_sent.
    """
    _of_this_process().log({name: float(value) for name, value in values.items()}, _sent.bytes_sent())
