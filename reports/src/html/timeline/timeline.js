"use strict";
// The timeline on a canvas: boxes of visits, which open into operators where there is room. Without this script, and on
// paper, the pictures beside it are shown.
for (const root of document.querySelectorAll(".zoomable")) {
  const data = JSON.parse(root.querySelector(".spans").textContent);
  if (data.runs.length === 0) continue;
  const ROW = { true: 24, false: 12 };
  const [HEAD, AXIS, NARROW] = [20, 22, 0.6];
  // Width of the names of lanes, less where the page is narrow.
  let LABEL = 150;
  const numbers = (text) => (text === "" ? [] : text.split(" ").map((digits) => parseInt(digits, 36)));

  // Of each lane begins, ends and the rest in columns, in ticks of the run.
  const columns = (flat, width) => {
    const count = flat.length / width;
    const out = { count, start: new Float64Array(count), end: new Float64Array(count), more: [] };
    for (let field = 2; field < width; field++) out.more.push(new Uint32Array(count));
    let until = 0;
    for (let index = 0; index < count; index++) {
      const at = index * width;
      out.start[index] = until + flat[at];
      until = out.end[index] = out.start[index] + flat[at + 1];
      for (let field = 2; field < width; field++) out.more[field - 2][index] = flat[at + field];
    }
    return out;
  };
  for (const run of data.runs) {
    for (const lane of run.lanes) lane.spans = columns(numbers(lane.spans), 6);
    run.patterns = run.patterns.map((pattern) => columns(numbers(pattern), 4));
    run.path = numbers(run.path);
    // A leg on a lane that is not shown is drawn on the one that its rank computes on.
    let main = 0;
    run.lanes.forEach((lane, index) => (lane.of = main = lane.main ? index : main));
  }

  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const chooser = (label, none) => {
    const select = make("select", { ariaLabel: label });
    if (none) select.append(new Option(none, ""));
    data.runs.forEach((run, index) => select.append(new Option(run.name, index)));
    return select;
  };
  const shown = chooser("Run to show");
  const beside = chooser("Run to show below it", "nothing below");
  shown.value = Math.min(data.first, data.runs.length - 1);
  const search = make("input", { type: "search", placeholder: "find a name …", ariaLabel: "Find boxes by name" });
  const all = make("input", { type: "checkbox" });
  const path = make("input", { type: "checkbox", checked: true });
  const whole = make("button", { type: "button", textContent: "whole step" });
  const controls = make("div", { className: "controls" }, shown);
  if (data.runs.length > 1) controls.append("above", beside);
  controls.append(search, whole);
  if (data.runs.some((run) => run.lanes.some((lane) => !lane.main))) controls.append(make("label", {}, all, " all lanes"));
  if (data.runs.some((run) => run.path.length > 0)) controls.append(make("label", {}, path, " critical path"));
  const canvas = make("canvas", { tabIndex: 0, role: "img" });
  const said = make("output", { className: "aid", ariaLive: "polite" });
  const keys = "Drag to move, double click or Ctrl and the wheel to zoom, click a box to read it. Keys: ← → move, + − zoom, Home the whole step, n and p the next and previous box or hit.";
  root.append(controls, canvas, said, make("p", { className: "aid", textContent: keys }));
  root.hidden = false;
  root.parentElement.classList.add("is-zoomable");

  const context = canvas.getContext("2d");
  let [width, height, rows, transform, chosen, hits] = [0, 0, [], d3.zoomIdentity, null, null];
  const runs = () => [...new Set([shown, beside].map((select) => select.value).filter((value) => value !== ""))].map((value) => data.runs[value]);
  const lasts = () => Math.max(...runs().map((run) => run.end * run.tick));
  const plain = () => width - LABEL - 4;
  // Seconds to pixels, and back.
  const x = (seconds) => LABEL + transform.applyX((seconds / lasts()) * plain());
  const seconds = (pixel) => (transform.invertX(pixel - LABEL) / plain()) * lasts();
  const text = (run, number) => run.texts[number];
  const told = (time) => {
    const exact = Number(time.toPrecision(4));
    const [unit, scale] = exact >= 1 ? ["s", 1] : exact >= 1e-3 ? ["ms", 1e3] : exact >= 1e-6 ? ["µs", 1e6] : ["ns", 1e9];
    return `${Number((exact * scale).toPrecision(4))} ${unit}`;
  };

  const layout = () => {
    for (const option of beside.options) option.disabled = option.value === shown.value;
    rows = [];
    let top = AXIS;
    for (const run of runs()) {
      if (runs().length > 1) rows.push({ run, top, title: run.name }), (top += HEAD);
      run.lanes.forEach((lane, index) => {
        if (!lane.main && !all.checked) return;
        rows.push({ run, lane, index, top, height: ROW[lane.main] - 2 });
        top += ROW[lane.main];
      });
    }
    height = top + 4;
    width = root.clientWidth;
    LABEL = Math.min(150, Math.round(width * 0.3));
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = Math.min(height * ratio, 32000);
    canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, canvas.height / height, 0, 0);
    behaviour.extent([[0, 0], [plain(), height]]).translateExtent([[0, 0], [plain(), height]]);
    behaviour.scaleExtent([1, Math.max(2, (lasts() / Math.min(...runs().map((run) => run.tick))) / 50)]);
    const lanes = runs().map((run) => `${run.name}: ${run.lanes.length} lanes, ${told(run.end * run.tick)}`);
    canvas.ariaLabel = `Timeline of one step. ${lanes.join("; ")}. ${keys}`;
    draw();
  };

  // The first span that ends after a tick.
  const after = (spans, tick) => {
    let [low, high] = [0, spans.count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans.end[middle] <= tick) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  let ink, muted, grid, bed;
  const colour = (name) => {
    const css = data.colours[name] ?? "rgb(153 153 153 / 1)";
    return css === "var(--ink)" ? ink : css;
  };
  // Text that can be read on a colour, which may let the bed through.
  const bright = ([red, green, blue]) => red * 0.3 + green * 0.59 + blue * 0.11;
  const parts = (css) => css.startsWith("#") ? [1, 3, 5].map((at) => parseInt(css.slice(at, at + 2), 16)) : css.match(/[\d.]+/g).map(Number);
  const light = (css) => {
    const [red, green, blue, alpha = 1] = parts(css);
    return bright([red, green, blue]) * alpha + bright(parts(bed)) * (1 - alpha) < 140 ? "#fefefe" : "#010101";
  };
  const label = (name, from, to, top, tall, fill) => {
    const [left, right] = [Math.max(from, LABEL), Math.min(to, width)];
    if (tall < 14 || right - left < 14) return;
    const most = Math.floor((right - left - 4) / 6.2);
    if (most < 2) return;
    context.fillStyle = fill;
    context.fillText(name.length > most ? `${name.slice(0, most - 1)}…` : name, (left + right) / 2, top + tall / 2 + 0.5);
  };
  // Boxes of a list, those narrower than a pixel as one.
  const boxes = (run, spans, offset, top, tall, states, names, each) => {
    const unit = run.tick;
    const [from, to] = [seconds(LABEL) / unit - offset, seconds(width) / unit - offset];
    let painted = -1;
    for (let index = after(spans, from); index < spans.count && spans.start[index] < to; index++) {
      const [left, right] = [x((spans.start[index] + offset) * unit), x((spans.end[index] + offset) * unit)];
      if (right - painted < NARROW && right - left < NARROW) continue;
      const clipped = Math.max(left, LABEL);
      if (each && each(index, left, right)) {
        painted = right;
        continue;
      }
      const fill = colour(text(run, states[index]));
      const dim = hits && !hits.names.has(text(run, names[index]));
      context.globalAlpha = dim ? 0.2 : 1;
      context.fillStyle = fill;
      context.fillRect(clipped, top, Math.max(Math.min(right, width) - clipped - (right - left > 3 ? 1 : 0), 0.7), tall);
      label(text(run, names[index]), left, right, top, tall, light(fill));
      context.globalAlpha = 1;
      painted = right;
    }
  };

  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    [ink, muted, grid, bed] = ["--ink", "--muted", "--grid", "--bed"].map((name) => style.getPropertyValue(name).trim());
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    // The axis.
    const [from, to] = [seconds(LABEL), seconds(width)];
    const most = Math.max(2, Math.min(8, Math.floor(plain() / 80)));
    const coarse = 10 ** Math.ceil(Math.log10((to - from) / most));
    const step = [0.2, 0.5, 1].map((part) => part * coarse).find((part) => (to - from) / part <= most) ?? coarse;
    context.textAlign = "center";
    for (let tick = Math.ceil(from / step); tick * step <= to; tick++) {
      context.fillStyle = grid;
      context.fillRect(x(tick * step), AXIS - 4, 1, height - AXIS);
      context.fillStyle = muted;
      const place = Math.min(Math.max(x(tick * step), LABEL + 16), width - 24);
      context.fillText(told(tick * step), place, AXIS / 2);
    }
    for (const { run, lane, top, height: tall, title } of rows) {
      if (title) {
        context.textAlign = "left";
        context.fillStyle = ink;
        context.fillText(title, 0, top + HEAD / 2);
        continue;
      }
      context.fillStyle = bed;
      const [begin, end] = [Math.max(x(0), LABEL), Math.min(x(run.end * run.tick), width)];
      if (end > begin) context.fillRect(begin, top, end - begin, tall);
      context.textAlign = "center";
      const [states, names, patterns, counts] = lane.spans.more;
      boxes(run, lane.spans, 0, top, tall, states, names, (index, left, right) => {
        const pattern = patterns[index] ? run.patterns[patterns[index] - 1] : null;
        if (!pattern || right - left < 6 * pattern.count) return false;
        boxes(run, pattern, lane.spans.start[index], top, tall, pattern.more[0], pattern.more[1]);
        return true;
      });
    }
    context.textAlign = "right";
    for (const { lane, top, height: tall } of rows) {
      if (!lane) continue;
      context.fillStyle = lane.main ? ink : muted;
      const most = Math.floor((LABEL - 8) / 6.6);
      context.fillText(lane.name.length > most ? `${lane.name.slice(0, most - 1)}…` : lane.name, LABEL - 8, top + tall / 2);
    }
    if (path.checked) runs().forEach(critical);
    if (chosen) {
      const row = rows.find((row) => row.lane === chosen.lane);
      if (!row) return;
      context.strokeStyle = ink;
      context.lineWidth = 2;
      const [left, right] = [x(chosen.start), x(chosen.end)];
      if (right > LABEL && left < width) context.strokeRect(Math.max(left, LABEL), row.top, Math.max(right - Math.max(left, LABEL), 2), row.height);
    }
  };

  // A line along the lower edge of boxes on the critical path, and from one lane to the next.
  const critical = (run) => {
    const of = new Map(rows.filter((row) => row.run === run && row.lane).map((row) => [row.index, row]));
    context.save();
    context.beginPath();
    context.rect(LABEL, 0, width - LABEL, height);
    context.clip();
    context.strokeStyle = ink;
    context.lineWidth = 2.5;
    context.beginPath();
    let begun = false;
    for (let at = 0; at < run.path.length; at += 3) {
      const row = of.get(run.path[at]) ?? of.get(run.lanes[run.path[at]].of);
      if (!row) continue;
      const [from, to] = [x(run.path[at + 1] * run.tick), x(run.path[at + 2] * run.tick)];
      if (to < LABEL - 2000 || from > width + 2000) {
        begun = false;
        continue;
      }
      const y = row.top + row.height - 1;
      if (begun) context.lineTo(from, y);
      else context.moveTo(from, y);
      context.lineTo(to, y);
      begun = true;
    }
    context.stroke();
    context.restore();
  };

  // The box of a lane at a time: a piece of a span if that is open.
  const found = (row, time) => {
    const { run, lane } = row;
    const tick = time / run.tick;
    const index = after(lane.spans, tick);
    if (index >= lane.spans.count || lane.spans.start[index] > tick) return null;
    const box = (spans, at, offset, state, name) => ({
      run, lane, index, state: text(run, state), name: text(run, name), count: 1, within: "",
      start: (spans.start[at] + offset) * run.tick, end: (spans.end[at] + offset) * run.tick,
    });
    const [states, names, patterns, counts] = lane.spans.more;
    const outer = { ...box(lane.spans, index, 0, states[index], names[index]), count: counts[index] };
    const pattern = patterns[index] ? run.patterns[patterns[index] - 1] : null;
    if (!pattern || x(outer.end) - x(outer.start) < 6 * pattern.count) return outer;
    const offset = lane.spans.start[index];
    const at = after(pattern, tick - offset);
    if (at >= pattern.count || pattern.start[at] > tick - offset) return outer;
    return { ...box(pattern, at, offset, pattern.more[0][at], pattern.more[1][at]), within: ` of ${outer.name}` };
  };
  const tell = (box) => {
    if (!box) return (said.textContent = "");
    const name = box.count > 1 ? `${box.count} spans, mostly ${box.state}; shorter than ${told(box.run.joined)} they are joined here: --trace writes all` : box.name === box.state ? box.name : `${box.name}${box.within} · ${box.state}`;
    const run = runs().length > 1 ? `${box.run.name}, ` : "";
    said.textContent = `${run}${box.lane.name}: ${name} · ${told(box.end - box.start)}, from ${told(box.start)}`;
  };
  const under = (event) => {
    const place = canvas.getBoundingClientRect();
    const y = event.clientY - place.top;
    const row = rows.find((row) => row.lane && y >= row.top && y < row.top + row.height + 2);
    const pixel = event.clientX - place.left;
    return row && pixel >= LABEL ? found(row, seconds(pixel)) : null;
  };

  const behaviour = d3.zoom().filter((event) => {
    if (event.type === "wheel") return event.ctrlKey || event.metaKey || document.activeElement === canvas;
    return !event.button;
  });
  let due = 0;
  const soon = () => (due ||= requestAnimationFrame(() => ((due = 0), draw())));
  behaviour.on("zoom", (event) => ((transform = event.transform), soon()));
  const selection = d3.select(canvas).call(behaviour);
  canvas.addEventListener("pointermove", (event) => tell(under(event) ?? chosen));
  canvas.addEventListener("click", (event) => ((chosen = under(event)), tell(chosen), soon()));
  // Shows a box, at a third of the width unless it is wide enough to be read.
  const show = (box) => {
    chosen = box;
    tell(box);
    const length = Math.max(box.end - box.start, lasts() * 1e-9);
    const scale = Math.min(Math.max(transform.k, lasts() / (length * 400)), lasts() / length / 3);
    const middle = ((box.start + box.end) / 2 / lasts()) * plain();
    const k = Math.max(1, scale);
    const left = Math.min(0, Math.max(plain() / 2 - k * middle, plain() * (1 - k)));
    selection.call(behaviour.transform, d3.zoomIdentity.translate(left, 0).scale(k));
    soon();
  };

  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    hits = null;
    if (wanted !== "") {
      hits = { names: new Set(), at: -1, list: [] };
      for (const run of runs()) run.texts.filter((name) => name.toLowerCase().includes(wanted)).forEach((name) => hits.names.add(name));
      for (const { run, lane } of rows) {
        if (!lane) continue;
        const [states, names, patterns] = lane.spans.more;
        for (let index = 0; index < lane.spans.count && hits.list.length < 100000; index++) {
          const offset = lane.spans.start[index];
          const add = (spans, at, offset, state, name, within) =>
            hits.list.push({ run, lane, index, state: text(run, state), name: text(run, name), count: 1, within, start: (spans.start[at] + offset) * run.tick, end: (spans.end[at] + offset) * run.tick });
          if (hits.names.has(text(run, names[index]))) add(lane.spans, index, 0, states[index], names[index], "");
          else if (patterns[index]) {
            const pattern = run.patterns[patterns[index] - 1];
            for (let at = 0; at < pattern.count; at++) {
              if (hits.names.has(text(run, pattern.more[1][at]))) add(pattern, at, offset, pattern.more[0][at], pattern.more[1][at], ` of ${text(run, names[index])}`);
            }
          }
        }
      }
      hits.list.sort((a, b) => a.start - b.start);
      said.textContent = `${hits.list.length} boxes are called so; Enter shows the next one.`;
    }
    soon();
  };
  const next = (way) => {
    if (hits && hits.list.length > 0) {
      hits.at = (hits.at + way + hits.list.length) % hits.list.length;
      return show(hits.list[hits.at]);
    }
    const row = rows.find((row) => row.lane === chosen?.lane) ?? rows.find((row) => row.lane);
    const spans = row.lane.spans;
    const index = chosen ? chosen.index + way : after(spans, seconds(LABEL) / row.run.tick);
    if (index < 0 || index >= spans.count) return;
    const box = found(row, ((spans.start[index] + spans.end[index]) / 2) * row.run.tick);
    if (box) show(box);
  };
  const act = {
    ArrowLeft: () => selection.call(behaviour.translateBy, plain() / 8 / transform.k, 0),
    ArrowRight: () => selection.call(behaviour.translateBy, -plain() / 8 / transform.k, 0),
    "+": () => selection.call(behaviour.scaleBy, 1.5),
    "=": () => selection.call(behaviour.scaleBy, 1.5),
    "-": () => selection.call(behaviour.scaleBy, 1 / 1.5),
    Home: () => selection.call(behaviour.transform, d3.zoomIdentity),
    n: () => next(1),
    p: () => next(-1),
    "/": () => search.focus(),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !act[event.key]) return;
    event.preventDefault();
    act[event.key]();
  });
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
  });
  whole.addEventListener("click", act.Home);
  for (const input of [shown, beside, all, path]) {
    input.addEventListener("change", () => ((chosen = null), layout(), find()));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", soon);
  new ResizeObserver(() => root.clientWidth !== width && layout()).observe(root);
  layout();
}
