#!/bin/bash
#SBATCH --nodes=2
export NCCL_DEBUG=INFO OMP_NUM_THREADS=4
GPUS=4
cat > notes <<END
accelerate launch 'not a command
END
# accelerate launch neither.py
srun --ntasks-per-node=1 accelerate launch --config_file two_machines.yaml \
  --num_processes $((${NODES:-2} * GPUS)) --num_machines "${NODES:-2}" --machine_rank $SLURM_NODEID \
  --main_process_ip "$HEAD" --main-process-port=29502 --max_restarts 3 --rdzv_backend c10d \
  --mixed_precision bf16 --tee 3 --log_dir "logs of it" -q \
  train.py --text 'a b' --lr "$LR" > out.log 2>&1 &
wait
