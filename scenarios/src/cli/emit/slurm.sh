#!/usr/bin/env bash
#SBATCH --job-name=foretrain-{{NAME}}
#SBATCH --array=1-{{SHARDS}}
#SBATCH --cpus-per-task={{CORES}}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%A_%a.log

# {{NAME}} in {{SHARDS}} shards. Every node must see the program, and the folder below, under the same path.
#
#   id=$(sbatch --parsable FILE)                         # every shard
#   sbatch --dependency=afterok:"$id" --array=0 FILE     # then their results
#
# A shard that was stopped goes on where it was when it is submitted again: sbatch --array=3,7 FILE
set -euo pipefail

foretrain=${FORETRAIN:-{{PROGRAM}}}
cores=${SLURM_CPUS_PER_TASK:-{{CORES}}}
cd -- {{FOLDER}}

if [ "$SLURM_ARRAY_TASK_ID" = 0 ]; then
    exec "$foretrain" {{MERGE}} --quiet --jobs "$cores"
fi
exec "$foretrain" {{RUN}} --quiet --jobs "$cores" --shard "$SLURM_ARRAY_TASK_ID/{{SHARDS}}"
