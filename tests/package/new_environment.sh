#!/usr/bin/env bash
# Installs the packages into a new Python environment, trains there with a hook of hookline's, and removes them again.
# usage: new_environment.sh WHEEL_OF_HOOKLINE PACKAGE_OF_HOOKLINE_TORCH ENVIRONMENT BUILD_ENVIRONMENT
#   PACKAGE_OF_HOOKLINE_TORCH   a wheel, or the source, which pip compiles
#   ENVIRONMENT                 has torch
#   BUILD_ENVIRONMENT           has scikit-build-core
set -euo pipefail
packages=("$(realpath "$1")" "$(realpath "$2")")
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
if hookline --cmake-dir 2>error; then exit 1; fi
grep -q 'has no hooklineConfig.cmake: this is the launcher alone' error

printf '%s\n' "$environment"/lib/python3*/site-packages "$build_environment"/lib/python3*/site-packages \
  >"$(echo new/lib/python3*/site-packages)/torch.pth"
pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --no-cache-dir "${packages[1]}"
cat >train.py <<'PYTHON'
import hookline
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
model = DistributedDataParallel(net, bucket_cap_mb=0.1)
hook = hookline.register(model, "power_sgd", wrapper="fp16", start_powerSGD_iter=5)
sgd = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(20):
    sgd.zero_grad()
    model(torch.randn(32, 256)).pow(2).mean().backward()
    sgd.step()
values = torch.cat([each.detach().flatten() for each in model.parameters()])
of_rank_0 = values.clone()
dist.broadcast(of_rank_0, 0)
assert torch.equal(values, of_rank_0)
print(f"{hook.name}: ranks are equal")
dist.destroy_process_group()
PYTHON
hookline launch --processes-per-node 2 train.py | tee trained
[[ $(grep -c 'power_sgd(rank=1, start=5) in fp16: ranks are equal' trained) == 2 ]]

sed -i 's/^TORCH = .*/TORCH = "1.2.3"/' "$(echo new/lib/python3*/site-packages/hookline_torch/_build.py)"
if python3 -c 'import hookline_torch' 2>error; then exit 1; fi
grep -q 'was built with torch 1.2.3, and this is torch ' error

rm new/lib/python3*/site-packages/torch.pth
pip uninstall --quiet --yes hookline hookline-torch
find new -name __pycache__ -prune -o ! -type d -print | sort | comm -13 <(grep -v __pycache__ before) - >left
if [[ -s left ]]; then
  printf 'new_environment.sh: left behind:\n' >&2
  cat left >&2
  exit 1
fi
printf '== hookline and %s work in a new environment\n' "${packages[1]##*/}"
