// Brings plotly's widget code into the page once, for all figures of all dashboards in it.
// A plain FigureWidget carries its own copy of these five megabytes.
function shared(version) {
  const slots = (globalThis.mcbenchPlotly ??= new Map());
  if (!slots.has(version)) slots.set(version, Promise.withResolvers());
  return slots.get(version);
}

function load(model) {
  const slot = shared(model.get("version"));
  if (slot.taken) return;
  slot.taken = true;
  const url = URL.createObjectURL(new Blob([model.get("source")], { type: "text/javascript" }));
  import(url)
    .then((plotly) => {
      // Each change would be answered with plotly's whole resolved state, each hover with the points
      // under the mouse, each zoom with its range; nobody listens, and the kernel trains.
      for (const name of ["_sendTraceDeltas", "_sendLayoutDelta", "_send_points_callback_message",
        "touch"])
        plotly.FigureView.prototype[name] = () => {};
      slot.resolve(plotly);
    }, slot.reject)
    .finally(() => URL.revokeObjectURL(url));
}

export default { initialize: ({ model }) => load(model) };
