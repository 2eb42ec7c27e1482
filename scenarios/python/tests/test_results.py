"""Results: figures that theory gives, the files of the command line, frames."""

import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import foretrain

from support import needs, pipeline


class Figures(unittest.TestCase):
    def test_a_pipeline_takes_its_micro_batches_and_its_bubble(self):
        result = foretrain.run(pipeline(), variants=["1f1b"])
        [run] = result.runs
        # Eight micro-batches and a bubble of three, of 25 ms each.
        self.assertEqual((run["fits"], run["step_time_s"]), (True, 0.275))
        self.assertEqual(result.best, run)

    def test_a_run_that_does_not_fit_is_a_result(self):
        result = foretrain.run(pipeline())
        self.assertEqual([run["fits"] for run in result.runs], [False, True])
        self.assertEqual(result.best["variant"], "1f1b")
        self.assertIn("gpipe does not fit", result.summary["conditions"])
        self.assertEqual(repr(result), result.summary["finding"])
        self.assertIsNone(foretrain.run(pipeline(), variants=["gpipe"]).best)

    def test_settings_are_laid_over_a_scenario(self):
        settings = {"training.micro_batches": 1, "model.profiled_pipeline.forward": "20 ms"}
        result = foretrain.run(pipeline(), variants=["1f1b"], set=settings)
        self.assertEqual(result.best["step_time_s"], 0.14)

    def test_a_sweep_runs_every_combination(self):
        over = {"training.micro_batches": range(4, 12, 4), "training.micro_batch": [1, 2]}
        result = foretrain.sweep(pipeline(), over, where=["training.micro_batch <= 1"])
        points = [(run["variant"], *run["point"].values()) for run in result.runs]
        self.assertEqual(
            points, [("gpipe", "4", "1"), ("1f1b", "4", "1"), ("gpipe", "8", "1"), ("1f1b", "8", "1")]
        )
        again = result.summary["reproduce"]
        self.assertEqual(eval(again).summary, result.summary)

    def test_the_best_of_a_sweep_gets_most_done(self):
        result = foretrain.sweep(pipeline(), {"training.micro_batches": [1, 8, 4]}, variants=["1f1b"])
        self.assertEqual(result.best["point"], {"training.micro_batches": "8"})

    def test_a_search_proves_its_best(self):
        scenario = {
            "name": "Eight GPUs",
            "machine": {"node": "dgx-a100-80g"},
            "model": {"transformer": {"preset": "gpt2-medium"}},
            "training": {"global_batch": 32, "sequence": 1024, "precision": "bf16-mixed"},
        }
        over = {"parallelism.tensor": [1, 2], "parallelism.data": [4, 8], "training.micro_batch": "auto"}
        result = foretrain.search(scenario, over, gap="0 %", keep=3)
        proof = result.summary["search"]
        self.assertEqual((proof["gap"], len(result.runs)), (0.0, 3))
        self.assertEqual(result.best, min(result.runs, key=lambda run: run["step_time_s"]))
        tensor = foretrain.search(scenario, over, where=["parallelism.tensor >= 2"])
        self.assertEqual({run["point"]["parallelism.tensor"] for run in tensor.runs}, {"2"})
        self.assertEqual(eval(tensor.summary["reproduce"]).summary, tensor.summary)
        whole = foretrain.sweep(
            {**scenario, "parallelism": {"tensor": 1, "data": 8}}, {"training.micro_batch": [1, 2, 4]}
        )
        fastest = min(run["step_time_s"] for run in whole.runs)
        self.assertLessEqual(result.best["step_time_s"], fastest)

    def test_files_extend_others_from_where_they_are(self):
        with tempfile.TemporaryDirectory() as folder:
            base, child = pathlib.Path(folder, "base.yaml"), pathlib.Path(folder, "child.yaml")
            base.write_text(json.dumps(pipeline()), encoding="utf-8")
            child.write_text("extends: base.yaml\ntraining: { micro_batches: 1 }\n", encoding="utf-8")
            self.assertEqual(foretrain.run(child).best["step_time_s"], 0.1)
            swept = foretrain.sweep(child, {"training.micro_batch": [1, 2]})
            self.assertEqual(len(swept.runs), 4)

    def test_the_same_seed_gives_the_same_results(self):
        first, second = (foretrain.run(pipeline(), seed=7, jobs=jobs).summary for jobs in (1, 2))
        self.assertEqual(first, second)


