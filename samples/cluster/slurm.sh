#!/bin/bash
# Three machines of a Slurm cluster: the first task is the chief, the others are workers.
#
#     sbatch samples/cluster/slurm.sh
#
# The command `toolkit` and the folder `runs` are the same on all machines (a shared file system).
# docs/cluster.md explains the rest.
#SBATCH --job-name=train
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --time=12:00:00
# The same log after a restart.
#SBATCH --output=train-%j.log
#SBATCH --open-mode=append
# Slurm may start the job again: after the loss of a machine, and where this script asks for it.
#SBATCH --requeue
# SIGTERM two minutes before the time is up, so that the run commits its state and is started again.
#SBATCH --signal=TERM@120
set -u

# No task is killed because another has ended: within ten seconds of a death all end by themselves,
# with an exit code that says whether another try makes sense.
srun --label --kill-on-bad-exit=0 --wait=0 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" \
    toolkit run --resume --run-dir runs/digits --plugin classifier --data mnist5k --epochs 20
code=$?

# Interrupted, killed, a peer was lost, terminated: try again, but not for ever. The code is the
# highest of all tasks: after a crash of one with 134 or 135, it is the 138 of the others.
case $code in
    130 | 137 | 138 | 143)
        if [ "${SLURM_RESTART_COUNT:-0}" -lt 20 ]; then
            echo "exit code $code: the job is started again"
            scontrol requeue "$SLURM_JOB_ID"
        fi
        ;;
esac
exit "$code"
