#!/bin/sh
# Runs a program in the Python that ./dev sets up, if it is there; else says so and exits with 77, which
# CTest takes as skipped. The build does not look for Python: the test does when it runs.
# Usage: with_python.sh PYTHON SCRIPT ARGUMENT…
if [ ! -x "$1" ]; then
  echo "SKIP: no $1, the Python with torch and numpy that parity is measured against"
  exit 77
fi
exec "$@"
