// One prompt and its responses, beside those of another run. What a model wrote is only ever set as
// text (textContent), so that it cannot become markup.
function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

function tokens(response, target) {
  response.pieces.forEach((piece, index) => {
    const value = response.logprobs[index];
    const token = element("span", "mcb-token", piece);
    if (value !== null && value !== undefined) {
      const share = Math.min(1, -value / 4); // e^-4: under 2 %
      token.style.setProperty("--surprise", `${Math.round(100 * share)}%`);
      token.title = `log-probability ${value.toFixed(2)}: ${(100 * Math.exp(value)).toFixed(1)} %`;
    }
    target.append(token);
  });
}

function marked(text, word, target) {
  const lower = text.toLowerCase(), wanted = word.toLowerCase();
  let place = 0;
  for (let found = wanted ? lower.indexOf(wanted) : -1; found >= 0;
    found = lower.indexOf(wanted, place)) {
    target.append(text.slice(place, found), element("mark", "", text.slice(found, found + word.length)));
    place = found + word.length;
  }
  target.append(text.slice(place));
}

function card(response, word, colored, open) {
  const details = element("details", `mcb-response mcb-${response.outcome}`);
  details.dataset.verdicts = response.verdicts.join(",");
  const summary = element("summary");
  summary.append(element("b", "", `${response.number}`), element("span", "mcb-chip", response.words));
  summary.append(element("span", "mcb-facts", response.facts));
  details.append(summary);
  const fill = () => {
    if (details.childElementCount > 1) return;
    const tests = element("ol", "mcb-tests");
    response.verdicts.forEach((verdict, index) => {
      const test = element("li", verdict === "AC" ? "mcb-pass" : "mcb-fail", verdict);
      test.title = `test ${index + 1}: ${response.meanings[index]}`;
      tests.append(test);
    });
    if (response.verdicts.length) details.append(tests);
    details.append(element("p", "mcb-why", response.why));
    const text = element("pre");
    text.dir = "ltr";
    if (colored && response.pieces) tokens(response, text);
    else marked(response.text, word, text);
    details.append(text);
  };
  details.addEventListener("toggle", fill);
  details.open = open;
  if (open) fill();
  return details;
}

function render({ model, el }) {
  el.classList.add("mcb-samples");
  const opened = new Set();
  function draw() {
    const view = model.get("view");
    const parts = [];
    if (view.message) parts.push(element("p", "mcb-message", view.message));
    if (view.prompt) {
      const prompt = element("pre", "mcb-prompt", view.prompt);
      prompt.dir = "ltr";
      parts.push(prompt);
    }
    const columns = element("div", "mcb-columns");
    for (const column of view.columns ?? []) {
      const part = element("section");
      part.append(element("h4", "", column.title));
      if (column.note) part.append(element("p", "mcb-why", column.note));
      for (const response of column.responses) {
        const id = `${column.title} ${response.number}`;
        const made = card(response, view.search, view.colored, opened.has(id));
        made.addEventListener("toggle", () => opened[made.open ? "add" : "delete"](id));
        part.append(made);
      }
      columns.append(part);
    }
    parts.push(columns);
    el.replaceChildren(...parts);
  }
  model.on("change:view", draw);
  draw();
  return () => model.off("change:view", draw);
}

export default { render };
