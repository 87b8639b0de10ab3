// The browser of responses: on a page over data that the page holds, in a notebook over what a
// widget answers. What a model wrote enters only through textContent, never as markup.
const MATCHES = 24; // that a list shows at a time

function el(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in node) node[key] = value; else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}
const labelled = (text, control) => el("label", {}, el("span", { textContent: text }), control);
const isRight = (row) => row.reward !== null && row.reward >= 1;
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const rightOf = (rows) => `${rows.filter(isRight).length} of ${rows.length} right`;

// Options as [value, text]; the choice stays where it is still among them, else it is the given one.
function offer(select, options, otherwise = options[0]?.[0]) {
  const look = JSON.stringify(options);
  if (select.dataset.look === look) return;
  const kept = options.some(([value]) => String(value) === select.value) ? select.value : otherwise;
  select.replaceChildren(...options.map(([value, text]) => el("option", { value, textContent: text })));
  select.value = kept ?? "";
  select.dataset.look = look;
}

// Where responses come from. `data()`: arms by id, rows (one a response, without its text where
// that is asked for), the meaning of verdicts. `text(row)`: prompt, text, and pieces with levels of
// improbability where they were recorded; undefined while it is on its way. `finds(row, words)`.
// `ask(wanted)` and `follow(call)` do something only in a notebook.
function pageSource({ arms, prompts, rows, verdicts }) {
  rows.forEach((row, index) => { row.id = index; });
  const probable = rows.some((row) => row.levels);
  const has = (text, words) => text.toLowerCase().includes(words);
  return {
    live: false,
    data: () => ({ arms, rows, verdicts, probable }),
    text: (row) => ({ ...row, prompt: prompts[row.prompt] }),
    finds: (row, words) => has(row.text, words) || has(prompts[row.prompt], words),
    ask: () => {},
    follow: () => {},
  };
}

function widgetSource(model) {
  return {
    live: true,
    data: () => model.get("data"),
    text: (row) => model.get("texts")[row.id],
    finds: (row) => !model.get("data").hits || model.get("data").hits.includes(row.id),
    ask(wanted) {
      const asked = { ...model.get("asked"), ...wanted };
      if (JSON.stringify(asked) === JSON.stringify(model.get("asked"))) return;
      model.set("asked", asked);
      model.save_changes();
    },
    follow: (call) => { for (const name of ["data", "texts"]) model.on(`change:${name}`, call); },
  };
}

