"""Mistakes: every problem with its place and remedy, and no input that ends the interpreter."""

import os
import tempfile
import unittest

import foretrain

from support import pipeline


class Mistakes(unittest.TestCase):
    def problems(self, scenario, **more):
        with self.assertRaises(foretrain.ScenarioError) as caught:
            foretrain.run(scenario, **more)
        return caught.exception.problems

    def test_all_problems_are_told_at_once_on_their_lines(self):
        scenario = pipeline(trainin=1, variants={"a": {"parallelism": {"schedule": "1f1c"}}})
        with self.assertRaises(ValueError) as caught:
            foretrain.run(scenario, set={"training.micro_batch": 0})
        text = str(caught.exception)
        self.assertIn('"schedule": "1f1c"', text)
        self.assertIn("= help: did you mean `training`?", text)
        self.assertTrue(text.endswith("3 problems\n"), text)
        files = [problem["file"] for problem in caught.exception.problems]
        self.assertEqual(files, ["<scenario>", "<scenario>", "--set"])
        for problem in caught.exception.problems:
            self.assertGreater(problem["line"], 0)
            self.assertTrue(problem["message"] and problem["help"], problem)

    def test_a_name_that_the_library_lacks_is_no_file(self):
        [problem] = self.problems("bpipe-gpt3-96")
        self.assertIn("bpipe-gpt3-96b", problem["help"])
        [problem] = self.problems("nothing/here.yaml")
        self.assertIn("there is no such file", problem["message"])
        [problem] = self.problems("/")
        self.assertIn("it is a folder", problem["message"])

    @unittest.skipUnless(hasattr(os, "mkfifo"), "there are no pipes with a name")
    def test_pipes_and_devices_that_a_scenario_names_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            for path in [pipe, "/dev/zero"]:
                model = {"transformer": {"config": path}}
                for named in [{"extends": path}, {"calibration": [path]}, {"model": model}]:
                    problems = self.problems(pipeline(**named))
                    told = [problem["message"] + problem["help"] for problem in problems]
                    self.assertTrue(any("a pipe or a device" in text for text in told), told)

    def test_axes_are_checked_as_settings(self):
        with self.assertRaises(foretrain.ScenarioError) as caught:
            foretrain.sweep(pipeline(), {"training.micro_bach": [1]})
        self.assertIn("did you mean `micro_batch`", caught.exception.problems[0]["help"])
        with self.assertRaises(foretrain.ScenarioError) as caught:
            foretrain.search(pipeline(), {})
        self.assertEqual(caught.exception.problems[0]["file"], "<search>")

    def test_what_is_right_and_not_run_is_refused(self):
        with self.assertRaisesRegex(foretrain.Refused, "no variant `zb`: it has gpipe, 1f1b"):
            foretrain.run(pipeline(), variants=["zb"])
        with self.assertRaisesRegex(foretrain.Refused, "run.limit"):
            foretrain.run(pipeline(run={"limit": 10}))

    def test_arguments_are_checked(self):
        wrong = [
            (ValueError, lambda: foretrain.run(pipeline(), jobs=0)),
            (TypeError, lambda: foretrain.run(pipeline(), variants="gpipe")),
            (TypeError, lambda: foretrain.run(3)),
            (TypeError, lambda: foretrain.run({"name": object()})),
            (ValueError, lambda: foretrain.run({"name": float("nan")})),
            (OverflowError, lambda: foretrain.run(pipeline(), seed=-1)),
            (ValueError, lambda: foretrain.plan("llama-3-8", "dgx-h100")),
            (ValueError, lambda: foretrain.validate(["storag"])),
            (ValueError, lambda: foretrain.export(pipeline(), "slurm")),
        ]
        for index, (error, call) in enumerate(wrong):
            with self.subTest(index), self.assertRaises(error):
                call()

    def test_no_dict_ends_the_interpreter(self):
        deep = {}
        for _ in range(300):
            deep = {"model": deep}
        odd = [{}, deep, {"": 0}, {"name": "\u2028\x7f\x00 😀"}, {"extends": "<scenario>"}, {"name": 10**400}]
        for scenario in odd:
            with self.subTest(scenario=str(scenario)[:40]), self.assertRaises(foretrain.ScenarioError):
                foretrain.run(scenario)


if __name__ == "__main__":
    unittest.main()
