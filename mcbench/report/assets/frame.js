// The live page (watch.js) in a frame of a notebook. What is asked and answered are this widget's
// state, so that a page that is opened anew, or moved, has all of it.
const NAMES = ["asked", "status", "models", "rows", "arms", "sections", "figures", "data", "texts"];
const state = (model, names) => Object.fromEntries(names.map((name) => [name, model.get(name)]));

export default {
  render({ model, el }) {
    const frame = Object.assign(document.createElement("iframe"), { className: "mcb-live",
      title: "Runs while they train", srcdoc: model.get("page"),
      mcbench: { model, all: () => state(model, NAMES) } });
    // What comes together is shown together: figures need their places, texts their rows.
    const came = new Set();
    const heard = Object.fromEntries(NAMES.map((name) => [`change:${name}`, () => {
      if (!came.size) queueMicrotask(() => {
        frame.contentWindow?.mcbenchTold?.(state(model, [...came]));
        came.clear();
      });
      came.add(name);
    }]));
    heard["msg:custom"] = ({ opened }) => frame.contentWindow?.mcbenchOpened?.(...opened);
    for (const [event, call] of Object.entries(heard)) model.on(event, call);
    // A page in a frame is as light or dark as the frame is.
    const theme = () => { frame.style.colorScheme = document.body.dataset.jpThemeLight === "false" ? "dark" : "light"; };
    const themes = new MutationObserver(theme);
    themes.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
    theme();
    el.append(frame);
    return () => {
      themes.disconnect();
      for (const [event, call] of Object.entries(heard)) model.off(event, call);
    };
  },
};
