(() => {
  "use strict";
  // Everything that a model wrote enters the page through textContent, never as markup.
  const all = JSON.parse(document.getElementById("sample-data").textContent);
  const WORDS = {
    AC: "accepted", WA: "wrong answer", RE: "runtime error", TLE: "too slow", MLE: "too much memory",
    OLE: "too much output", IE: "the evaluator failed",
  };
  const PAGE = 24;  // responses that a list of matches shows at a time

  function el(name, properties = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key in node) node[key] = value; else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }
  const labelled = (text, control) => el("label", {}, el("span", { textContent: text }), control);
  const select = (...options) => el("select", {}, ...options.map(([value, text]) =>
    el("option", { value, textContent: text })));
  const right = (row) => row.reward >= 1;
  const numbered = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

  for (const root of document.querySelectorAll(".browser")) browse(root, all[root.dataset.samples]);

  function browse(root, { arms, prompts, rows }) {
    const keyOf = (row) => `${row.step}/${row.group}/${row.problem}`;
    const steps = [...new Set(rows.map((row) => row.step))].sort((a, b) => a - b);
    const kinds = [...new Set(rows.flatMap((row) => row.verdicts.split(",")))].sort();
    const shown = new Set(Object.keys(arms));
    let limit = PAGE;

    const step = select(...steps.map((one) => [one, `step ${one}`]));
    step.value = steps.at(-1);
    const problem = select();
    const arm = select(["", "all arms, side by side"],
      ...Object.entries(arms).map(([name, { label }]) => [name, label]));
    const verdict = select(["", "any"], ["right", "right"], ["wrong", "wrong"],
      ...kinds.map((kind) => [kind, WORDS[kind] ? `${kind}: ${WORDS[kind]}` : kind]));
    const cut = select(["", "any"], ["true", "cut"], ["false", "ended by itself"]);
    const masked = select(["", "any"], ["true", "masked"], ["false", "not masked"]);
    const search = el("input", { type: "search", placeholder: "in prompts and responses" });
    const colour = el("input", { type: "checkbox" });
    const before = el("button", { type: "button", textContent: "‹", "aria-label": "previous problem" });
    const after = el("button", { type: "button", textContent: "›", "aria-label": "next problem" });
    const summary = el("p", { className: "summary", role: "status" });
    const list = el("div", { className: "found" });
    const more = el("button", { type: "button", className: "more", textContent: "Show more" });
    const probable = rows.some((row) => row.levels);
    root.append(
      el("div", { className: "filters" },
        labelled("Generation", step), labelled("Problem", el("span", { className: "steps" }, before, problem, after)),
        labelled("Arm", arm), labelled("Verdict", verdict), labelled("Length limit", cut),
        labelled("Mask", masked), labelled("Search", search),
        ...(probable ? [labelled("Colour by probability", colour)] : [])),
      summary, list, more);

    const filtering = () => Boolean(verdict.value || cut.value || masked.value || search.value.trim());
    function matches(row) {
      const words = search.value.trim().toLowerCase();
      return shown.has(row.arm) && (!arm.value || row.arm === arm.value)
        && (!verdict.value || (verdict.value === "right" ? right(row) : verdict.value === "wrong"
          ? !right(row) : row.verdicts.split(",").includes(verdict.value)))
        && (!cut.value || String(row.cut) === cut.value)
        && (!masked.value || String(row.masked) === masked.value)
        && (!words || row.text.toLowerCase().includes(words)
          || prompts[row.prompt].toLowerCase().includes(words));
    }

    function listProblems() {
      const of = rows.filter((row) => String(row.step) === step.value);
      const keys = [...new Set(of.map(keyOf))];
      const kept = problem.selectedIndex;
      problem.replaceChildren(...keys.map((key, i) => {
        const mine = of.filter((row) => keyOf(row) === key);
        const text = `${i + 1}: ${mine.filter(right).length} of ${mine.length} right`;
        return el("option", { value: key, textContent: text });
      }));
      problem.selectedIndex = Math.min(Math.max(0, kept), keys.length - 1);
    }

    function render() {
      const found = rows.filter(matches);
      const everywhere = filtering();
      const chosen = everywhere ? found : found.filter((row) => keyOf(row) === problem.value);
      const visible = everywhere ? chosen.slice(0, limit) : chosen;
      summary.textContent = everywhere
        ? `${numbered(found.length, "response")} of ${rows.length} match, over all generations kept here`
        : `${numbered(chosen.length, "response")} to this problem`;
      more.hidden = visible.length === chosen.length;
      const keys = [...new Set(visible.map(keyOf))];
      list.replaceChildren(...keys.map((key) => group(visible.filter((row) => keyOf(row) === key), everywhere)));
    }

    function group(found, named) {
      const [first] = found;
      const columns = Object.keys(arms).filter((name) => found.some((row) => row.arm === name));
      const title = `${named ? `Step ${first.step}, problem` : "Problem"} ${first.problem}`;
      return el("article", {},
        el("h4", { textContent: title }),
        el("pre", { className: "prompt", textContent: prompts[first.prompt], tabIndex: 0 }),
        el("div", { className: "columns" }, ...columns.map((name) => {
          const mine = found.filter((row) => row.arm === name);
          const head = el("h5", {}, el("i", { style: `background:${arms[name].color}` }),
            `${arms[name].label}: ${mine.filter(right).length} of ${mine.length} right`);
          return el("div", {}, head, ...mine.map((row, i) => response(row, named || i === 0)));
        })));
    }

    function response(row, open) {
      const outcome = right(row) ? "right" : "wrong";
      const flags = [row.cut && "cut", row.masked && "masked"].filter(Boolean);
      const advantage = row.advantage === null ? "" : ` · advantage ${row.advantage.toFixed(2).replace("-", "−")}`;
      const text = el("pre", { tabIndex: 0 });
      const box = el("details", { className: outcome, open },
        el("summary", {}, el("b", { textContent: outcome }),
          ...flags.map((flag) => el("span", { className: "flag", textContent: flag })),
          ` ${row.length} tokens${advantage}`),
        tests(row.verdicts), text);
      if (colour.checked && row.levels) text.append(...row.pieces.map((piece, i) => token(piece, row.levels[i])));
      else text.textContent = row.text;
      return box;
    }

    function tests(verdicts) {
      return el("ol", { className: "tests", "aria-label": "verdict of each test" },
        ...verdicts.split(",").map((kind) => el("li", {
          textContent: kind, title: WORDS[kind] ?? kind,
          className: kind === "AC" ? "ok" : "bad",
        })));
    }

    function token(piece, digit) {
      const level = parseInt(digit, 16);
      return el("span", {
        textContent: piece, style: `background:rgba(230,159,0,${(level / 15 * 0.85).toFixed(2)})`,
        title: `log-probability about −${(level / 3).toFixed(1)} nats`,
      });
    }

    const again = () => { limit = PAGE; render(); };
    const turn = (by) => {
      const count = problem.options.length;
      problem.selectedIndex = (problem.selectedIndex + by + count) % count;
      again();
    };
    before.addEventListener("click", () => turn(-1));
    after.addEventListener("click", () => turn(1));
    more.addEventListener("click", () => { limit += PAGE; render(); });
    step.addEventListener("change", () => { listProblems(); again(); });
    for (const control of [problem, arm, verdict, cut, masked, colour]) control.addEventListener("change", again);
    search.addEventListener("input", again);
    document.addEventListener("arms", ({ detail }) => {
      for (const name of Object.keys(arms)) shown[detail.has(name) ? "delete" : "add"](name);
      again();
    });
    document.addEventListener("step", ({ detail }) => {
      step.value = steps.filter((one) => one <= detail).at(-1) ?? steps[0];
      listProblems();
      again();
    });
    listProblems();
    render();
  }
})();
