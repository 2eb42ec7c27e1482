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
// Points: charts of one at a time, all over the page. Without this script the first is shown.
const drawn = [...document.querySelectorAll(".points")];
if (drawn.length > 0) {
  const points = drawn[0];
  const [label, select] = [document.createElement("label"), document.createElement("select")];
  for (const point of points.querySelectorAll(":scope > .point")) select.append(new Option(point.dataset.name));
  const show = () =>
    drawn.forEach((part) =>
      [...part.querySelectorAll(":scope > .point")].forEach((point, index) => {
        point.hidden = index !== select.selectedIndex;
        for (const title of point.querySelectorAll("[data-anchor]"))
          point.hidden ? title.removeAttribute("id") : (title.id = title.dataset.anchor);
      }),
    );
  select.addEventListener("change", show);
  label.append("Drawn for ", select);
  const bar = document.createElement("div");
  bar.className = "drawn-for";
  bar.append(label);
  if (points.dataset.more) {
    const more = document.createElement("p");
    more.className = "aid";
    more.textContent = points.dataset.more;
    bar.append(more);
  }
  points.prepend(bar);
}
// Contents: folded where they stand on top of the page; the section that is read is marked.
const contents = document.querySelector(".contents");
if (contents) {
  const [details, beside] = [contents.querySelector("details"), matchMedia("(min-width: 75rem)")];
  const fold = () => (details.open = beside.matches);
  beside.addEventListener("change", fold);
  fold();
  const links = [...contents.querySelectorAll("a")];
  const mark = () => {
    const places = links.map((link) => document.getElementById(link.hash.slice(1)));
    const passed = places.filter((place) => place && place.getBoundingClientRect().top < innerHeight / 3).length;
    const ended = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const read = ended ? links.length - 1 : Math.max(passed - 1, 0);
    links.forEach((link, index) => (index === read ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  };
  addEventListener("scroll", mark, { passive: true });
  links.forEach((link) => link.addEventListener("click", () => { if (!beside.matches) details.open = false; }));
  mark();
}
// Boxes that scroll take the keyboard.
const watched = new ResizeObserver((boxes) => {
  for (const { target: box } of boxes) {
    const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
    const title = box.closest("figure, section")?.querySelector("h3, h2")?.textContent;
    const said = { tabindex: "0", role: "region", "aria-label": title ?? "Details" };
    for (const [name, value] of Object.entries(said)) scrolls ? box.setAttribute(name, value) : box.removeAttribute(name);
  }
});
document.querySelectorAll(".wide, .plot, pre").forEach((box) => watched.observe(box));
// What a figure shows, as a table for other programs: its tables cell by cell, else its marks.
const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const shown = (element) => !element.closest("[hidden]");
const rows = (figure) => {
  const tables = [...figure.querySelectorAll("table")].filter(shown);
  if (tables.length > 0)
    return tables.flatMap((table) => [...table.rows].map((row) => [...row.cells].map((one) => one.dataset.sort ?? one.textContent.trim())));
  const marks = [...figure.querySelectorAll("svg rect > title, svg circle > title")].filter(shown);
  return marks.length > 0 ? [["mark"], ...marks.map((title) => [title.textContent])] : [];
};
for (const figure of document.querySelectorAll("figure")) {
  if (rows(figure).length === 0) continue;
  const name = figure.querySelector("h3")?.textContent ?? "figure";
  const csv = () => rows(figure).map((row) => row.map(cell).join(",") + "\n").join("");
  const save = document.createElement("a");
  save.textContent = "CSV";
  save.href = "#";
  save.download = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") + ".csv";
  save.setAttribute("aria-label", `CSV: ${name}`);
  save.addEventListener("click", () => (save.href = "data:text/csv;charset=utf-8," + encodeURIComponent(csv())));
  const copy = document.createElement("button");
  copy.textContent = "Copy";
  copy.setAttribute("aria-label", `Copy: ${name}`);
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(csv());
    copy.textContent = "Copied";
  });
  const tools = document.createElement("div");
  tools.className = "tools";
  tools.append(save, copy);
  figure.append(tools);
}
