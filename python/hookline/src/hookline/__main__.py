"""``python -m hookline``: the launcher, for an environment whose programs are not on PATH."""

import os
import sys

from hookline import program

os.execv(program(), ["hookline", *sys.argv[1:]])
