(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const specs = JSON.parse($("figure-data").textContent);
  const config = { displayModeBar: false };  // dragging zooms, a double click resets
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const state = { smoothing: 5, hidden: new Set(), step: null, range: null };

  // Numbers as mcbench/report/encode.py packs them --------------------------------------------

  function decode(value) {
    if (Array.isArray(value)) return value.map(decode);
    if (value === null || typeof value !== "object") return value;
    if (value.evenly) {
      const [start, gap, count] = value.evenly;
      return Array.from({ length: count }, (_, i) => start + i * gap);
    }
    if (typeof value.u16 === "string") {
      const bytes = Uint8Array.from(atob(value.u16), (c) => c.charCodeAt(0));
      const view = new DataView(bytes.buffer);
      const flat = Array.from({ length: bytes.length / 2 }, (_, i) => {
        const level = view.getUint16(2 * i, true);
        return level === 65535 ? NaN : value.low + level * value.scale;
      });
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

  const divs = [...document.querySelectorAll(".plot")];
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
      layout.uirevision = "kept";
      figures.set(div.id, { data, layout, curves, linked: specs[div.id].linked });
    }
    return figures.get(div.id);
  }

  function smoothed(figure) {
    for (const { x, runs, t, band, mean, smooth } of figure.curves) {
      const found = overSeeds(runs, t, smooth ? state.smoothing : 1);
      mean.x = x;
      mean.y = found.mean;
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
    frames.forEach(({ steps, y }, i) => {
      const after = steps.findIndex((step) => step > (state.step ?? Infinity));
      const at = after < 0 ? steps.length - 1 : Math.max(0, after - 1);
      figure.data[i].y = y[at];
      shown = steps[at];
    });
    const caption = div.closest("figure").querySelector("figcaption");
    caption.dataset.step = shown === null ? "" : ` · step ${shown}`;
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

  function draw(div) {
    const figure = figureOf(div);
    smoothed(figure);
    framed(figure, div);
    for (const trace of figure.data) {
      if (trace.legendgroup !== undefined) trace.visible = !state.hidden.has(trace.legendgroup);
    }
    if (figure.linked && !paper) {
      const axis = figure.layout.xaxis;
      if (state.range) Object.assign(axis, { range: [...state.range], autorange: false });
      else { delete axis.range; axis.autorange = true; }
    }
    const first = !div.data;
    // New objects each time: Plotly.react compares with those it was given before.
    const layout = structuredClone(themed(figure.layout));
    Object.assign(layout, paper ? onPaper(div) : { autosize: true });
    const result = Plotly.react(div, figure.data.map((trace) => ({ ...trace })), layout, config);
    if (first) wire(div, figure);
    place(div);
    return result;
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
    for (const div of chosen) waiting.add(div);
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

  // A figure follows its own box: that also covers rotation and an opened sidebar.
  const boxes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (!paper && target.data && target.clientWidth) Plotly.Plots.resize(target).then(() => place(target));
    }
  });
  divs.forEach((div) => boxes.observe(div));

  // Linked: the same step is marked in all figures over training, and zooming zooms them all ------

  const linkedOnScreen = (but) =>
    divs.filter((div) => div !== but && div.data && specs[div.id].linked && onScreen(div));

  function wire(div, figure) {
    for (const name of ["cursor", "marker"]) {
      const line = document.createElement("div");
      line.className = name;
      line.hidden = true;
      div.append(line);
    }
    div.on("plotly_click", ({ points }) => {
      const { href } = points[0].customdata ?? {};
      if (href) location.hash = href;
    });
    if (!figure.linked) return;
    div.on("plotly_hover", ({ event, points }) => {
      if (event instanceof Event) point(points[0].x, div);
    });
    div.on("plotly_unhover", ({ event }) => { if (event instanceof Event) point(null, div); });
    div.on("plotly_relayout", (change) => {
      const zoomed = "xaxis.range[0]" in change;
      if (zoomed) state.range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      else if (change["xaxis.autorange"]) state.range = null;
      if (zoomed || change["xaxis.autorange"]) {
        redraw(divs.filter((other) => other !== div && specs[other.id].linked));
      }
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
  const place = (div) => { if (specs[div.id].linked) line(div, "marker", state.step); };

  let frame = 0;
  function point(x, from) {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      for (const div of linkedOnScreen(from)) {
        line(div, "cursor", x);
        if (x === null) Plotly.Fx.unhover(div);
        else Plotly.Fx.hover(div, { xval: x, yval: 0 });
      }
    });
  }

  // Controls --------------------------------------------------------------------------------------

  document.querySelectorAll(".arms button").forEach((button) => {
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      state.hidden[on ? "delete" : "add"](button.value);
      for (const figure of document.querySelectorAll("figure[data-arm]")) {
        figure.hidden = state.hidden.has(figure.dataset.arm);
      }
      redraw();
      document.dispatchEvent(new CustomEvent("arms", { detail: state.hidden }));
    });
  });

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
  if (step) {
    const linked = Object.values(specs).filter((spec) => spec.linked);
    const ends = linked.flatMap(({ data }) =>
      data.filter((trace) => trace.curve ?? trace.x).map((trace) => lastOf(trace.curve?.x ?? trace.x)));
    step.max = String(Math.max(1, ...ends));
    step.value = step.max;
    step.nextElementSibling.value = step.max;
    step.addEventListener("input", () => {
      state.step = Number(step.value);
      step.nextElementSibling.value = step.value;
      divs.filter((div) => div.data).forEach(place);
      redraw(divs.filter((div) => specs[div.id].layout.meta?.frames));
      point(state.step, null);
      document.dispatchEvent(new CustomEvent("step", { detail: state.step }));
    });
    step.addEventListener("blur", () => point(null, null));
  }

  // Themes and paper ------------------------------------------------------------------------------

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  addEventListener("scroll", () => { if (waiting.size) redraw([]); }, { passive: true });

  // Paper has no resize event: two figures of fixed width side by side fit A4 and Letter.
  addEventListener("beforeprint", () => {
    boxes.disconnect();
    waiting.clear();
    paper = true;
    divs.forEach(draw);
  });
  addEventListener("afterprint", () => {
    paper = false;
    divs.forEach(draw);
    divs.forEach((div) => boxes.observe(div));
  });

  redraw();
  document.body.dataset.ready = String(Math.round(performance.now()));
})();
