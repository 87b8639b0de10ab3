// The form that adds an arm. Everything known is set as text; what is typed travels as `asked`, and
// the kernel answers with `told`. Buttons send a message.
const WAIT_MS = 250; // after the last key

function el(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function render({ model, el: root }) {
  root.classList.add("mcb-form");
  const { families, bases } = model.get("about");
  const field = (text, control) => el("label", {}, el("span", { textContent: text }), control);
  const options = (values) => values.map((value) => el("option", { value, textContent: value }));
  const name = el("input", { type: "text", placeholder: "such as rho 0.5", name: "name" });
  const base = el("select", { name: "base" }, ...options(bases));
  const seeds = el("input", { type: "text", name: "seeds" });
  const family = el("select", { name: "family" }, ...options(Object.keys(families)));
  const settings = el("div", { className: "mcb-settings" });
  const changed = el("div", { className: "mcb-changed" });
  const cost = el("p", { className: "mcb-cost" }), problem = el("p", { className: "mcb-problem" });
  cost.setAttribute("role", "status");
  const add = el("button", { type: "button", className: "mcb-add", textContent: "Train this arm" });
  const own = el("ul", { className: "mcb-own" });
  const details = el("details", { open: true }, el("summary", { textContent: "Add an arm" }),
    el("div", { className: "mcb-fields" }, field("Name", name), field("Starts from", base),
      field("Seeds", seeds), field("Settings of", family)),
    settings, changed, cost, problem, add);
  root.append(details, own);
  family.value = "mask" in families ? "mask" : family.value;

  let timer = 0;
  function ask(change) {
    clearTimeout(timer);
    model.set("asked", { ...model.get("asked"), ...change });
    timer = setTimeout(() => model.save_changes(), WAIT_MS);
  }
  function put(setting, text) {
    const values = { ...model.get("asked").values };
    if (text.trim()) values[setting] = text; else delete values[setting];
    ask({ values });
    draw();
  }
  const send = (action, of) => model.send({ action, name: of });

  // One row a setting: an empty field, or "as it is", leaves what the base has.
  function row({ name: setting, help, takes, choices }) {
    const value = model.get("asked").values[setting] ?? "";
    const known = model.get("told").defaults?.[setting] ?? "";
    const usual = known === "" ? "left to the trainer" : known;
    const control = choices.length
      ? el("select", {}, el("option", { value: "", textContent: `as it is: ${usual}` }), ...options(choices))
      : el("input", { type: "text", placeholder: usual });
    control.value = value;
    control.dataset.setting = setting;
    control.addEventListener(choices.length ? "change" : "input", () => put(setting, control.value));
    return el("label", {}, el("b", { textContent: setting }), control,
      el("span", { textContent: choices.length ? help : `${help} (${takes})` }));
  }
  let look = "";
  function draw() {
    const asked = model.get("asked"), told = model.get("told");
    for (const [control, key] of [[name, "name"], [base, "base"], [seeds, "seeds"]]) {
      if (control.value !== asked[key] && document.activeElement !== control) control.value = asked[key];
    }
    const next = JSON.stringify([family.value, told.defaults]);
    const stale = [...settings.querySelectorAll("[data-setting]")]
      .some((one) => one !== document.activeElement && one.value !== (asked.values[one.dataset.setting] ?? ""));
    if (next !== look || stale) {
      look = next;
      settings.replaceChildren(...families[family.value].map(row));
    }
    changed.replaceChildren(...Object.entries(asked.values).map(([setting, value]) => {
      const drop = el("button", { type: "button", textContent: `${setting} = ${value} ×`, title: "leave it as it is" });
      drop.addEventListener("click", () => put(setting, ""));
      return drop;
    }));
    cost.textContent = told.cost ?? "";
    problem.textContent = told.problem || (told.ready ? "" : "A new arm needs a name.");
    add.disabled = !told.ready;
    add.title = told.line ?? "";
  }

  const VERBS = { stop_arm: "Stop", resume: "Resume" };
  function drawOwn() {
    own.replaceChildren(...model.get("own").map(({ name: arm, told, line, action }) => {
      const buttons = [action, "remove"].filter(Boolean).map((one) => {
        const button = el("button", { type: "button", textContent: VERBS[one] ?? "Remove" });
        button.addEventListener("click", () => { button.disabled = true; send(one, arm); });
        return button;
      });
      return el("li", {}, el("b", { textContent: arm }), ` ${told} `, ...buttons, el("code", { textContent: line }));
    }));
  }

  name.addEventListener("input", () => ask({ name: name.value }));
  seeds.addEventListener("input", () => ask({ seeds: seeds.value }));
  base.addEventListener("change", () => ask({ base: base.value }));
  family.addEventListener("change", draw);
  add.addEventListener("click", () => {
    clearTimeout(timer);
    model.save_changes();
    add.disabled = true;
    name.blur();
    send("add");
  });
  const listeners = { "change:asked": draw, "change:told": draw, "change:own": drawOwn };
  for (const [event, call] of Object.entries(listeners)) model.on(event, call);
  draw();
  drawOwn();
  return () => { for (const [event, call] of Object.entries(listeners)) model.off(event, call); };
}

export default { render };
