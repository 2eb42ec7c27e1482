"""What else the interpreter does meanwhile: other threads, signals, child processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import foretrain

from support import pipeline

TAKES_LONG = foretrain.plan("llama-3-8b", "dgx-h100", global_batch=64)


class Interpreter(unittest.TestCase):
    def test_other_threads_go_on(self):
        running, ticks = threading.Event(), 0
        running.set()

        def tick():
            nonlocal ticks
            while running.is_set():
                ticks += 1
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        # One call into the native half, as anything in Python would let others run.
        experiment = foretrain._native.Experiment("library:pipeline-schedules", [], [])
        before, begin = ticks, time.perf_counter()
        experiment.run([], 1, 1, "")
        during, took = ticks - before, time.perf_counter() - begin
        running.clear()
        thread.join()
        # A thread that had to wait would tick once or twice.
        self.assertGreater(during, 5, f"in {took:.3f} s")

    def test_two_threads_run_at_once(self):
        found = [None, None]

        def run(index):
            found[index] = foretrain.run(pipeline(), seed=1).summary

        threads = [threading.Thread(target=run, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found[0], found[1])

    def test_ctrl_c_ends_a_long_run(self):
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        begin = time.perf_counter()
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            foretrain.run(TAKES_LONG, jobs=1)
        self.assertLess(time.perf_counter() - begin, 3)
        # The next run is none the worse for it.
        self.assertEqual(len(foretrain.run(pipeline()).runs), 2)

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork here")
    def test_a_forked_process_runs_as_well(self):
        foretrain.run(pipeline())
        with multiprocessing.get_context("fork").Pool(2) as pool:
            ended = pool.map_async(step_time, [1, 8])
            self.assertEqual(ended.get(timeout=60), [0.1, 0.275])

    def test_import_and_a_small_run_are_fast(self):
        program = f"import foretrain; foretrain.run({pipeline()!r})"
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            times.append(time.perf_counter() - begin)
        self.assertLess(min(times), 0.3, times)


def step_time(micro_batches):
    settings = {"training.micro_batches": micro_batches}
    return foretrain.run(pipeline(), variants=["1f1b"], set=settings).best["step_time_s"]


if __name__ == "__main__":
    unittest.main()
