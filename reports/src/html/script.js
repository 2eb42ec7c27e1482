"use strict";
// Sorting of tables: a click on a title, a second click the other way.
for (const table of document.querySelectorAll("table.sortable")) {
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, column) => {
    const button = document.createElement("button");
    button.textContent = title.textContent;
    title.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = title.getAttribute("aria-sort") === "ascending";
      titles.forEach((other) => other.removeAttribute("aria-sort"));
      title.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const order = (a, b) => {
        const [x, y] = [a.cells[column], b.cells[column]];
        const [m, n] = [x.dataset.sort, y.dataset.sort];
        if (m !== undefined && n !== undefined) return sign * (Number(m) - Number(n));
        // What has no number stays last either way.
        if (m !== undefined || n !== undefined) return m !== undefined ? -1 : 1;
        return sign * x.textContent.localeCompare(y.textContent, "en", { numeric: true });
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(order));
    });
  });
}
// Filters: only the rows that have every word.
for (const table of document.querySelectorAll("table.filterable")) {
  const field = document.createElement("input");
  field.type = "search";
  field.className = "filter";
  field.placeholder = "only rows with …";
  field.setAttribute("aria-label", "Only rows with these words");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
  table.parentElement.before(field);
}
// Pickers: one of several charts at a time. Without this script all of them are shown.
for (const picker of document.querySelectorAll(".picker")) {
  const charts = [...picker.querySelectorAll(":scope > .choice")];
  if (charts.length < 2) continue;
  const select = document.createElement("select");
  select.setAttribute("aria-label", "Which run to show");
  for (const chart of charts) {
    select.append(new Option(chart.dataset.name));
    chart.querySelector("h4").hidden = true;
  }
  const show = () => charts.forEach((chart, index) => (chart.hidden = index !== select.selectedIndex));
  select.selectedIndex = Number(picker.dataset.first);
  select.addEventListener("change", show);
  picker.prepend(select);
  show();
}
