#!/usr/bin/env bash
# Installs the packages into a new Python environment, trains there with a hook of hookline's, builds a C++ program, and
# removes them again.
# usage: new_environment.sh WHEEL_OF_HOOKLINE PACKAGE_OF_HOOKLINE_TORCH ENVIRONMENT BUILD_ENVIRONMENT
#   PACKAGE_OF_HOOKLINE_TORCH   a wheel, or the source, which pip compiles
#   ENVIRONMENT                 has torch
#   BUILD_ENVIRONMENT           has scikit-build-core
set -euo pipefail
packages=("$(realpath "$1")" "$(realpath "$2")")
tests=$(realpath "$(dirname "$0")/..")
environment=$(realpath "$3") build_environment=$(realpath "$4")
cd "$(mktemp -d /tmp/hookline-environment.XXXXXX)"
trap 'rm -rf "$PWD"' EXIT

"$environment/bin/python3" -m venv new
export PATH=$PWD/new/bin:/usr/bin:/bin
unset PYTHONPATH HOOKLINE_TORCH
find new ! -type d | sort >before
pip install --quiet --disable-pip-version-check --no-index --no-deps "${packages[0]}"
hookline --version
[[ $(python3 -m hookline --version) == "$(hookline --version)" ]]
[[ $(python3 -c 'import hookline; print(hookline.program())') == "$PWD/new/bin/hookline" ]]
hookline launch --processes-per-node 2 true
if python3 -c 'import hookline; hookline.register' 2>error; then exit 1; fi
grep -q 'hookline.register needs the package hookline-torch, and hookline_torch is not installed' error
test -f new/share/man/man1/hookline-launch.1
test ! -e new/include/hookline
test -f new/share/doc/hookline/licences/libcurl4
[[ -z $(sha1sum new/libexec/hookline/lib/* | sort | uniq -w 40 -d) ]]  # no library twice
if hookline --cmake-dir 2>error; then exit 1; fi
grep -q 'has no hooklineConfig.cmake: this is the launcher alone' error

site=$(echo new/lib/python3*/site-packages)
ln -s "$environment"/lib/python3*/site-packages/{torch,nvidia} "$site"  # where pip installs them
printf '%s\n' "$environment"/lib/python3*/site-packages "$build_environment"/lib/python3*/site-packages >"$site/torch.pth"
pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --no-cache-dir "${packages[1]}"
python3 "$tests/python/charlm_test.py" "$PWD/new/bin/hookline" "$tests/../examples/charlm"

test -f new/share/doc/hookline-torch/licences/libspdlog-dev
test -f new/share/doc/hookline-torch/licences/toml11
if [[ -e new/lib/libhookline_cuda.so ]]; then
  python3 -c 'from hookline_torch import _C; assert not _C.cuda_problem(), _C.cuda_problem()'
fi

# The C++ library, and the programs that load torch. CMake finds the package by PATH alone, too.
[[ $(hookline --cmake-dir) == "$PWD/new/lib/cmake/hookline" ]]
hookline test --processes-per-node 2
hookline new my-training
cmake -S my-training -B my-training/build -D CMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" >/dev/null
cmake --build my-training/build
(cd my-training && hookline launch --config hookline.toml build/train) | tee log
grep -q 'epoch 4: loss 0\.[012]' log

sed -i 's/^TORCH = .*/TORCH = "1.2.3"/' "$(echo new/lib/python3*/site-packages/hookline_torch/_build.py)"
if python3 -c 'import hookline_torch' 2>error; then exit 1; fi
grep -q 'was built with torch 1.2.3, and this is torch ' error

rm "$site"/{torch.pth,torch,nvidia}
pip uninstall --quiet --yes hookline hookline-torch
find new -name __pycache__ -prune -o ! -type d -print | sort | comm -13 <(grep -v __pycache__ before) - >left
if [[ -s left ]]; then
  printf 'new_environment.sh: left behind:\n' >&2
  cat left >&2
  exit 1
fi
printf '== hookline and %s work in a new environment\n' "${packages[1]##*/}"
