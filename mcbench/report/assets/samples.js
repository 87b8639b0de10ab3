// The browser of responses: over data that the page holds, on a live page over what is answered. What a model wrote enters only through textContent, never as markup.
const MATCHES = 24; // that a list shows at a time
const BESIDE = 3; // arms side by side; the others are a click away

function el(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in node) node[key] = value; else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}
const labelled = (text, control) => el("label", {}, el("span", { textContent: text }), control);
// By the tests, whatever the reward is made of.
const isRight = ({ reward, verdicts }) => reward !== null
  && (verdicts === "not judged" ? reward >= 1 : verdicts.split(",").every((one) => one === "AC"));
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const rightOf = (rows) => `${rows.filter(isRight).length} of ${rows.length} right`;

function shape(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
const groupOf = (row) => JSON.stringify([row.arm, row.step, row.group]);
const RAMP = ["#00204c", "#414d6b", "#7c7b78", "#bcae6c", "#ffe945"]; // cividis
const ramped = (share) => RAMP[Math.min(RAMP.length - 1, Math.floor(share * RAMP.length))];
const SCATTER = { width: 460, height: 250, left: 58, right: 10, top: 8, bottom: 40 };

// Every prompt's group as a dot, length by diversity, and what of the gradient's weight the mask
// leaves by length. `brushed(groups)` is told which dots a reader chose; null for all.
function linkedViews(brushed) {
  const colour = el("select");
  offer(colour, [["right", "share right"], ["masked", "share masked"]]);
  const clear = el("button", { type: "button", textContent: "Clear the choice", hidden: true });
  const plot = shape("svg", { class: "scatter", viewBox: `0 0 ${SCATTER.width} ${SCATTER.height}`, role: "img",
    "aria-label": "Groups of responses by mean length and diversity; drag to choose some" });
  const weights = shape("svg", { class: "weights", viewBox: `0 0 ${SCATTER.width} ${SCATTER.height}`, role: "img" });
  const node = el("div", { className: "views" },
    el("div", {}, el("p", { textContent: "A dot is one prompt's group at one step: drag over some to read them." }),
      plot, labelled("Colour", colour), clear),
    el("div", {}, el("p", { textContent: "Weight in the gradient, |A| × tokens, by length: filled is what the mask leaves." }), weights));
  let rows = [], arms = {}, dots = [], chosen = null, from = null;
  const { width, height, left, right, top, bottom } = SCATTER;
  const text = (x, y, words, anchor = "middle") => shape("text", { x, y, "text-anchor": anchor }, words);
  const short = (value) => String(Number(value.toPrecision(3)));

  function axes(into, [low, high], [under, over], xTitle, yTitle) {
    const x = (value) => left + (value - low) / (high - low || 1) * (width - left - right);
    const y = (value) => height - bottom - (value - under) / (over - under || 1) * (height - top - bottom);
    into.append(shape("path", { class: "axes", d: `M${left},${top}V${height - bottom}H${width - right}` }),
      ...[low, (low + high) / 2, high].map((value, i) =>
        text(x(value), height - bottom + 14, short(value), i === 2 ? "end" : "middle")),
      ...[under, (under + over) / 2, over].map((value) => text(left - 5, y(value) + 4, short(value), "end")),
      text((left + width) / 2, height - 6, xTitle));
    const side = text(0, 0, yTitle);
    side.setAttribute("transform", `translate(11 ${(top + height - bottom) / 2}) rotate(-90)`);
    into.append(side);
    return { x, y };
  }
  const span = (values) => [Math.min(...values), Math.max(...values)];

  function draw() {
    const groups = [...Map.groupBy(rows.filter((row) => Number.isFinite(row.diversity)), groupOf)];
    if (chosen && !groups.some(([key]) => chosen.has(key))) choose(null); // of another run or generation
    plot.replaceChildren();
    node.hidden = groups.length < 2;
    if (node.hidden) return;
    const values = groups.map(([key, mine]) => ({
      key, arm: mine[0].arm, step: mine[0].step, problem: mine[0].problem,
      length: mean(mine.map((row) => row.length)), diversity: mine[0].diversity,
      right: mean(mine.map(isRight)), masked: mean(mine.map((row) => row.masked)),
    }));
    const { x, y } = axes(plot, span(values.map((one) => one.length)), span(values.map((one) => one.diversity)),
      "mean length (tokens)", "Distinct-4 of words");
    dots = values.map((one) => ({ ...one, x: x(one.length), y: y(one.diversity) }));
    for (const dot of dots) {
      const label = `${arms[dot.arm]?.label ?? dot.arm}, step ${dot.step}, ${dot.problem}: `
        + `${Math.round(100 * dot.right)} % right, ${Math.round(100 * dot.masked)} % masked`;
      dot.node = shape("circle", { cx: dot.x, cy: dot.y, r: 5, fill: ramped(dot[colour.value]),
        stroke: arms[dot.arm]?.color ?? "gray", "stroke-width": 2 }, shape("title", {}, label));
      plot.append(dot.node);
    }
    plot.append(shape("rect", { class: "brush", visibility: "hidden" }));
    mark();
    drawWeights();
  }

  function drawWeights() {
    const known = rows.filter((row) => row.raw && (!chosen || chosen.has(groupOf(row))));
    weights.replaceChildren();
    const longest = Math.max(1, ...known.map((row) => row.length)), bins = 8;
    const sums = Array.from({ length: bins }, () => ({ all: 0, left: 0 }));
    for (const row of known) {
      const bin = sums[Math.min(bins - 1, Math.floor(row.length / longest * bins))];
      bin.all += Math.abs(row.raw) * row.length;
      if (!row.masked) bin.left += Math.abs(row.raw) * row.length;
    }
    const most = Math.max(1e-9, ...sums.map(({ all }) => all)), total = sums.reduce((sum, { all }) => sum + all, 0);
    const { x, y } = axes(weights, [0, longest], [0, 100], "length (tokens)", "% of the largest bar");
    sums.forEach(({ all, left: kept }, i) => {
      const from = x(i * longest / bins) + 2, to = x((i + 1) * longest / bins) - 2;
      for (const [part, kind] of [[all, "all"], [kept, "kept"]]) {
        const high = y(100 * part / most);
        weights.append(shape("rect", { class: kind, x: from, width: to - from, y: high, height: y(0) - high },
          shape("title", {}, `${all ? Math.round(100 * kept / all) : 0} % of the weight here is left`)));
      }
    });
    const survived = sums.reduce((sum, { left: kept }) => sum + kept, 0);
    weights.setAttribute("aria-label", `${total ? Math.round(100 * survived / total) : 0} % of the weight survives`);
    weights.append(text(left + 6, top + 10, weights.getAttribute("aria-label"), "start"));
  }

  function mark() {
    for (const dot of dots) dot.node.classList.toggle("out", Boolean(chosen) && !chosen.has(dot.key));
    clear.hidden = !chosen;
  }
  function choose(keys) {
    chosen = keys;
    mark();
    drawWeights();
    brushed(chosen);
  }
  const at = ({ clientX, clientY }) => {
    const box = plot.getBoundingClientRect();
    return [(clientX - box.left) / box.width * width, (clientY - box.top) / box.height * height];
  };
  plot.addEventListener("pointerdown", (event) => { from = at(event); plot.setPointerCapture(event.pointerId); });
  plot.addEventListener("pointermove", (event) => {
    if (!from) return;
    const to = at(event), area = plot.querySelector(".brush");
    const [x0, x1] = span([from[0], to[0]]), [y0, y1] = span([from[1], to[1]]);
    for (const [key, value] of Object.entries({ x: x0, y: y0, width: x1 - x0, height: y1 - y0, visibility: "visible" })) {
      area.setAttribute(key, value);
    }
  });
  plot.addEventListener("pointerup", (event) => {
    if (!from) return;
    const to = at(event), [x0, x1] = span([from[0], to[0]]), [y0, y1] = span([from[1], to[1]]);
    const reach = x1 - x0 < 4 && y1 - y0 < 4 ? 7 : 0; // a click takes the dot it hits
    from = null;
    plot.querySelector(".brush").setAttribute("visibility", "hidden");
    const inside = dots.filter(({ x, y }) => x >= x0 - reach && x <= x1 + reach && y >= y0 - reach && y <= y1 + reach);
    choose(inside.length ? new Set(inside.map(({ key }) => key)) : null);
  });
  clear.addEventListener("click", () => choose(null));
  colour.addEventListener("change", draw);
  return {
    node,
    clear: () => { chosen = null; mark(); drawWeights(); },
    show(given, known) {
      const look = JSON.stringify(given.map(({ arm, step, group, length, masked }) => [arm, step, group, length, masked]));
      if (look === node.dataset.look) return;
      node.dataset.look = look;
      [rows, arms] = [given, known];
      draw();
    },
  };
}

// What tokens can be coloured by: each gives tint and words of a token. What is measured of tokens is a
// hexadecimal digit each, three to a nat (of a ratio ten, 8 being 1), as in mcbench/report/samples.py;
// the rest is the response's.
const tinted = (rgb, share) => `rgba(${rgb},${Math.min(0.85, 0.85 * share).toFixed(2)})`;
const digitOf = (digits, i) => parseInt(digits[i], 16);
const UNKNOWN = ["none", "not recorded"]; // as of what a mask has left out
const signed = (value) => `${value > 0 ? "+" : ""}${value.toFixed(2).replace("-", "−")}`;
const OVERLAYS = {
  levels: { title: "log-probability", shade(row, { levels }, i) {
    if (!levels?.[i]) return UNKNOWN;
    const level = digitOf(levels, i);
    return [tinted("230,159,0", level / 15),
      `log-probability about −${(level / 3).toFixed(1)}: ${Math.round(100 * Math.exp(-level / 3))} %`];
  } },
  entropy: { title: "entropy", shade(row, { entropy }, i) {
    if (!entropy?.[i]) return UNKNOWN;
    const level = digitOf(entropy, i);
    return [tinted("204,121,167", level / 9), `entropy about ${(level / 3).toFixed(1)} nats`];
  } },
  advantage: { title: "advantage after the mask", shade({ advantage: a }) {
    return a === null ? ["none", "no advantage"] : [tinted(a < 0 ? "213,94,0" : "0,114,178", Math.abs(a) / 2), `advantage ${signed(a)}`];
  } },
  masked: { title: "mask", shade: ({ masked, raw }) => (masked
    ? ["rgba(128,134,144,.5)", `masked: no gradient; its advantage was ${raw === null ? "not known" : signed(raw ?? 0)}`]
    : ["none", "not masked: every token counts"]) },
  ratio: { title: "ratio and clip", shade(row, { ratio, clipped }, i) {
    if (!ratio?.[i]) return UNKNOWN;
    const level = digitOf(ratio, i) - 8, words = `ratio to the policy that sampled it about ${Math.exp(level / 10).toFixed(2)}`;
    return clipped?.[i] === "1" ? ["rgba(128,134,144,.7)", `${words}: clipped, no gradient`]
      : [tinted(level < 0 ? "213,94,0" : "0,114,178", Math.abs(level) / 5), words];
  } },
  weight: { title: "importance weight", shade: ({ weight }) => (weight === null || weight === undefined ? ["none", "no weight recorded"]
    : [tinted("0,158,115", weight), `the correction for the sampler leaves ${Math.round(100 * weight)} % of its weight`]) },
};

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
// `ask(wanted)` and `follow(call)` do something only on a live page.
function pageSource({ arms, prompts, pieces, columns, verdicts }) {
  const names = Object.keys(columns);
  const rows = columns.text.map((text, id) => {
    const row = Object.fromEntries(names.map((name) => [name, columns[name][id]]));
    const own = row.pieces?.map((place) => pieces[place]);
    const written = typeof text === "number" ? own.slice(0, text).join("") : text;
    return { ...row, id, pieces: own, text: written };
  });
  const probable = rows.some((row) => row.levels), uncertain = rows.some((row) => row.entropy);
  const moved = rows.some((row) => row.ratio);
  const has = (text, words) => text.toLowerCase().includes(words);
  return {
    live: false,
    asked: () => ({}),
    data: () => ({ arms, rows, verdicts, probable, uncertain, moved }),
    text: (row) => ({ ...row, prompt: prompts[row.prompt] }),
    finds: (row, words) => has(row.text, words) || has(prompts[row.prompt], words),
    ask: () => {},
    follow: () => {},
  };
}

// Whether a figure is of the runs that another browser of the page shows: ids begin with the runs' name,
// and the longest such name is meant.
function isOfAnother(root, figure) {
  const name = ({ dataset: { samples } }) => samples.replace(/samples$/, "");
  const owners = [...document.querySelectorAll(".browser[data-samples]")].filter((one) => figure.startsWith(name(one)));
  const owner = owners.sort((one, two) => name(two).length - name(one).length)[0];
  return owner !== undefined && owner !== root;
}

function browse(root, source) {
  const select = (...options) => { const one = el("select"); offer(one, options); return one; };
  const arm = select(), beside = select(), step = select(), problem = select();
  const verdict = select();
  const cut = select(["", "any"], ["true", "cut"], ["false", "ended by itself"]);
  const masked = select(["", "any"], ["true", "masked"], ["false", "not masked"]);
  const search = el("input", { type: "search", placeholder: "in prompts and responses" });
  const colour = select(["", "nothing"]);
  const before = el("button", { type: "button", textContent: "‹", "aria-label": "previous problem" });
  const after = el("button", { type: "button", textContent: "›", "aria-label": "next problem" });
  const summary = el("p", { className: "summary", role: "status" });
  const over = el("input", { type: "checkbox" });
  let chosen = null; // groups that were brushed
  const views = linkedViews((groups) => { chosen = groups; again(); });
  const list = el("div", { className: "found" });
  const more = el("button", { type: "button", className: "more", textContent: "Show more" });
  root.append(
    el("div", { className: "filters" },
      labelled("Generation", step),
      labelled("Problem", el("span", { className: "steps" }, before, problem, after)),
      labelled(source.live ? "Run" : "Arm", arm), ...(source.live ? [labelled("Beside", beside)] : []),
      labelled("Verdict", verdict), labelled("Length limit", cut), labelled("Mask", masked),
      labelled("Search", search), labelled("Colour tokens by", colour),
      labelled("This problem at all steps", over)),
    views.node, summary, list, more);

  const hidden = new Set(); // arms that the page's own buttons switched off
  const toggled = new Map(); // row id -> open, where a reader opened or closed it
  let limit = MATCHES, everyArm = false, everyResponse = false;
  let followed = ""; // the problem that is shown at all steps
  let searched = false; // the words of before are in their place
  let drawn = ""; // what the list shows
  const keyOf = (row) => (source.live && !over.checked ? row.problem || row.group : `${row.step}/${row.group}/${row.problem}`);
  const words = () => search.value.trim().toLowerCase();
  const filtering = () => Boolean(verdict.value || cut.value || masked.value || words() || chosen || over.checked);

  function offerAll({ arms, rows, verdicts, probable, uncertain, moved, steps, chosen }) {
    const names = Object.entries(arms).map(([id, { label }]) => [id, label]);
    const known = { levels: probable, entropy: uncertain, ratio: moved, weight: rows.some((row) => "weight" in row) };
    offer(colour, [["", "nothing"], ...Object.entries(OVERLAYS).filter(([key]) => known[key] ?? true)
      .map(([key, { title }]) => [key, title])]);
    const kinds = [...new Set(rows.flatMap((row) => row.verdicts.split(",")))].sort();
    offer(verdict, [["", "any"], ["right", "right"], ["wrong", "wrong"],
      ...kinds.map((kind) => [kind, verdicts[kind] ? `${kind}: ${verdicts[kind]}` : kind])]);
    if (source.live) {
      offer(arm, names.filter(([id]) => arms[id].stored), chosen);
      offer(beside, [["", "nothing"], ...names.filter(([id]) => id !== chosen)]);
      offer(step, [["latest", steps.length ? `latest (${steps.at(-1)})` : "latest"],
        ...steps.toReversed().map((one) => [one, `step ${one}`])]);
      const wanted = source.asked(); // a click on a curve may have asked for another
      if (arms[wanted.run]?.stored) arm.value = wanted.run;
      if (steps.includes(Number(wanted.step))) step.value = wanted.step;
      // What was asked before a reload, or taken back by such a click.
      over.checked = Boolean(wanted.over);
      followed = wanted.over;
      for (const [control, value] of [[beside, wanted.beside], [colour, wanted.colour]]) {
        control.value = value;
        if (control.selectedIndex < 0) control.value = "";
      }
      if (!searched) search.value = wanted.words;
      searched = true;
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
    return !hidden.has(row.arm) && (!chosen || chosen.has(groupOf(row)))
      && (!over.checked || row.problem === followed) && (source.live || !arm.value || row.arm === arm.value)
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
    views.show(data.rows.filter((row) => !hidden.has(row.arm)), data.arms);
    const found = data.rows.filter(matches), everywhere = filtering();
    const chosen = everywhere ? found : found.filter((row) => String(keyOf(row)) === problem.value);
    const shown = everywhere ? chosen.slice(0, limit) : chosen;
    const where = source.live ? "in what is chosen" : "over all generations kept here";
    summary.textContent = data.message || (everywhere
      ? `${plural(found.length, "response")} of ${data.rows.length} match, ${where}`
      : `${plural(chosen.length, "response")} to this problem`);
    more.hidden = shown.length === chosen.length;
    // What stands there already keeps its place, selection and focus.
    const texts = shown.map((row) => [row.id, ...Object.values(source.text(row) ?? {}).map((one) => one?.length)]);
    const look = JSON.stringify([texts, everywhere, words(), colour.value, data.beside, data.arms]);
    if (look !== drawn) {
      list.replaceChildren(...[...Map.groupBy(shown.toSorted((a, b) => a.step - b.step), keyOf).values()]
        .map((rows) => group(rows, data)));
      drawn = look;
    }
    source.ask({ need: shown.map((row) => row.id) });
  }

  function group(rows, data) {
    const [first] = rows, named = filtering();
    const title = `${named ? `Step ${first.step}, problem` : "Problem"} ${first.problem}`;
    return el("article", {},
      el("h4", { textContent: title }),
      el("pre", { className: "prompt", textContent: source.text(first)?.prompt ?? "…", tabIndex: 0, dir: "ltr" }),
      ...sideBySide(Object.keys(data.arms).flatMap((id) => {
        const mine = rows.filter((row) => row.arm === id);
        if (!mine.length && (named || id !== data.beside)) return [];
        const { label, color } = data.arms[id];
        const head = el("h5", {}, el("i", { style: `background:${color}` }),
          mine.length ? `${label}: ${rightOf(mine)}` : `${label}: not among its responses of this step`);
        return [el("div", {}, head, programs(mine), ...listed(mine, named, data.verdicts))];
      })));
  }

  // What was looked for is open; of a group its first response is, and the others are a click away.
  function listed(mine, named, meanings) {
    const all = mine.map((row, i) => response(row, named || i === 0, meanings));
    if (named || mine.length <= 2) return all;
    const more = el("details", { className: "others", open: mine.some((row, i) => i && toggled.get(row.id)) || everyResponse },
      el("summary", { textContent: plural(mine.length - 1, "more response") }), ...all.slice(1));
    more.addEventListener("toggle", () => { everyResponse = more.open; });
    return [all[0], more];
  }

  function sideBySide(columns) {
    const first = el("div", { className: "columns" }, ...columns.slice(0, BESIDE));
    if (columns.length <= BESIDE) return [first];
    const others = el("details", { className: "others", open: everyArm },
      el("summary", { textContent: `${plural(columns.length - BESIDE, "more arm")}` }),
      el("div", { className: "columns" }, ...columns.slice(BESIDE)));
    others.addEventListener("toggle", () => { everyArm = others.open; });
    return [first, others];
  }

  // The distinct programs of a group, the most frequent first, with how many of each are right.
  function programs(rows) {
    const same = [...Map.groupBy(rows, (row) => row.program ?? 0)].sort(([a], [b]) => (a || Infinity) - (b || Infinity));
    return el("p", { className: "programs" }, ...same.flatMap(([program, mine]) => {
      const button = el("button", { type: "button",
        textContent: `${program ? `program ${program}` : "no program"} × ${mine.length}: ${mine.filter(isRight).length} right` });
      button.addEventListener("click", () => {
        for (const row of rows) toggled.set(row.id, row.program === program);
        drawn = "";
        render();
      });
      return [button, " "];
    }));
  }

  function response(row, open, meanings) {
    const kind = row.reward === null ? "not judged" : isRight(row) ? "right" : "wrong";
    const flags = [row.cut && "cut", row.masked && "masked"].filter(Boolean);
    const advantage = row.advantage === null ? ""
      : ` · advantage ${row.advantage > 0 ? "+" : ""}${row.advantage.toFixed(2).replace("-", "−")}`;
    const text = el("pre", { tabIndex: 0, dir: "ltr" });
    const box = el("details", { className: kind, open: toggled.get(row.id) ?? open, "data-row": row.id },
      el("summary", {}, el("b", { textContent: kind }),
        ...flags.map((flag) => el("span", { className: "flag", textContent: flag })),
        ` ${row.length} tokens${advantage}`),
      tests(row.verdicts, meanings),
      el("p", { className: "why" }, why(row, meanings), ...(source.live ? [] : [" ", linkTo(row)])), text);
    box.querySelector("summary").addEventListener("click", () => toggled.set(row.id, !box.open));
    const told = source.text(row) ?? {}, { text: written = "…", pieces, turns } = told;
    const shade = OVERLAYS[colour.value]?.shade;
    if (shade) text.append(...(pieces ?? [written]).map((piece, i) => token(piece, shade(row, told, i))));
    else if (turns) turns.forEach((turn, i) => played(turn, i, text));
    else mark(written, text);
    return box;
  }

  // A link to one response: browser, arm, step, problem, and which of its responses there.
  const sameAs = (row) => source.data().rows.filter(({ arm, step, problem }) =>
    arm === row.arm && step === row.step && problem === row.problem);
  function linkTo(row) {
    const place = [root.dataset.samples, row.arm, row.step, row.problem, sameAs(row).indexOf(row)];
    return el("a", { href: `#response=${place.map(encodeURIComponent).join(",")}`, textContent: "link" });
  }
  function goTo() {
    if (source.live || !location.hash.startsWith("#response=")) return;
    const [name, of, at, which, n] = location.hash.slice(10).split(",").map(decodeURIComponent);
    if (name !== root.dataset.samples) return;
    const row = sameAs({ arm: of, step: Number(at), problem: which })[Number(n)];
    if (!row) { summary.textContent = "The response of this link is not among those that are kept here."; return; }
    chosen = null;
    views.clear();
    over.checked = false;
    for (const control of [verdict, cut, masked, search]) control.value = "";
    [arm.value, step.value] = [row.arm, String(row.step)];
    render(); // the problems of that step are offered then
    problem.value = String(keyOf(row));
    toggled.set(row.id, true);
    drawn = "";
    render();
    for (let fold = root.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    list.querySelector(`[data-row="${row.id}"]`).scrollIntoView({ block: "center" });
  }

  // One turn of an episode: what became of it, what the model wrote, what it was told then.
  function played({ action, verdict, observation }, i, into) {
    into.append(el("b", { className: "turn", textContent: `Turn ${i + 1}: ${verdict}\n` }));
    mark(`${action}\n`, into);
    if (!observation) return;
    const told = el("i", { className: "told" });
    mark(`Told: ${observation.trim()}\n`, told);
    into.append(told);
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
    const again = row.second?.split(",").at(-1);
    return [judged, again && `Judged again on hidden tests: ${meanings[again] ?? again}.`, row.cut && "Cut at the length limit.",
      row.masked && "Masked: its advantage was set to 0."].filter(Boolean).join(" ");
  }

  const token = (piece, [tint, title]) =>
    el("span", { className: "token", textContent: piece, style: `background:${tint}`, title });

  over.addEventListener("change", () => {
    const first = source.data().rows.find((row) => source.live ? String(row.problem || row.group) === problem.value
      : String(keyOf(row)) === problem.value);
    if (over.checked) followed = first?.problem ?? "";
    source.ask({ over: over.checked ? followed : "" });
    again();
  });
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
        run: arm.value, beside: beside.value, step: step.value || "latest", words: words(), colour: colour.value,
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
  document.addEventListener("open", ({ detail }) => { // a click on a curve's point
    if (source.live || isOfAnother(root, detail.figure)) return;
    const steps = [...step.options].map((option) => Number(option.value));
    step.value = steps.reduce((best, one) => (Math.abs(one - detail.step) < Math.abs(best - detail.step) ? one : best));
    if (Object.hasOwn(source.data().arms, detail.arm)) arm.value = detail.arm;
    chosen = null;
    views.clear();
    over.checked = false;
    again();
    summary.textContent += Number(step.value) === detail.step ? ""
      : `; of step ${step.value}, the nearest to ${detail.step} of which any are kept`;
    root.closest("section").scrollIntoView();
  });
  source.follow(render);
  render();
  addEventListener("hashchange", goTo);
  goTo();
}

const held = document.getElementById("sample-data"); // a page's
if (held) {
  const all = JSON.parse(held.textContent); // by section
  for (const root of document.querySelectorAll(".browser[data-samples]")) {
    browse(root, pageSource(all[root.dataset.samples]));
  }
}

globalThis.mcbenchBrowse = browse; // for a live page (watch.js)
