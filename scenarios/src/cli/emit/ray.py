#!/usr/bin/env python3
"""{{NAME}} in {{SHARDS}} shards on Ray, then their results.

Every node must see the program, and the folder below, under the same path. Started again after it
was stopped, it goes on: each shard keeps what it has simulated.

    python3 FILE                                      on this machine, or where RAY_ADDRESS says
    ray job submit --working-dir . -- python3 FILE    on a cluster
"""

import os
import subprocess
import sys

import ray

PROGRAM = os.environ.get("FORETRAIN", {{PROGRAM}})
FOLDER = {{FOLDER}}
RUN = {{RUN}}
MERGE = {{MERGE}}
SHARDS = {{SHARDS}}
CORES = {{CORES}}

# Starts of a shard again after its node, or a signal, has ended it.
RETRIES = 10


class Stopped(Exception):
    """A signal has ended a worker: another goes on with its shard."""


def start(words):
    """Runs the program to its end."""
    return subprocess.run([PROGRAM, *words, "--quiet"], cwd=FOLDER, stderr=subprocess.PIPE, text=True)


@ray.remote(num_cpus=CORES, max_retries=RETRIES, retry_exceptions=[Stopped])
def work(number):
    """Simulates a shard; gives its exit code, and its complaints."""
    worker = start([*RUN, "--jobs", str(CORES), "--shard", f"{number}/{SHARDS}"])
    if worker.returncode < 0:
        raise Stopped(f"signal {-worker.returncode} has ended shard {number}")
    return worker.returncode, worker.stderr


def main():
    ray.init(log_to_driver=False)
    open_shards = {work.remote(number): number for number in range(1, SHARDS + 1)}
    while open_shards:
        [ended], _ = ray.wait(list(open_shards))
        number = open_shards.pop(ended)
        code, complaints = ray.get(ended)
        sys.stderr.write(complaints)
        if code != 0:
            # Wrong input is wrong for every shard.
            print(f"shard {number} has ended with exit code {code}", file=sys.stderr)
            return code
        print(f"{SHARDS - len(open_shards)} of {SHARDS} shards are done", file=sys.stderr)
    merged = start(MERGE)
    sys.stderr.write(merged.stderr)
    return merged.returncode


if __name__ == "__main__":
    sys.exit(main())
