// The page's side of a LiveFigure: plotly's own, loaded once (plotly_source.js) and not waited for,
// because a widget that takes long to load loses its messages. Those that come before are kept.
const MESSAGES = ["addTraces", "deleteTraces", "moveTraces", "restyle", "relayout", "update",
  "animate", "removeLayoutProps", "removeTraceProps"].map((name) => `_py2js_${name}`);

function shared(version) {
  const slots = (globalThis.mcbenchPlotly ??= new Map());
  if (!slots.has(version)) {
    slots.set(version, { ...Promise.withResolvers(), wanted: Promise.withResolvers() });
  }
  return slots.get(version);
}

export default () => {
  let ready;
  return {
    initialize({ model }) {
      const early = [];
      const keepers = MESSAGES.map((name) => {
        const keep = () => model.get(name) && early.push([name, model.get(name)]);
        model.on(`change:${name}`, keep);
        return () => model.off(`change:${name}`, keep);
      });
      ready = shared(model.get("plotly_version")).promise.then((plotly) => {
        keepers.forEach((stop) => stop());
        const widget = plotly.default();
        widget.initialize({ model });
        for (const [name, message] of early) {
          model.set(name, message);
          model.set(name, null);
        }
        return widget;
      });
    },
    async render({ model, el }) {
      shared(model.get("plotly_version")).wanted.resolve();
      el.setAttribute("role", "img");
      el.setAttribute("aria-label", model.get("alt"));
      return (await ready).render({ model, el });
    },
  };
};
