"""The notebook and the page of the package, executed as they stand."""

import contextlib
import os
import pathlib
import re
import tempfile
import unittest

from support import PACKAGE, needs

EXAMPLES = pathlib.Path(PACKAGE, "examples")


class Examples(unittest.TestCase):
    @needs("nbclient", "ipykernel", "pandas")
    def test_notebooks_run_from_top_to_bottom(self):
        import nbclient
        import nbformat

        notebooks = sorted(EXAMPLES.glob("*.ipynb"))
        self.assertTrue(notebooks)
        for path in notebooks:
            notebook = nbformat.read(path, as_version=4)
            nbformat.validate(notebook)
            cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
            self.assertFalse([cell for cell in cells if cell.outputs or cell.execution_count], path)
            nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
            shown = [output.get("data", {}) for cell in cells for output in cell.outputs]
            self.assertTrue([data for data in shown if "srcdoc" in data.get("text/html", "")], path)
            self.assertTrue([data for data in shown if "<table" in data.get("text/html", "")], path)

    @needs("pandas")
    def test_the_page_of_the_package_runs(self):
        page = pathlib.Path(PACKAGE, "README.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        self.assertTrue(blocks)
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
            os.chdir(folder)
            try:
                names = {}
                for block in blocks:
                    exec(block, names)
            finally:
                os.chdir(here)


if __name__ == "__main__":
    unittest.main()
