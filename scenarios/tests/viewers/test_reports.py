"""Reports of library scenarios as readers see them, in a browser without a screen.

Needs the package `playwright`. `FORETRAIN_BINARY` names foretrain, `CHROMIUM` the browser, and
`AXE` the script of axe-core.
"""

import csv
import functools
import io
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from playwright.sync_api import sync_playwright

SCENARIOS = ["bpipe-gpt3-96b", "pipeline-schedules", "swap-shared-pcie", "terra-phases", "plan-time-or-price"]
WIDTHS = [400, 1280]
SCHEMES = ["light", "dark"]
# What scrolls inside does not make the page wider.
OUTSIDE = """() => [...document.querySelectorAll("body *")]
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
    .filter((one) => { const box = one.closest(".wide, .plot, pre"); return !box || box === one; })
    .map((one) => `${one.tagName} ${one.textContent.slice(0, 40)}`)"""
# Text that another text of the first screen lies upon.
OVERLAPS = """() => {
    const texts = [...document.querySelectorAll("header h1, header p, .first dt, .first dd, .first th, .first td span")];
    const boxes = texts.map((one) => [one, one.getBoundingClientRect()]);
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    return boxes.flatMap(([one, a], at) => boxes.slice(at + 1)
        .filter(([other, b]) => !one.contains(other) && !other.contains(one) && meet(a, b))
        .map(([other]) => `${one.textContent} / ${other.textContent}`));
}"""
# Pictures without a mark that can be seen.
BARE = """() => [...document.querySelectorAll(".plot svg")]
    .filter((svg) => svg.getClientRects().length > 0)
    .filter((svg) => ![...svg.querySelectorAll("rect, circle, path, polyline, polygon, line")]
        .some((mark) => { const box = mark.getBoundingClientRect(); return box.width + box.height > 1; }))
    .map((svg) => svg.querySelector("title")?.textContent)"""
# Boxes that scroll and that the keyboard cannot reach.
UNREACHABLE = """() => [...document.querySelectorAll(".wide, .plot, pre")]
    .filter((box) => !box.closest("details:not([open])"))
    .filter((box) => box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight)
    .filter((box) => box.tabIndex < 0)
    .map((box) => box.textContent.slice(0, 40))"""
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def of_each(test):
    """A test of every report."""

    @functools.wraps(test)
    def tests(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario):
                test(self, scenario)

    return tests


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = Path(cls.folder.name)
        command = [os.environ["FORETRAIN_BINARY"], "run", *SCENARIOS, "--out", cls.out, "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        cls.playwright = sync_playwright().start()
        browser = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        cls.browser = cls.playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.folder.cleanup()

    def page(self, scenario, width=1280, scheme="light"):
        """The report, with what goes wrong in it."""
        page = self.browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.addCleanup(page.close)
        page.wrong = []
        page.on("console", lambda said: page.wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("request", lambda asked: page.wrong.append(asked.url) if not asked.url.startswith("file:") else None)
        page.goto(f"file://{self.out / scenario / 'report.html'}")
        page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        return page

    @of_each
    def test_nothing_is_wrong_or_outside_at_any_width_and_scheme(self, scenario):
        for width in WIDTHS:
            for scheme in SCHEMES:
                page = self.page(scenario, width, scheme)
                self.assertEqual(page.wrong, [])
                self.assertEqual(page.evaluate(OUTSIDE), [], width)
                self.assertEqual(page.evaluate(OVERLAPS), [], width)
                self.assertEqual(page.evaluate(BARE), [])
                self.assertEqual(page.evaluate(UNREACHABLE), [])

    @of_each
    def test_axe_finds_nothing_serious(self, scenario):
        for scheme in SCHEMES:
            page = self.page(scenario, scheme=scheme)
            page.add_script_tag(path=os.environ["AXE"])
            found = page.evaluate("axe.run()")["violations"]
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            self.assertEqual([(one["id"], one["nodes"][0]["html"]) for one in serious], [])

    @of_each
    def test_the_first_screen_has_the_verdict_a_chart_and_four_numbers(self, scenario):
        page = self.page(scenario)
        bottom = "(one) => one.getBoundingClientRect().bottom"
        for part in ["p.finding", ".first dl.headline", ".first table.small"]:
            self.assertLess(page.locator(part).evaluate(bottom), 900, part)
        self.assertIn(page.locator("dl.headline dd").count(), range(1, 5))
        links = page.locator(".contents a")
        # Sections of points that are not shown are there too.
        sections = page.locator("h2:visible")
        self.assertEqual(links.count(), sections.count() + 1)
        links.last.click()
        self.assertLess(sections.last.evaluate("(one) => one.getBoundingClientRect().top"), 900)

    @of_each
    def test_step_times_are_those_of_the_table(self, scenario):
        page = self.page(scenario)
        with open(self.out / scenario / "results.csv", newline="") as file:
            known = [float(row["step_time_s"]) for row in csv.DictReader(file) if row["step_time_s"]]
        figure = page.locator("figure", has=page.locator("h3", has_text="How long does a step take"))
        marks = figure.locator("svg rect > title").all_text_contents()
        self.assertTrue(marks)
        for mark in marks:
            number, unit = re.search(r"([0-9.]+) (\S+)$", mark).groups()
            seconds = float(number) * UNITS[unit]
            self.assertTrue(any(abs(time / seconds - 1) < 0.006 for time in known), mark)

    @of_each
    def test_tables_are_sorted_and_pickers_show_one(self, scenario):
        page = self.page(scenario)
        title = page.locator("table.runs th button", has_text="step time")
        for sign in (1, -1):
            title.click()
            at = title.evaluate("(button) => button.closest('th').cellIndex")
            column = "(table, at) => [...table.tBodies[0].rows].map((row) => row.cells[at].dataset.sort)"
            values = page.locator("table.runs").evaluate(column, at)
            numbers = [sign * float(value) for value in values if value is not None]
            self.assertEqual(numbers, sorted(numbers))
        for picker in page.locator(".picker:has(> select:visible)").all():
            picker.locator("select").select_option(index=1)
            shown = picker.locator(":scope > .choice").evaluate_all("(all) => all.map((one) => !one.hidden)")
            self.assertEqual([at for at, is_shown in enumerate(shown) if is_shown], [1])

    def test_figures_can_be_saved(self):
        page = self.page(SCENARIOS[0])
        figure = page.locator("figure", has=page.locator("h3", has_text="How long does a step take"))
        with page.expect_download() as saved:
            figure.locator(".tools a").click()
        rows = list(csv.reader(io.StringIO(Path(saved.value.path()).read_text())))
        # Of a figure with a picker the part that is shown.
        marks = figure.locator("svg:visible rect > title").all_text_contents()
        self.assertGreater(len(marks), 1)
        self.assertEqual(rows, [["mark"], *([mark] for mark in marks)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
