// A live page, over what mcbench watch answers, or the kernel of the notebook that has it in a frame.
// Figures are drawn by page.js; the table of runs and the browser of responses are scripts of their own.
const $ = (selector) => document.querySelector(selector);
const KEPT = `mcbench watch ${location.pathname}`; // what a reader chose, through a reload of this tab
const kernel = window.frameElement?.mcbench; // of a notebook that has this page in a frame (frame.js)
const NOTHING = { run: "", beside: "", step: "latest", words: "", over: "", colour: "", need: [] };
const boxes = [...document.querySelectorAll(".sections input")];
const chosenSections = () => boxes.filter((one) => one.checked).map((one) => one.value);
const asked = { model: null, picked: {}, sections: chosenSections(), open: false, paused: false, browser: NOTHING };
const have = {}; // part -> version
const parts = {};

const showRuns = globalThis.mcbenchRunList($("#runs"), (id, on) => {
  asked.picked = { ...asked.picked, [id]: on };
  ask();
});
let drawResponses = () => {};
const responses = {
  live: true,
  asked: () => asked.browser,
  data: () => parts.data,
  text: (row) => parts.texts?.[row.id],
  finds: (row) => !parts.data.hits || parts.data.hits.includes(row.id),
  ask(wanted) {
    const next = { ...asked.browser, ...wanted };
    if (JSON.stringify(next) === JSON.stringify(asked.browser)) return;
    asked.browser = next;
    ask();
  },
  follow: (call) => { drawResponses = call; },
};

// What came is put where it belongs -----------------------------------------------------------------

function text(selector, words) {
  const node = $(selector);
  if (node.textContent !== words) node.textContent = words;
}
function showStatus() {
  const { state, totals, ahead } = asked.paused
    ? { state: "Paused", totals: "the runs go on; this page stands still", ahead: "" } : parts.status ?? {};
  text(".status b", state ?? "");
  text(".status span", totals ?? "");
  text(".ahead", ahead ?? "");
}
// The parts that came, and the figures among them by id.
function show(came, figures) {
  Object.assign(parts, came);
  if (came.status) showStatus();
  if (came.models) {
    const { all, chosen } = came.models, select = $(".models select");
    select.replaceChildren(...all.map((name) => new Option(name)));
    select.value = chosen;
    $(".models").hidden = all.length < 2;
  }
  if (came.rows) showRuns(came.rows.rows, came.rows.chosen);
  if ("arms" in came) $(".toggles").innerHTML = came.arms; // of the server's template, escaped there
  if (came.sections) {
    const old = new Map([...$("#figures").children].map((one) => [one.dataset.name, one]));
    $("#figures").replaceChildren(...Object.entries(came.sections).map(([name, html]) => {
      const section = old.get(name) ?? Object.assign(document.createElement("section"), { className: "panel" });
      section.dataset.name = name;
      if (section.html !== html) section.innerHTML = section.html = html;
      return section;
    }));
  }
  if ("arms" in came || came.sections || Object.keys(figures).length) globalThis.mcbenchFigures(figures);
  if (came.data || came.texts) drawResponses();
  document.body.dataset.looks = Number(document.body.dataset.looks ?? 0) + 1;
}

// Asking a server -----------------------------------------------------------------------------------

let timer = 0, busy = false, again = false;
let clicked = null; // arm and step of a curve's point
async function look() {
  busy = true;
  let rest = 5;
  try {
    const point = clicked;
    clicked = null;
    const reply = await fetch("state", { method: "POST", body: JSON.stringify({ ...asked, have, point }),
      headers: { "Content-Type": "application/json" } });
    if (!reply.ok) throw new Error(reply.statusText);
    const { parts: changed, rest_s, point: found } = await reply.json();
    rest = rest_s;
    const came = {}, figures = {};
    for (const [name, part] of Object.entries(changed)) {
      if (part === null) { delete have[name]; continue; }
      have[name] = part.version;
      (name.startsWith("figure ") ? figures : came)[name.replace("figure ", "")] = part.is;
    }
    show(came, figures);
    if (found) opened(...found);
    $(".away").hidden = true;
  } catch (error) {
    $(".away").hidden = false;
    if (!(error instanceof TypeError)) console.error(error);
  }
  busy = false;
  clearTimeout(timer);
  if (asked.paused) return;
  // A page that nobody sees asks seldom.
  timer = setTimeout(look, again ? 30 : 1000 * (document.hidden ? 10 * rest : rest));
  again = false;
}

// Or the kernel, which sends what is new by itself ----------------------------------------------------

const drawn = {}; // figure id -> as JSON
function told({ asked: chosen, figures, ...came }) {
  const changed = {};
  for (const id of Object.keys(figures ? drawn : {})) if (!(id in figures)) delete drawn[id];
  for (const [id, spec] of Object.entries(figures ?? {})) {
    const look = JSON.stringify(spec);
    if (drawn[id] !== look) [drawn[id], changed[id]] = [look, spec];
  }
  if (chosen) adopt(chosen);
  show(came, changed);
}
globalThis.mcbenchTold = told;

// Either --------------------------------------------------------------------------------------------

function ask() {
  if (kernel) {
    kernel.model.set("asked", { ...asked });
    kernel.model.save_changes();
    return;
  }
  sessionStorage.setItem(KEPT, JSON.stringify(asked));
  clearTimeout(timer);
  if (busy) again = true; else if (!asked.paused) timer = setTimeout(look, 30);
}
function opened(run, step) {
  asked.browser = { ...asked.browser, run, step: String(step), over: "" };
  $("#responses").open = asked.open = true;
  $("#responses").scrollIntoView();
  ask();
}
globalThis.mcbenchOpened = opened;
document.addEventListener("visibilitychange", () => { if (!kernel && !document.hidden && !busy) ask(); });

// Controls ------------------------------------------------------------------------------------------

// What was chosen before a reload, or in another view of the same widget.
function adopt(chosen) {
  Object.assign(asked, chosen);
  for (const box of boxes) box.checked = asked.sections.includes(box.value);
  $("#responses").open = asked.open;
  $("#pause").textContent = asked.paused ? "Resume" : "Pause";
  showStatus();
}
for (const box of boxes) box.addEventListener("change", () => { asked.sections = chosenSections(); ask(); });
$(".models select").addEventListener("change", ({ target }) => { asked.model = target.value; ask(); });
$("#responses").addEventListener("toggle", ({ target }) => {
  if (asked.open === target.open) return;
  asked.open = target.open;
  ask();
});
$("#pause").addEventListener("click", () => { adopt({ paused: !asked.paused }); ask(); });
document.addEventListener("open", ({ detail: { arm, step } }) => { // a click on a curve's point
  if (kernel) { kernel.model.send({ arm, step }); return; }
  clicked = { arm, step };
  ask();
});

globalThis.mcbenchBrowse($("#responses .browser"), responses);
if (kernel) told(kernel.all());
else {
  adopt(JSON.parse(sessionStorage.getItem(KEPT) ?? "{}"));
  look();
}
