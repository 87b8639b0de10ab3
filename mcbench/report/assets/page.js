(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const specs = JSON.parse($("figure-data")?.textContent ?? "{}");
  const config = { displayModeBar: false };  // dragging zooms, a double click resets
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let toggles = [];
  // `only` are the arms that a reader isolated; without any all are shown.
  const state = { smoothing: 5, only: new Set(), step: null, range: null };
  let arms = new Set();
  const isHidden = (arm) => state.only.size > 0 && arms.has(arm) && !state.only.has(arm);
  const FOCUS = 3; // bands and seeds of more arms than that would only cover each other
  const focused = () => (state.only.size || arms.size) <= FOCUS;
  function el(name, properties = {}, ...children) {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
  }

  // Numbers as mcbench/report/encode.py packs them --------------------------------------------

  function decode(value) {
    if (Array.isArray(value)) return value.map(decode);
    if (value === null || typeof value !== "object") return value;
    if (value.evenly) {
      const [start, gap, count] = value.evenly;
      return Array.from({ length: count }, (_, i) => start + i * gap);
    }
    const packed = value.u16 ?? value.f32;
    if (typeof packed === "string") {
      const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
      const view = new DataView(bytes.buffer);
      const level = (i) => {
        const one = view.getUint16(2 * i, true);
        return one === 65535 ? NaN : value.low + one * value.scale;
      };
      const flat = value.f32
        ? Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true))
        : Array.from({ length: bytes.length / 2 }, (_, i) => level(i));
      return value.shape ? rows(flat, value.shape[1]) : flat;
    }
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, decode(item)]));
  }
  const rows = (flat, width) =>
    Array.from({ length: flat.length / width }, (_, i) => flat.slice(i * width, (i + 1) * width));

  // Curves over seeds: the running mean of each, their mean and its 95 % t interval, as in
  // mcbench/report/series.py ------------------------------------------------------------------

  function runningMean(values, window) {
    const count = values.length;
    if (window <= 1) return values;
    const sums = new Float64Array(count + 1), known = new Float64Array(count + 1);
    values.forEach((value, i) => {
      const missing = value === null || Number.isNaN(value);
      sums[i + 1] = sums[i] + (missing ? 0 : value);
      known[i + 1] = known[i] + (missing ? 0 : 1);
    });
    const before = Math.floor((window - 1) / 2), after = Math.floor(window / 2) + 1;
    return values.map((value, i) => {
      if (value === null || Number.isNaN(value)) return NaN;
      const first = Math.max(0, i - before), last = Math.min(count, i + after);
      return (sums[last] - sums[first]) / (known[last] - known[first]);
    });
  }

  // t is the quantile of Student's t for so many seeds, null where they are too few for a band.
  function overSeeds(runs, t, window) {
    const smooth = runs.map((run) => runningMean(run, window)), seeds = runs.length;
    const mean = [], low = [], high = [];
    for (let i = 0; i < runs[0].length; i++) {
      const at = smooth.map((run) => (run[i] === null ? NaN : run[i]));
      const middle = at.reduce((sum, value) => sum + value, 0) / seeds;
      const squares = at.reduce((sum, value) => sum + (value - middle) ** 2, 0);
      const half = t === null ? NaN : t * Math.sqrt(squares / (seeds - 1) / seeds);
      mean.push(middle);
      low.push(middle - half);
      high.push(middle + half);
    }
    return { mean, low, high };
  }

  // Figures -----------------------------------------------------------------------------------

  let divs = [];
  function collect() { // what the page holds; of a live page it changes
    divs = [...document.querySelectorAll(".plot")];
    toggles = [...document.querySelectorAll(".toggles button[value]")];
    arms = new Set(toggles.map((button) => button.value));
    for (const arm of state.only) if (!arms.has(arm)) state.only.delete(arm);
    for (const button of toggles) button.setAttribute("aria-pressed", String(state.only.has(button.value)));
  }
  collect();
  const onPaper = (div) => (div.style.height  // figures with many rows
    ? { width: 640, height: parseInt(div.style.height), autosize: false }
    : { width: 312, height: 230, autosize: false });
  let paper = false;  // being printed
  const figures = new Map();  // div id -> decoded data and layout, made when first drawn

  function figureOf(div) {
    if (!figures.has(div.id)) {
      const { data, layout } = decode(specs[div.id]);
      const curves = [];
      data.forEach((trace, i) => {
        if (!trace.curve) return;
        const { x, runs, t } = trace.curve;
        trace.x = runs.flatMap(() => [...x, null]);
        trace.y = runs.flatMap((run) => [...run, null]);
        curves.push({ x, runs, t, band: data[i + 1], mean: data[i + 2], smooth: trace.meta.smooth });
        delete trace.curve;
      });
      // What the strip under the plot tells, the hover box need not.
      const told = curves.length || specs[div.id].linked
        ? data.filter((trace) => trace.type === "scatter" && trace.name && /lines/.test(trace.mode)
          && trace.showlegend !== false && !["seeds", "band"].includes(trace.meta?.role) && trace.fill !== "toself")
        : [];
      for (const { mean } of curves) if (!told.includes(mean)) told.push(mean);
      for (const trace of told) trace.hoverinfo = "none";
      for (const trace of told) trace.format = trace.hovertemplate;
      for (const trace of told) delete trace.hovertemplate;
      layout.uirevision = "kept";
      figures.set(div.id, { data, layout, curves, told, linked: specs[div.id].linked });
    }
    return figures.get(div.id);
  }

  function smoothed(figure) {
    for (const { x, runs, t, band, mean, smooth } of figure.curves) {
      const found = overSeeds(runs, t, smooth ? state.smoothing : 1);
      mean.x = x;
      mean.y = found.mean;
      mean.sides = found;
      const kept = x.map((_, i) => i).filter((i) => !Number.isNaN(found.low[i]));
      const back = [...kept].reverse();
      band.x = [...kept, ...back].map((i) => x[i]);
      band.y = [...kept.map((i) => found.high[i]), ...back.map((i) => found.low[i])];
    }
  }

  function framed(figure, div) {
    const frames = figure.layout.meta?.frames;
    if (!frames) return;
    let shown = null;
    frames.forEach(({ steps, x, y }, i) => {
      const after = steps.findIndex((step) => step > (state.step ?? Infinity));
      const at = after < 0 ? steps.length - 1 : Math.max(0, after - 1);
      figure.data[i].y = y[at];
      if (x) figure.data[i].x = x[at];
      shown = steps[at];
    });
    const caption = div.closest("figure").querySelector("figcaption");
    caption.dataset.step = shown === null ? "" : ` · step ${shown}`;
  }

  // Cells of a map that are too narrow for an interval show their value alone; to touch one shows the rest, on
  // paper the numbers below.
  const NARROW = 480;
  function narrowed(figure, div) {
    for (const trace of figure.data) {
      if (trace.type !== "heatmap" || !trace.texttemplate || !trace.text) continue;
      trace.whole ??= trace.text;
      trace.text = paper || div.clientWidth < NARROW ? trace.whole.map((row) => row.map((cell) => String(cell).split("<br>")[0])) : trace.whole;
    }
  }

  // Figures come without colours of their own for text and grid: those are the reader's theme, and
  // dark on white on paper.
  const INK = { "--muted": "#444", "--grid": "rgba(0,0,0,.15)" };
  const tone = (name) => (paper && INK[name]) || css(name);
  function themed(layout) {
    layout.font = { ...layout.font, color: tone("--muted"), family: css("--sans") };
    layout.hoverlabel = {
      ...layout.hoverlabel, bgcolor: css("--card"), bordercolor: css("--line"),
      font: { ...layout.hoverlabel?.font, color: css("--fg") },
    };
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(key)) {
        Object.assign(layout[key], {
          gridcolor: tone("--grid"), spikecolor: css("--muted"), spikethickness: 1, spikedash: "solid",
        });
      }
    }
    return layout;
  }

  const SIDE = 134; // pixels beside the plot for the names at line ends
  const sided = (div, figure) => !paper && div.clientWidth >= 420 && figure.curves.length > 1;

  function draw(div) {
    document.body.dataset.firstDrawn ??= String(Math.round(performance.now()));
    const figure = figureOf(div);
    smoothed(figure);
    framed(figure, div);
    narrowed(figure, div);
    for (const trace of figure.data) {
      if (trace.legendgroup === undefined) continue;
      const part = ["seeds", "band"].includes(trace.meta?.role);
      trace.visible = !isHidden(trace.legendgroup) && (!part || focused() || figure.curves.length <= FOCUS);
    }
    if (figure.linked && !paper) {
      const axis = figure.layout.xaxis;
      if (state.range) Object.assign(axis, { range: [...state.range], autorange: false });
      else { delete axis.range; axis.autorange = true; }
    }
    const first = !div.data;
    // New objects each time: Plotly.react compares with those it was given before.
    const layout = structuredClone(themed(figure.layout));
    layout.margin.r = sided(div, figure) ? SIDE : 12;
    layout.shapes = layout.shapes?.filter(({ name }) =>
      !name?.startsWith("stage:") || name.slice(6).split("|").some((arm) => !isHidden(arm)));
    Object.assign(layout, paper ? onPaper(div) : { autosize: true });
    const result = Plotly.react(div, figure.data.map(({ sides, format, ...trace }) => trace), layout, config);
    if (first) wire(div, figure);
    place(div);
    tell(div);
    return result;
  }

  // Names and numbers -----------------------------------------------------------------------------

  const isKnown = (value) => Number.isFinite(value);
  function written(value, format) {
    const [, before, digits, kind, after] =
      /^(.*?)%\{y(?::[+]?\.(\d)([a-z]))?\}(.*?)(?:<extra>.*)?$/.exec(format ?? "") ?? ["", "", "3", "g", ""];
    const text = kind === "f" ? value.toFixed(digits) : kind === "e" ? value.toExponential(digits)
      : String(Number(value.toPrecision(digits ?? 3)));
    return [`${before}${text}`.replaceAll("-", "−"), after];
  }
  const nearest = (xs, x) => xs.reduce((best, at, i) =>
    (at !== null && Math.abs(at - x) < Math.abs((xs[best] ?? Infinity) - x) ? i : best), 0);

  function named(trace) {
    const text = trace.meta?.short ?? trace.name;
    if (!arms.has(trace.legendgroup)) return el("span", { textContent: text, title: trace.name });
    const button = el("button", { type: "button", textContent: text });
    button.addEventListener("click", () => isolate(trace.legendgroup));
    return button;
  }
  function keyed({ line = {}, fillcolor, stackgroup }) {
    const holder = el("span");
    const dash = { dot: "2 3", dash: "7 4", dashdot: "7 3 2 3", longdash: "11 4", longdashdot: "11 3 2 3" }[line.dash] ?? "";
    holder.innerHTML = stackgroup ? '<svg class="key" viewBox="0 0 30 8" aria-hidden="true"><rect width="30" height="8"/></svg>'
      : '<svg class="key" viewBox="0 0 30 8" aria-hidden="true"><line x1="0" y1="4" x2="30" y2="4" stroke-width="3"/></svg>';
    holder.querySelector("rect")?.setAttribute("fill", fillcolor);
    holder.querySelector("line")?.setAttribute("stroke", line.color);
    if (dash) holder.querySelector("line")?.setAttribute("stroke-dasharray", dash);
    return holder.firstChild;
  }

  // The strip under a plot: every line's value where the reader points, or where it ends.
  function tell(div, x = null) {
    const { told, linked } = figureOf(div);
    if (!told.length) return;
    const box = div.closest("figure").querySelector(".entries");
    const shown = told.filter((trace) => trace.visible !== false);
    const lines = shown.map((trace) => trace.legendgroup ?? trace.name).join("|");
    if (box.dataset.lines === lines) {  // a name says how far its run is
      shown.forEach((trace, i) => {
        const name = box.children[i + 1].children[1], { title, textContent } = named(trace);
        if (name.textContent !== textContent) Object.assign(name, { title, textContent });
      });
    } else {
      box.classList.add("strip");
      box.dataset.lines = lines;
      box.replaceChildren(el("li", { className: "at" }), ...shown.map((trace) =>
        el("li", {}, keyed(trace), named(trace), el("span", {}, el("b"), el("small")))));
    }
    const at = x !== null || !linked ? x : state.step;
    box.firstChild.textContent = at === null ? "at the end" : linked ? `at step ${at}` : `at ${Number(at.toPrecision(3))}`;
    shown.forEach((trace, i) => {
      const [value, range] = box.children[i + 1].lastChild.children;
      const last = trace.y.findLastIndex?.(isKnown) ?? trace.y.length - 1;
      const spot = at === null ? last : nearest(trace.x, at), y = trace.y[spot];
      if (!isKnown(y)) { value.textContent = "–"; range.textContent = ""; return; }
      const [text, unit] = written(y, trace.format);
      const low = trace.sides?.low[spot], high = trace.sides?.high[spot];
      value.textContent = text + unit;
      range.textContent = isKnown(low)
        ? ` ${written(low, trace.format)[0]} to ${written(high, trace.format)[0]}` : "";
    });
  }

  // Names at the ends of the lines, pushed apart where they would cover each other.
  function label(div) {
    const figure = figureOf(div), full = div._fullLayout;
    let box = div.querySelector(":scope > .labels");
    if (!sided(div, figure) || !full?.yaxis) { box?.remove(); return; }
    if (!box) { box = el("div", { className: "labels", ariaHidden: "true" }); div.append(box); } // the strip below names them too
    const shown = figure.told.filter((trace) => trace.visible !== false && trace.xaxis === undefined);
    const ends = shown.map((trace) => {
      const last = trace.y.findLastIndex(isKnown);
      return { trace, y: last < 0 ? NaN : full.yaxis._offset + full.yaxis.l2p(trace.y[last]) };
    }).filter(({ y }) => isKnown(y)).sort((a, b) => a.y - b.y);
    box.replaceChildren(...ends.map((end) => (end.node = named(end.trace))));
    for (const { node } of ends) node.tabIndex = -1;
    const top = full._size.t - 8, bottom = full._size.t + full._size.h + 26;
    for (const end of ends) {
      Object.assign(end.node.style, {
        left: `${full._size.l + full._size.w + 8}px`,
        color: arms.has(end.trace.legendgroup) ? `color-mix(in srgb, ${end.trace.line.color} 55%, var(--fg))` : "var(--muted)",
      });
      end.height = end.node.offsetHeight + 1;
    }
    if (ends.reduce((sum, { height }) => sum + height, 0) > bottom - top) { box.replaceChildren(); return; }
    let from = top;
    for (const end of ends) { end.at = Math.max(from, end.y - end.height / 2); from = end.at + end.height; }
    let to = bottom;
    for (const end of ends.toReversed()) { end.at = Math.min(end.at, to - end.height); to = end.at; end.node.style.top = `${end.at}px`; }
  }

  // A figure as a file ------------------------------------------------------------------------------

  function save(href, name) { el("a", { href, download: name }).click(); }
  function table(figure) {
    const quoted = (value) => (value === null || value === undefined || Number.isNaN(value) ? ""
      : typeof value === "number" ? String(value) : `"${String(value).replaceAll('"', '""')}"`);
    const rows = [["series", "part", "x", "y", "low", "high"]];
    for (const trace of figure.data) {
      if (trace.visible === false || trace.meta?.role === "band" || trace.fill === "toself") continue;
      if (trace.type === "heatmap") {
        trace.z.forEach((row, i) => row.forEach((z, j) => rows.push([trace.y?.[i] ?? i, "cell", trace.x?.[j] ?? j, z])));
        continue;
      }
      const { x = [], y = [], sides } = trace, part = trace.meta?.role ?? trace.type;
      Array.from(y, (value, i) => value !== null && rows.push(
        [trace.name, part, x[i], value, sides?.low[i], sides?.high[i]]));
    }
    return rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
  }
  async function export_(div, kind) {
    const figure = figureOf(div), name = div.id;
    if (kind === "csv") { save(`data:text/csv;charset=utf-8,${encodeURIComponent(table(figure))}`, `${name}.csv`); return; }
    const size = { width: 900, height: 560 };
    const caption = div.closest("figure").querySelector("figcaption").firstChild?.textContent ?? "";
    const layout = {
      ...structuredClone(div.layout), ...size, autosize: false, paper_bgcolor: "#fff", plot_bgcolor: "#fff",
      title: { text: caption, x: 0.02, font: { size: 17, color: "#111" } }, showlegend: true,
      font: { size: 13, color: "#333", family: "sans-serif" },
      legend: { orientation: "h", y: -0.16, yanchor: "top", x: 0 },
    };
    layout.margin = { ...layout.margin, t: layout.margin.t + 46, r: 20 };
    const data = figure.data.map(({ sides, format, ...trace }) => ({ ...trace }));
    save(await Plotly.toImage({ data, layout }, { format: kind, ...size, scale: kind === "png" ? 2 : 1 }), `${name}.${kind}`);
  }

  // Drawing what is on the screen first, the rest when nothing else is to do ---------------------

  const waiting = new Set();
  let busy = false;
  const onScreen = (div) => {
    const box = div.getBoundingClientRect();
    return box.height > 0 && box.bottom > -200 && box.top < innerHeight + 200;
  };
  const later = window.requestIdleCallback ?? ((call) => setTimeout(call, 1));

  function redraw(chosen = divs) {
    for (const div of chosen) if (!div.closest("details.fold:not([open])")) waiting.add(div);
    if (typeof Plotly === "undefined") return;
    for (const div of [...waiting].filter(onScreen)) { waiting.delete(div); draw(div); }
    if (!busy) { busy = true; later(next, { timeout: 200 }); }
  }
  function next() {
    const [div] = waiting;
    if (div) { waiting.delete(div); draw(div); }
    if (waiting.size) { later(next, { timeout: 200 }); return; }
    busy = false;
    document.body.dataset.drawn = String(divs.filter((one) => one.data).length);
  }

  for (const fold of document.querySelectorAll("details.fold")) {
    fold.addEventListener("toggle", () => redraw([...fold.querySelectorAll(".plot")]));
  }
  // Who goes to something folded wants to see it, and so does who goes to what stands above it.
  const unfold = () => {
    const at = document.getElementById(location.hash.slice(1));
    if (!at) return;
    const below = [at.querySelector(":scope > details.fold"), at.nextElementSibling];
    const folds = below.filter((one) => one?.matches("details.fold"));
    for (let fold = at.closest("details.fold"); fold; fold = fold.parentElement.closest("details.fold")) folds.push(fold);
    for (const fold of folds) fold.open = true;
    if (folds.length) at.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();

  // A figure follows its own box: that also covers rotation and an opened sidebar.
  const boxes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (!paper && target.data && target.clientWidth) Plotly.Plots.resize(target).then(() => draw(target));
    }
  });
  divs.forEach((div) => boxes.observe(div));

  // Linked: the same step is marked in all figures over training, and zooming zooms them all ------

  const linkedOnScreen = () => divs.filter((div) => div.data && specs[div.id].linked && onScreen(div));

  function wire(div, figure) {
    for (const name of ["cursor", "marker"]) {
      const line = document.createElement("div");
      line.className = name;
      line.hidden = true;
      div.append(line);
    }
    const kinds = ["png", "svg", "csv"].map((kind) => {
      const button = el("button", { type: "button", textContent: kind.toUpperCase(), ariaLabel: `Save ${div.id} as ${kind}` });
      button.addEventListener("click", () => export_(div, kind));
      return button;
    });
    div.closest("figure").append(el("div", { className: "save" }, ...kinds));
    div.on("plotly_click", ({ points: [{ customdata }] }) => {
      if (customdata?.href) location.hash = customdata.href;
    });
    if (figure.told.length) {
      div.on("plotly_hover", ({ points }) => (figure.linked ? point(points[0].x) : tell(div, points[0].x)));
      div.on("plotly_unhover", () => (figure.linked ? point(null) : tell(div)));
    }
    if (!figure.linked) return;
    div.on("plotly_click", ({ points, event }) => {  // of all lines at that step the one that was clicked at
      const place = event.clientY - div.getBoundingClientRect().top;
      const away = ({ yaxis, y }) => Math.abs(yaxis._offset + yaxis.d2p(y) - place);
      const one = points.reduce((best, other) => (away(other) < away(best) ? other : best));
      const arm = one.data.legendgroup ?? div.closest("figure").dataset.arm;
      document.dispatchEvent(new CustomEvent("open", { detail: { step: one.x, arm, figure: div.id } }));
    });
    div.on("plotly_relayout", (change) => {
      const zoomed = "xaxis.range[0]" in change;
      if (zoomed) state.range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      // Of a figure that was drawn while others were zoomed a reset says the range, which all leave then.
      const reset = change["xaxis.autorange"] || "xaxis.range" in change;
      if (reset) state.range = null;
      // This one too: else plotly takes the reader's own zoom for one to be kept, whatever comes.
      if (zoomed || reset) redraw(divs.filter((other) => specs[other.id].linked));
    });
  }

  function line(div, name, x) {
    const mark = div.querySelector(`:scope > .${name}`), full = div._fullLayout;
    if (!mark || !full?.xaxis) return;
    const at = x === null ? NaN : full.xaxis.l2p(x);
    mark.hidden = !(at >= 0 && at <= full.xaxis._length);
    if (mark.hidden) return;
    Object.assign(mark.style, {
      left: `${full.xaxis._offset + at}px`, top: `${full._size.t}px`, height: `${full._size.h}px`,
    });
  }
  const place = (div) => { if (specs[div.id].linked) line(div, "marker", state.step); label(div); };

  let frame = 0;
  function point(x) {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      for (const div of linkedOnScreen()) {
        line(div, "cursor", x);
        tell(div, x);
      }
    });
  }

  // Controls --------------------------------------------------------------------------------------

  function showIsolated() {
    if ($("all-arms")) $("all-arms").hidden = !state.only.size;
    for (const figure of document.querySelectorAll("figure[data-arm]")) figure.hidden = isHidden(figure.dataset.arm);
  }
  // One click shows an arm alone, one on another adds it, one on the same takes it away again.
  function isolate(arm) {
    if (arm === null) state.only.clear();
    else if (!state.only.delete(arm)) state.only.add(arm);
    if (state.only.size === arms.size) state.only.clear();
    for (const button of toggles) button.setAttribute("aria-pressed", String(state.only.has(button.value)));
    showIsolated();
    redraw();
    document.dispatchEvent(new CustomEvent("arms", { detail: new Set([...arms].filter(isHidden)) }));
  }
  document.querySelector(".toggles")?.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (button) isolate(button.value || null);
  });

  // The contents close when a reader goes somewhere, and name where he is.
  const contents = document.querySelector(".contents");
  contents?.addEventListener("click", ({ target }) => { if (target.closest("a")) contents.open = false; });
  document.addEventListener("click", ({ target }) => { if (contents && !contents.contains(target)) contents.open = false; });
  const headings = [...document.querySelectorAll("main h2")];
  function where() {
    const at = headings.findLast((one) => one.getBoundingClientRect().top < 140);
    contents.querySelector("summary").textContent = at ? `Contents: ${at.textContent}` : "Contents";
  }
  if (contents) addEventListener("scroll", where, { passive: true });
  const bar = document.querySelector(".arms"); // no heading hides behind it
  if (bar) new ResizeObserver(() => {
    document.documentElement.style.scrollPaddingTop = `${bar.offsetHeight + 14}px`;
  }).observe(bar);

  // The index: claims by state, section and effect, in the order of any.
  const form = document.querySelector("form.sorting");
  function sort() {
    const wanted = Object.fromEntries(new FormData(form)), list = document.querySelector("ol.verdicts");
    const order = ["supported", "contradicted", "mixed", "no effect", "inconclusive"];
    const rank = { "": (one) => Number(one.dataset.place), state: (one) => order.indexOf(one.dataset.state),
      size: (one) => -Number(one.dataset.size) }[wanted.order];
    const all = [...list.children];
    for (const one of all) {
      one.hidden = ["state", "section", "side"].some((key) => wanted[key] && one.dataset[key] !== wanted[key]);
    }
    list.append(...all.sort((a, b) => rank(a) - rank(b) || a.dataset.place - b.dataset.place));
    form.querySelector("output").value = `${all.filter((one) => !one.hidden).length} of ${all.length} claims`;
  }
  if (form) {
    document.querySelectorAll("ol.verdicts > li").forEach((one, i) => { one.dataset.place = i; });
    form.addEventListener("input", sort);
    form.addEventListener("submit", (event) => event.preventDefault());
    sort();
  }

  const smoothing = $("smoothing"), step = $("step");
  function showSmoothing() {
    state.smoothing = Number(smoothing.value);
    smoothing.nextElementSibling.value = state.smoothing > 1 ? String(state.smoothing) : "off";
  }
  if (smoothing) {
    showSmoothing();
    smoothing.addEventListener("input", () => {
      showSmoothing();
      redraw(divs.filter((div) => specs[div.id].data.some((trace) => trace.meta?.smooth)));
    });
  }
  const lastOf = (numbers) => {
    const x = decode(numbers);
    return Array.isArray(x) ? Math.max(...x.filter(Number.isFinite)) : 0;
  };
  function stretch() {
    const linked = Object.values(specs).filter((spec) => spec.linked);
    const ends = linked.flatMap(({ data }) =>
      data.filter((trace) => trace.curve ?? trace.x).map((trace) => lastOf(trace.curve?.x ?? trace.x)));
    step.max = String(Math.max(1, ...ends));
    if (state.step === null) step.value = step.max;
    step.nextElementSibling.value = step.value;
  }
  if (step) {
    stretch();
    step.addEventListener("input", () => {
      state.step = Number(step.value);
      step.nextElementSibling.value = step.value;
      divs.filter((div) => div.data).forEach(place);
      redraw(divs.filter((div) => specs[div.id].layout.meta?.frames));
      point(state.step);
      document.dispatchEvent(new CustomEvent("step", { detail: state.step }));
    });
    step.addEventListener("blur", () => point(null));
  }

  // A live page (watch.js): its figures changed, or are others now.
  globalThis.mcbenchFigures = (changed) => {
    const before = new Set(divs);
    collect();
    Object.assign(specs, changed);
    for (const id of Object.keys(changed)) figures.delete(id);
    for (const id of Object.keys(specs)) if (!$(id)) { delete specs[id]; figures.delete(id); }
    for (const div of [...before].filter((one) => !one.isConnected)) {
      waiting.delete(div);
      boxes.unobserve(div);
      if (div.data) Plotly.purge(div);
    }
    for (const div of divs) if (!before.has(div)) boxes.observe(div);
    if (step) stretch();
    showIsolated();
    redraw(divs.filter((div) => specs[div.id] && (div.id in changed || !before.has(div))));
  };

  // Themes and paper ------------------------------------------------------------------------------

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  addEventListener("scroll", () => { if (waiting.size) redraw([]); }, { passive: true });

  // Paper has no resize event: two figures of fixed width side by side fit A4 and Letter.
  addEventListener("beforeprint", () => {
    if (typeof Plotly === "undefined") return;
    boxes.disconnect();
    waiting.clear();
    paper = true;
    divs.forEach(draw);
  });
  addEventListener("afterprint", () => {
    if (!paper) return;
    paper = false;
    divs.forEach(draw);
    divs.forEach((div) => boxes.observe(div));
  });

  // Plotly's script takes most of a second to start: text, tables, the first screen's own charts and
  // the controls are there before it.
  const ready = () => { document.body.dataset.ready ??= String(Math.round(performance.now())); };
  function start() {
    redraw();
    ready();
    performance.mark("figures");
  }
  const held = $("plotly");
  if (!held) start();
  else {
    redraw();
    if (!divs.some(onScreen)) ready();
    requestAnimationFrame(() => setTimeout(() => {
      const { src } = held;
      const script = el("script", src ? { src, onload: start } : { textContent: held.textContent });
      script.onerror = () => { $("no-plotly").hidden = false; ready(); document.body.dataset.drawn = "0"; };
      document.head.append(script);
      if (!src) start();
    }));
  }
})();
