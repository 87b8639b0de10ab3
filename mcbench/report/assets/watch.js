// A live page over what mcbench watch answers. The run list and the browser of responses are the
// dashboard's own, over a model that is this page's; the figures are drawn by page.js.
import runList from "./run_list.js";
import samples from "./samples.js";

const $ = (selector) => document.querySelector(selector);
const KEPT = "mcbench watch"; // what a reader chose, through a reload of this tab
const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
const asked = { model: null, picked: {}, sections: null, open: false, browser: {}, ...kept };
const have = {}; // part -> version
const parts = {};

// What a widget's page side expects of its model.
function made(values, saved) {
  const heard = new Map();
  return {
    get: (name) => values[name],
    set(name, value) {
      values[name] = value;
      for (const call of heard.get(`change:${name}`) ?? []) call();
    },
    on: (event, call) => heard.set(event, [...(heard.get(event) ?? []), call]),
    off: (event, call) => heard.set(event, (heard.get(event) ?? []).filter((one) => one !== call)),
    save_changes: () => saved(values),
  };
}

const list = made({ rows: [], chosen: [] }, ({ rows, chosen }) => {
  const before = new Set(parts.rows?.chosen), now = new Set(chosen);
  for (const { id } of rows) if (before.has(id) !== now.has(id)) asked.picked[id] = now.has(id);
  ask();
});
const NOTHING = { run: "", beside: "", step: "latest", words: "", over: "", colour: false, need: [] };
const browser = made({ asked: { ...NOTHING, ...asked.browser }, data: {}, texts: {} }, (values) => {
  asked.browser = values.asked;
  ask();
});

// What came is put where it belongs -----------------------------------------------------------------

function text(selector, words) {
  const node = $(selector);
  if (node.textContent !== words) node.textContent = words;
}
function show(changed) {
  const figures = {};
  for (const [name, part] of Object.entries(changed)) {
    if (part === null) { delete have[name]; continue; }
    have[name] = part.version;
    parts[name] = part.is;
    if (name.startsWith("figure ")) figures[name.slice(7)] = part.is;
  }
  if (changed.status) {
    const { state, totals, ahead } = parts.status;
    text(".status b", state);
    text(".status span", totals);
    text(".ahead", ahead);
  }
  if (changed.models) {
    const { all, chosen } = parts.models, select = $(".models select");
    select.replaceChildren(...all.map((name) => new Option(name)));
    select.value = chosen;
    $(".models").hidden = all.length < 2;
  }
  if (changed.rows) {
    list.set("rows", parts.rows.rows);
    list.set("chosen", parts.rows.chosen);
  }
  if (changed.arms) $(".toggles").innerHTML = parts.arms; // of the server's template, escaped there
  if (changed.sections) {
    const old = new Map([...$("#figures").children].map((one) => [one.dataset.name, one]));
    $("#figures").replaceChildren(...Object.entries(parts.sections).map(([name, html]) => {
      const section = old.get(name) ?? Object.assign(document.createElement("section"), { className: "panel" });
      section.dataset.name = name;
      if (section.html !== html) section.innerHTML = section.html = html;
      return section;
    }));
  }
  if (changed.arms || changed.sections || Object.keys(figures).length) globalThis.mcbenchFigures(figures);
  if (changed.texts) browser.set("texts", parts.texts); // the texts first: the page draws when the rows come
  if (changed.data) browser.set("data", parts.data);
}

// Asking --------------------------------------------------------------------------------------------

let timer = 0, busy = false, again = false;
let clicked = null; // arm and step of a curve's point
function ask() {
  sessionStorage.setItem(KEPT, JSON.stringify(asked));
  clearTimeout(timer);
  if (busy) again = true; else timer = setTimeout(look, 30);
}
async function look() {
  busy = true;
  let rest = 5;
  try {
    const point = clicked;
    clicked = null;
    const body = { ...asked, have, point, sections: chosenSections(), browser: asked.open ? browser.get("asked") : null };
    const reply = await fetch("state", { method: "POST", body: JSON.stringify(body),
      headers: { "Content-Type": "application/json" } });
    if (!reply.ok) throw new Error(reply.statusText);
    const { parts: changed, rest_s, point: found } = await reply.json();
    rest = rest_s;
    show(changed);
    if (found) opened(...found);
    $(".away").hidden = true;
    document.body.dataset.looks = Number(document.body.dataset.looks ?? 0) + 1;
  } catch (error) {
    $(".away").hidden = false;
    if (!(error instanceof TypeError)) console.error(error);
  }
  busy = false;
  clearTimeout(timer);
  // A page that nobody sees asks seldom.
  timer = setTimeout(look, again ? 30 : 1000 * (document.hidden ? 10 * rest : rest));
  again = false;
}
function opened(run, step) {
  browser.set("asked", asked.browser = { ...browser.get("asked"), run, step: String(step), over: "" });
  $("#responses").open = true;
  $("#responses").scrollIntoView();
  again = true;
}
document.addEventListener("visibilitychange", () => { if (!document.hidden && !busy) ask(); });

// Controls ------------------------------------------------------------------------------------------

const boxes = [...document.querySelectorAll(".sections input")];
const chosenSections = () => boxes.filter((one) => one.checked).map((one) => one.value);
for (const box of boxes) {
  if (asked.sections) box.checked = asked.sections.includes(box.value);
  box.addEventListener("change", () => { asked.sections = chosenSections(); ask(); });
}
$(".models select").addEventListener("change", ({ target }) => { asked.model = target.value; ask(); });
$("#responses").open = asked.open;
$("#responses").addEventListener("toggle", ({ target }) => { asked.open = target.open; ask(); });
document.addEventListener("open", ({ detail: { arm, step } }) => { // a click on a curve's point
  clicked = { arm, step };
  ask();
});

runList.render({ model: list, el: $("#runs") });
samples.render({ model: browser, el: $("#responses .browser") });
look();
