#!/bin/bash
# How the team starts it: torchrun is in the environment.
export OMP_NUM_THREADS=4
cd "$HOME/project" && python -m torch.distributed.run --nnodes=1:2 --nproc-per-node 4 \
  --rdzv-backend=c10d --rdzv_endpoint="node1:29400" --rdzv-id $JOB --max-restarts=3 --tee 3 \
  --rdzv-conf join_timeout=600,last_call_timeout=10 --log-dir runs --shutdown-timeout 20 \
  train.py --epochs 5 --name 'a b'
echo done
