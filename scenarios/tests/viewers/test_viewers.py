"""Files for viewers, read by the viewers' own: Perfetto's classes, and a browser without a window.

FORETRAIN_BINARY names the command line. Tests whose tool is missing are skipped; with
FORETRAIN_REQUIRE_TOOLS they fail.
"""

from __future__ import annotations

import collections
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from typing import Any

FORETRAIN = os.environ.get("FORETRAIN_BINARY", "foretrain")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def needs(there: bool, what: str) -> Any:
    return unittest.skipIf(not there and not os.environ.get("FORETRAIN_REQUIRE_TOOLS"), f"without {what}")


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def foretrain(folder: str, *words: str) -> None:
    subprocess.run([FORETRAIN, *words], cwd=folder, check=True, capture_output=True, timeout=600)


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def results(self, name: str) -> Any:
        with open(f"{self.folder}/out/{name}/results.json", encoding="utf-8") as file:
            return json.load(file)


@needs(has("perfetto"), "the package perfetto")
class Perfetto(Folder):
    def test_slices_counters_and_arrows_are_those_of_the_results(self) -> None:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

        foretrain(self.folder, "run", "megatron-22b", "--variant", "full", "--trace", "run.pftrace")
        trace = Trace()
        with open(f"{self.folder}/run.pftrace", "rb") as file:
            trace.ParseFromString(file.read())
        categories: dict[int, str] = {}
        tracks: dict[int, str] = {}
        busy: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        peak: dict[str, float] = collections.defaultdict(float)
        slices: collections.Counter[str] = collections.Counter()
        ends: tuple[list[int], list[int]] = ([], [])
        open_slices: dict[str, list[tuple[int, str]]] = collections.defaultdict(list)
        for packet in trace.packet:
            for text in packet.interned_data.event_categories:
                categories[text.iid] = text.name
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                name = track.process.process_name or f"{tracks[track.parent_uuid]}/{track.name}"
                tracks[track.uuid] = name
            if not packet.HasField("track_event"):
                continue
            event = packet.track_event
            name = tracks[event.track_uuid]
            ends[0].extend(event.flow_ids)
            ends[1].extend(event.terminating_flow_ids)
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                slices[name] += 1
                open_slices[name].append((packet.timestamp, categories[event.category_iids[0]]))
                self.assertLessEqual(len(open_slices[name]), 2)
            elif event.type == TrackEvent.TYPE_SLICE_END:
                begun, category = open_slices[name].pop()
                busy[name][category] += packet.timestamp - begun
            elif event.type == TrackEvent.TYPE_COUNTER:
                value = event.double_counter_value or event.counter_value
                peak[name] = max(peak[name], value)
        self.assertFalse(any(open_slices.values()))
        self.assertEqual(sorted(ends[0]), sorted(ends[1]))
        self.assertEqual(len(ends[0]), len(set(ends[0])))
        self.assertGreater(len(ends[0]), 100)
        run = self.results("megatron-22b")["variants"][0]
        compute = next(name for name in tracks.values() if name.endswith("/compute"))
        for cause, seconds in run["time_breakdown_s"].items():
            self.assertAlmostEqual(busy[compute][cause] * 1e-9, seconds, delta=slices[compute] * 1e-9)
        memory = next(name for name in peak if name.endswith("/memory"))
        self.assertEqual(peak[memory], run["peak_memory_bytes"][0]["peak_bytes"])


@needs(has("playwright") and CHROMIUM is not None, "playwright and chromium")
class Browser(Folder):
    def look(self, name: str, act: Any) -> None:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for scheme in ("light", "dark"):
                page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme=scheme)
                told: list[str] = []
                asked: list[str] = []
                # Reading the canvas makes the browser warn of this test.
                page.on("console", lambda it: told.append(it.text) if it.type == "error" else None)
                page.on("pageerror", lambda error: told.append(str(error)))
                page.on("request", lambda request: asked.append(request.url))
                page.goto(f"file://{self.folder}/out/{name}/report.html")
                page.wait_for_timeout(200)
                act(page)
                self.assertEqual(told, [])
                self.assertEqual(len(asked), 1, "the page itself")
            browser.close()

    @staticmethod
    def colours(page: Any) -> int:
        """Colours that the canvas shows."""
        return page.evaluate(
            """() => {
              const canvas = document.querySelector(".zoomable canvas");
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              return new Set(new Uint32Array(data.buffer)).size;
            }"""
        )

    def test_pipelines_are_zoomed_searched_and_stacked(self) -> None:
        foretrain(self.folder, "run", "bpipe-gpt3-96b", "--quiet")

        def act(page: Any) -> None:
            self.assertFalse(page.locator(".drawn svg").first.is_visible())
            canvas, said = page.locator(".zoomable canvas"), page.locator(".zoomable output")
            canvas.scroll_into_view_if_needed()
            self.assertGreater(self.colours(page), 4)
            height = canvas.bounding_box()["height"]
            chooser = page.locator(".zoomable select").nth(1)
            other = chooser.evaluate("it => [...it.options].find(o => !o.disabled && o.value).value")
            chooser.select_option(other)
            self.assertGreater(canvas.bounding_box()["height"], 1.5 * height, "two runs on one scale")
            search = page.get_by_role("searchbox", name="Find boxes by name")
            search.fill("softmax")
            self.assertRegex(said.inner_text(), r"^\d{3,} boxes")
            search.press("Enter")
            page.wait_for_timeout(100)
            self.assertRegex(said.inner_text(), "softmax.* of forward of micro-batch 0 · ")
            canvas.focus()
            for key in ("+", "ArrowRight", "n", "p", "-", "Home"):
                canvas.press(key)
            page.wait_for_timeout(100)
            self.assertGreater(self.colours(page), 4)
            page.emulate_media(media="print")
            self.assertFalse(canvas.is_visible())
            self.assertTrue(page.locator(".drawn .choice:not([hidden]) svg").first.is_visible())

        self.look("bpipe-gpt3-96b", act)

    def test_threads_and_streams_are_drawn(self) -> None:
        foretrain(self.folder, "run", "replay-resnet50-v100", "--quiet")
        self.look("replay-resnet50-v100", lambda page: self.assertGreater(self.colours(page), 4))


if __name__ == "__main__":
    unittest.main()
