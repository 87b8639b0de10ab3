// The runs with their progress, and which of them are drawn. All text is set as text, never markup.
const FEW = 10; // more runs are folded until asked for

function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

function key(color, dash) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "mcb-key");
  svg.setAttribute("viewBox", "0 0 28 8");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(svg.namespaceURI, "line");
  const dashes = { solid: "", dot: "2 3", dash: "7 4", dashdot: "7 3 2 3", longdash: "11 4",
    longdashdot: "11 3 2 3" };
  for (const [name, value] of Object.entries({ x1: 0, x2: 28, y1: 4, y2: 4, stroke: color,
    "stroke-width": 2.6, "stroke-dasharray": dashes[dash] ?? "" })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}

const COLUMNS = [["run", "Run"], ["state", "State"], ["progress", "Progress"], ["speed", "Speed"],
  ["left", "Left"], ["reward", "Reward"], ["accuracy", "pass@1"]];

function makeRow(id, choose) {
  const row = element("tr");
  const cells = Object.fromEntries(COLUMNS.map(([name]) => [name, element("td", `mcb-${name}`)]));
  const label = element("label");
  const box = element("input");
  box.type = "checkbox";
  box.addEventListener("change", () => choose(id, box.checked));
  const keySlot = element("span", "mcb-keyslot"), name = element("span", "mcb-name");
  label.append(box, keySlot, name);
  cells.run.append(label);
  const bar = element("div", "mcb-bar"), fill = element("div"), count = element("span", "mcb-count");
  bar.setAttribute("role", "progressbar");
  bar.setAttribute("aria-valuemin", 0);
  bar.append(fill);
  cells.progress.append(bar, count);
  const state = element("span", "mcb-chip"), note = element("span", "mcb-note");
  cells.state.append(state, note);
  row.append(...Object.values(cells));
  let look = "";
  const show = (run, chosen) => {
    box.checked = chosen;
    row.dataset.state = run.state;
    row.dataset.run = run.id;
    name.textContent = run.name;
    name.title = run.id;
    box.setAttribute("aria-label", `draw ${run.name}`);
    if (look !== run.color + run.dash) {
      look = run.color + run.dash;
      keySlot.replaceChildren(key(run.color, run.dash));
    }
    fill.style.width = `${100 * run.share}%`;
    fill.style.background = run.color;
    bar.setAttribute("aria-valuemax", run.steps);
    bar.setAttribute("aria-valuenow", run.step);
    bar.setAttribute("aria-label", `${run.name}: step ${run.step} of ${run.steps}`);
    count.textContent = run.count;
    state.textContent = run.state;
    note.textContent = run.note;
    note.title = run.note;
    for (const column of ["speed", "left", "reward", "accuracy"])
      cells[column].textContent = run[column];
  };
  return { row, show };
}

// The table in an element; `choose(id, on)` is told when a reader ticks a run. Returns what shows the
// runs, and which of them are drawn.
globalThis.mcbenchRunList = (root, choose) => {
  root.classList.add("mcb-runs");
  const table = element("table"), body = element("tbody");
  const head = element("thead"), titles = element("tr");
  titles.append(...COLUMNS.map(([name, title]) => element("th", `mcb-${name}`, title)));
  titles.querySelectorAll("th").forEach((cell) => { cell.scope = "col"; });
  head.append(titles);
  table.append(head, body);
  const more = element("button", "mcb-more");
  more.type = "button";
  let unfolded = false, runs = [], chosen = new Set();
  more.addEventListener("click", () => { unfolded = !unfolded; draw(); });
  root.append(table, more);
  const rows = new Map();

  function draw() {
    const shown = unfolded ? runs : runs.slice(0, FEW);
    for (const run of shown) {
      if (!rows.has(run.id)) rows.set(run.id, makeRow(run.id, choose));
      rows.get(run.id).show(run, chosen.has(run.id));
    }
    const wanted = shown.map((run) => rows.get(run.id).row);
    if (wanted.length !== body.children.length || wanted.some((row, i) => row !== body.children[i]))
      body.replaceChildren(...wanted);
    more.hidden = runs.length <= FEW;
    more.textContent = unfolded ? "Show fewer" : `Show all ${runs.length} runs`;
  }
  return (given, ids) => {
    [runs, chosen] = [given, new Set(ids)];
    draw();
  };
};
