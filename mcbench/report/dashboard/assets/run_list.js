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

function toggled(chosen, ids, on) {
  const set = new Set(chosen);
  for (const id of ids) on ? set.add(id) : set.delete(id);
  return [...set];
}

function choose(model, ids, on) {
  model.set("chosen", toggled(model.get("chosen"), ids, on));
  model.save_changes();
}

const COLUMNS = [["run", "Run"], ["state", "State"], ["progress", "Progress"], ["speed", "Speed"],
  ["left", "Left"], ["reward", "Reward"], ["accuracy", "pass@1"]];

function makeRow(model, id) {
  const row = element("tr");
  const cells = Object.fromEntries(COLUMNS.map(([name]) => [name, element("td", `mcb-${name}`)]));
  const label = element("label");
  const box = element("input");
  box.type = "checkbox";
  box.addEventListener("change", () => choose(model, [id], box.checked));
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

function render({ model, el }) {
  el.classList.add("mcb-runs");
  const arms = element("div", "mcb-arms");
  const table = element("table"), body = element("tbody");
  const head = element("thead"), titles = element("tr");
  titles.append(...COLUMNS.map(([name, title]) => element("th", `mcb-${name}`, title)));
  titles.querySelectorAll("th").forEach((cell) => { cell.scope = "col"; });
  head.append(titles);
  table.append(head, body);
  const more = element("button", "mcb-more");
  more.type = "button";
  let unfolded = false;
  more.addEventListener("click", () => { unfolded = !unfolded; draw(); });
  el.append(arms, table, more);
  const rows = new Map();
  let armLook = "";

  function drawArms(runs, chosen) {
    const byArm = Map.groupBy(runs, (run) => run.arm);
    const states = [...byArm].map(([arm, of]) => [arm, of, of.filter((r) => chosen.has(r.id)).length]);
    const look = JSON.stringify(states.map(([arm, of, on]) => [arm, of.map((r) => r.id), on]));
    arms.hidden = byArm.size < 2;
    if (look === armLook) return;
    armLook = look;
    const focused = arms.contains(document.activeElement) ? document.activeElement.value : null;
    arms.replaceChildren(...states.map(([arm, of, on]) => {
      const button = element("button");
      button.type = "button";
      button.value = arm;
      button.setAttribute("aria-pressed", on === of.length ? "true" : on ? "mixed" : "false");
      button.title = on === of.length ? "hide this arm" : "draw this arm";
      const of_text = of.length === 1 ? "" : on === of.length ? ` ${on}` : ` ${on}/${of.length}`;
      button.append(key(of[0].color, of[0].dash), element("span", "", arm),
        element("span", "mcb-number", of_text));
      button.addEventListener("click", () => choose(model, of.map((r) => r.id), on < of.length));
      return button;
    }));
    arms.querySelectorAll("button").forEach((b) => b.value === focused && b.focus());
  }

  function draw() {
    const runs = model.get("rows"), chosen = new Set(model.get("chosen"));
    drawArms(runs, chosen);
    const shown = unfolded ? runs : runs.slice(0, FEW);
    for (const run of shown) {
      if (!rows.has(run.id)) rows.set(run.id, makeRow(model, run.id));
      rows.get(run.id).show(run, chosen.has(run.id));
    }
    const wanted = shown.map((run) => rows.get(run.id).row);
    if (wanted.length !== body.children.length || wanted.some((row, i) => row !== body.children[i]))
      body.replaceChildren(...wanted);
    more.hidden = runs.length <= FEW;
    more.textContent = unfolded ? "Show fewer" : `Show all ${runs.length} runs`;
  }

  model.on("change:rows", draw);
  model.on("change:chosen", draw);
  draw();
  return () => { model.off("change:rows", draw); model.off("change:chosen", draw); };
}

export default { render };