function browse(root, source) {
  const select = (...options) => { const one = el("select"); offer(one, options); return one; };
  const arm = select(), beside = select(), step = select(), problem = select();
  const verdict = select();
  const cut = select(["", "any"], ["true", "cut"], ["false", "ended by itself"]);
  const masked = select(["", "any"], ["true", "masked"], ["false", "not masked"]);
  const search = el("input", { type: "search", placeholder: "in prompts and responses" });
  const colour = el("input", { type: "checkbox" });
  const coloured = labelled("Colour by probability", colour);
  const before = el("button", { type: "button", textContent: "‹", "aria-label": "previous problem" });
  const after = el("button", { type: "button", textContent: "›", "aria-label": "next problem" });
  const summary = el("p", { className: "summary", role: "status" });
  const list = el("div", { className: "found" });
  const more = el("button", { type: "button", className: "more", textContent: "Show more" });
  root.append(
    el("div", { className: "filters" },
      labelled("Generation", step),
      labelled("Problem", el("span", { className: "steps" }, before, problem, after)),
      labelled(source.live ? "Run" : "Arm", arm), ...(source.live ? [labelled("Beside", beside)] : []),
      labelled("Verdict", verdict), labelled("Length limit", cut), labelled("Mask", masked),
      labelled("Search", search), coloured),
    summary, list, more);

  const hidden = new Set(); // arms that the page's own buttons switched off
  const toggled = new Map(); // row id -> open, where a reader opened or closed it
  let limit = MATCHES;
  const keyOf = (row) => (source.live ? row.problem || row.group : `${row.step}/${row.group}/${row.problem}`);
  const words = () => search.value.trim().toLowerCase();
  const filtering = () => Boolean(verdict.value || cut.value || masked.value || words());

  function offerAll({ arms, rows, verdicts, probable, steps, chosen }) {
    const names = Object.entries(arms).map(([id, { label }]) => [id, label]);
    coloured.hidden = !probable;
    const kinds = [...new Set(rows.flatMap((row) => row.verdicts.split(",")))].sort();
    offer(verdict, [["", "any"], ["right", "right"], ["wrong", "wrong"],
      ...kinds.map((kind) => [kind, verdicts[kind] ? `${kind}: ${verdicts[kind]}` : kind])]);
    if (source.live) {
      offer(arm, names.filter(([id]) => arms[id].stored), chosen);
      offer(beside, [["", "nothing"], ...names.filter(([id]) => id !== chosen)]);
      offer(step, [["latest", steps.length ? `latest (${steps.at(-1)})` : "latest"],
        ...steps.toReversed().map((one) => [one, `step ${one}`])]);
    } else {
      const found = [...new Set(rows.map((row) => row.step))].sort((a, b) => a - b);
      offer(arm, [["", "all arms, side by side"], ...names]);
      offer(step, found.map((one) => [one, `step ${one}`]), found.at(-1));
    }
    const place = problem.selectedIndex;
    const here = rows.filter((row) => (source.live ? row.arm === chosen : String(row.step) === step.value));
    const groups = Map.groupBy(here, keyOf);
    offer(problem, [...groups].map(([key, mine], index) =>
      [key, `${index + 1}. ${mine[0].problem.slice(0, 60)}: ${rightOf(mine)}`]),
    [...groups.keys()][Math.min(Math.max(0, place), groups.size - 1)]);
    before.disabled = after.disabled = groups.size < 2;
  }

  function matches(row) {
    const judged = verdict.value;
    return !hidden.has(row.arm) && (source.live || !arm.value || row.arm === arm.value)
      && (!judged || (judged === "right" ? isRight(row) : judged === "wrong" ? !isRight(row)
        : row.verdicts.split(",").includes(judged)))
      && (!cut.value || String(row.cut) === cut.value)
      && (!masked.value || String(row.masked) === masked.value)
      && (!words() || source.finds(row, words()));
  }

  function render() {
    const data = source.data();
    if (!data?.rows) return;
    offerAll(data);
    const found = data.rows.filter(matches), everywhere = filtering();
    const chosen = everywhere ? found : found.filter((row) => String(keyOf(row)) === problem.value);
    const shown = everywhere ? chosen.slice(0, limit) : chosen;
    const where = source.live ? "in what is chosen" : "over all generations kept here";
    summary.textContent = data.message || (everywhere
      ? `${plural(found.length, "response")} of ${data.rows.length} match, ${where}`
      : `${plural(chosen.length, "response")} to this problem`);
    more.hidden = shown.length === chosen.length;
    list.replaceChildren(...[...Map.groupBy(shown, keyOf).values()].map((rows) => group(rows, data)));
    source.ask({ need: shown.map((row) => row.id) });
  }

  function group(rows, data) {
    const [first] = rows, named = filtering();
    const title = `${named ? `Step ${first.step}, problem` : "Problem"} ${first.problem}`;
    return el("article", {},
      el("h4", { textContent: title }),
      el("pre", { className: "prompt", textContent: source.text(first)?.prompt ?? "…", tabIndex: 0, dir: "ltr" }),
      el("div", { className: "columns" }, ...Object.keys(data.arms).flatMap((id) => {
        const mine = rows.filter((row) => row.arm === id);
        if (!mine.length && (named || id !== data.beside)) return [];
        const { label, color } = data.arms[id];
        const head = el("h5", {}, el("i", { style: `background:${color}` }),
          mine.length ? `${label}: ${rightOf(mine)}` : `${label}: not among its responses of this step`);
        return [el("div", {}, head, ...mine.map((row, i) => response(row, named || i === 0, data.verdicts)))];
      })));
  }

  function response(row, open, meanings) {
    const kind = row.reward === null ? "not judged" : isRight(row) ? "right" : "wrong";
    const flags = [row.cut && "cut", row.masked && "masked"].filter(Boolean);
    const advantage = row.advantage === null ? ""
      : ` · advantage ${row.advantage > 0 ? "+" : ""}${row.advantage.toFixed(2).replace("-", "−")}`;
    const text = el("pre", { tabIndex: 0, dir: "ltr" });
    const box = el("details", { className: kind, open: toggled.get(row.id) ?? open },
      el("summary", {}, el("b", { textContent: kind }),
        ...flags.map((flag) => el("span", { className: "flag", textContent: flag })),
        ` ${row.length} tokens${advantage}`),
      tests(row.verdicts, meanings), el("p", { className: "why", textContent: why(row, meanings) }), text);
    box.querySelector("summary").addEventListener("click", () => toggled.set(row.id, !box.open));
    const { text: written = "…", pieces, levels } = source.text(row) ?? {};
    if (colour.checked && levels) text.append(...pieces.map((piece, i) => token(piece, levels[i])));
    else mark(written, text);
    return box;
  }

  function mark(written, into) {
    const wanted = words(), lower = written.toLowerCase();
    let place = 0;
    // Lower case of some letters is longer; then nothing is marked.
    const found = () => (wanted && lower.length === written.length ? lower.indexOf(wanted, place) : -1);
    for (let at = found(); at >= 0; at = found()) {
      into.append(written.slice(place, at), el("mark", { textContent: written.slice(at, at + wanted.length) }));
      place = at + wanted.length;
    }
    into.append(written.slice(place));
  }

  function tests(verdicts, meanings) {
    return el("ol", { className: "tests", "aria-label": "verdict of each test" },
      ...verdicts.split(",").map((kind, i) => el("li", {
        textContent: kind, title: `test ${i + 1}: ${meanings[kind] ?? kind}`,
        className: kind === "AC" ? "ok" : "bad",
      })));
  }

  // What the tests, the limit and the mask made of it.
  function why(row, meanings) {
    const all = row.verdicts.split(","), last = all.at(-1);
    const judged = last === "AC" ? "All tests passed."
      : last === "no code" ? "It holds no complete program."
      : meanings[last] ? `Test ${all.length}: ${meanings[last]}; later tests were not run.` : "";
    return [judged, row.cut && "Cut at the length limit.",
      row.masked && "Masked: its advantage was set to 0."].filter(Boolean).join(" ");
  }

  function token(piece, digit) {
    const level = parseInt(digit, 16), nats = level / 3; // as in mcbench/report/samples.py
    return el("span", {
      className: "token", textContent: piece,
      style: `background:rgba(230,159,0,${(level / 15 * 0.85).toFixed(2)})`,
      title: `log-probability about −${nats.toFixed(1)}: ${Math.round(100 * Math.exp(-nats))} %`,
    });
  }

  const again = () => { limit = MATCHES; render(); };
  const turn = (by) => {
    const count = problem.options.length;
    problem.selectedIndex = (problem.selectedIndex + by + count) % count;
    again();
  };
  before.addEventListener("click", () => turn(-1));
  after.addEventListener("click", () => turn(1));
  more.addEventListener("click", () => { limit += MATCHES; render(); });
  for (const control of [arm, beside, step, problem, verdict, cut, masked, colour, search]) {
    control.addEventListener(control === search ? "input" : "change", () => {
      source.ask({
        run: arm.value, beside: beside.value, step: step.value, words: words(), colour: colour.checked,
      });
      again();
    });
  }
  document.addEventListener("arms", ({ detail }) => { // a page's buttons
    if (source.live) return;
    hidden.clear();
    for (const name of detail) hidden.add(name);
    again();
  });
  document.addEventListener("step", ({ detail }) => {
    if (source.live) return;
    const steps = [...step.options].map((option) => Number(option.value));
    step.value = steps.filter((one) => one <= detail).at(-1) ?? steps[0];
    again();
  });
  source.follow(render);
  render();
}

const held = document.getElementById("sample-data"); // a page's
if (held) {
  const all = JSON.parse(held.textContent);
  for (const root of document.querySelectorAll(".browser[data-samples]")) {
    browse(root, pageSource(all[root.dataset.samples]));
  }
}

export default {
  render({ model, el: root }) {
    root.classList.add("browser");
    browse(root, widgetSource(model));
  },
};