class Files(unittest.TestCase):
    def test_a_report_is_one_page(self):
        result = foretrain.run(pipeline())
        self.assertTrue(result.report.startswith("<!DOCTYPE html>"))
        shown = result._repr_html_()
        self.assertTrue(shown.startswith("<iframe") and "srcdoc=" in shown)
        self.assertEqual(shown.count("<"), 2, "the page is escaped")

    def test_saved_files_can_be_run_again(self):
        result = foretrain.run(pipeline(), variants=["1f1b"])
        with tempfile.TemporaryDirectory() as folder:
            report = result.save(pathlib.Path(folder, "a", "b"))
            names = sorted(path.name for path in report.parent.iterdir())
            self.assertEqual(names, ["report.html", "results.csv", "results.json", "scenario.yaml"])
            saved = json.loads((report.parent / "results.json").read_text(encoding="utf-8"))
            self.assertEqual(saved, result.summary)
            again = foretrain.run(report.parent / "scenario.yaml")
            self.assertEqual(again.best["step_time_s"], result.best["step_time_s"])

    @unittest.skipUnless("FORETRAIN_BINARY" in os.environ, "without the command line")
    def test_results_are_those_of_the_command_line(self):
        binary = os.environ["FORETRAIN_BINARY"]
        words = ["run", "bpipe-profiled", "--set", 'training.micro_batches=16', "--seed", "3"]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([binary, *words, "--out", folder], check=True, capture_output=True)
            result = foretrain.run("bpipe-profiled", set={"training.micro_batches": 16}, seed=3)
            ours = result.save(pathlib.Path(folder, "ours")).parent
            for name in ["results.json", "results.csv", "report.html", "scenario.yaml"]:
                theirs = pathlib.Path(folder, "bpipe-profiled", name)
                self.assertEqual((ours / name).read_bytes(), theirs.read_bytes(), name)


    def test_results_can_be_sent_to_other_processes(self):
        result = foretrain.run(pipeline())
        sent = pickle.loads(pickle.dumps(result))
        self.assertEqual((sent.summary, sent.best), (result.summary, result.best))
        self.assertEqual((sent.report, sent.to_csv()), (result.report, result.to_csv()))
        self.assertEqual((repr(sent), sent.scenario), (repr(result), result.scenario))


class Frames(unittest.TestCase):
    def test_without_pandas_the_remedy_is_told(self):
        with mock.patch.dict(sys.modules, {"pandas": None}):
            with self.assertRaisesRegex(ImportError, "pip install pandas"):
                foretrain.run(pipeline()).frame()

    @needs("pandas")
    def test_a_frame_has_a_typed_row_for_every_run(self):
        variants = {"none": {}, "1": {"parallelism": {"schedule": "1f1b"}}}
        result = foretrain.sweep(pipeline(variants=variants), {"training.micro_batches": [1, 8]})
        frame = result.frame()
        self.assertEqual(list(frame["variant"]), ["none", "1", "none", "1"])
        self.assertEqual(frame["fits"].dtype, bool)
        self.assertEqual(frame["point.training.micro_batches"].dtype.kind, "i")
        times = [run.get("step_time_s") for run in result.runs]
        self.assertEqual([None if time != time else time for time in frame["step_time_s"]], times)


class Others(unittest.TestCase):
    def test_a_check_simulates_nothing(self):
        checked = foretrain.check(pipeline())
        self.assertEqual(checked["variants"], ["gpipe", "1f1b"])
        self.assertEqual((checked["plan"]["runs"], checked["plan"]["points"]), (2, 1))

    def test_a_scenario_is_shown_with_origins(self):
        shown = foretrain.show(pipeline(), "1f1b", set={"training.micro_batch": 1})
        self.assertIn('name: "Small pipeline"', shown)
        self.assertRegex(shown, r"micro_batch: 1 +# --set")
        self.assertRegex(shown, r"schedule: 1f1b +# <scenario>:\d+, variant")

    def test_a_plan_is_a_scenario_that_searches(self):
        plan = foretrain.plan("llama-3-8b", "2xdgx-h100", global_batch=64)
        self.assertEqual(plan["machine"], {"cluster": {"node": "dgx-h100", "count": 2}})
        self.assertEqual(plan["training"]["global_batch"], 64)
        self.assertGreater(foretrain.check(plan)["plan"]["points"], 1000)

    def test_a_plan_is_exported(self):
        scenario = foretrain.plan("llama-2-7b", "dgx-a100-80g", global_batch=64)
        del scenario["search"]
        scenario |= {"training": {**scenario["training"], "micro_batch": 1}, "parallelism": {"tensor": 8}}
        self.assertIn("--tensor-model-parallel-size 8", foretrain.export(scenario, "megatron"))

    def test_what_comes_with_the_package_is_listed(self):
        self.assertIn("bpipe-gpt3-96b", foretrain.library())
        self.assertIn("model", foretrain.schema()["properties"])

    def test_predictions_are_compared_with_measurements(self):
        judged = foretrain.validate(["storage"])
        self.assertEqual([found["name"] for found in judged["sets"]], ["storage"])

    def test_every_public_name_has_a_docstring(self):
        for name in foretrain.__all__:
            if not name.startswith("__"):
                self.assertTrue(getattr(foretrain, name).__doc__, name)

    def test_exceptions_can_be_sent_to_other_processes(self):
        with self.assertRaises(foretrain.ScenarioError) as caught:
            foretrain.run({})
        sent = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((str(sent), sent.problems), (str(caught.exception), caught.exception.problems))


if __name__ == "__main__":
    unittest.main()
