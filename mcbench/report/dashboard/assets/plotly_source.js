// Brings plotly's widget code into the page once, for all figures of all dashboards in it.
// A plain FigureWidget carries its own copy of these five megabytes. Running them holds the page for
// a second, on a busy machine for more than the two after which anywidget gives up on a widget that
// was just made and loses all its messages. So they wait for the first figure that is shown, when
// the widgets around it are made, and a little longer, until those have loaded.
const SETTLE_MS = 250;

function shared(version) {
  const slots = (globalThis.mcbenchPlotly ??= new Map());
  if (!slots.has(version)) {
    slots.set(version, { ...Promise.withResolvers(), wanted: Promise.withResolvers() });
  }
  return slots.get(version);
}

// What a figure in a live view needs beyond plotly's own view.
function adapt(view) {
  // Each change would be answered with plotly's whole resolved state, each hover with the points
  // under the mouse, each zoom with its range; nobody listens, and the kernel trains. A click is
  // heard: it opens the responses of its step.
  for (const name of ["_sendTraceDeltas", "_sendLayoutDelta", "_send_points_callback_message",
    "touch"]) view[name] = () => {};
  view.handle_plotly_click = function (event) {
    const points = this.buildPointsObject(event);
    this.model.set("_js2py_pointsCallback", { event_type: "plotly_click", points });
    this.model.save_changes();
  };
  // A view that left the page still hears its model, but has nothing to draw on.
  const { perform_render, remove, autosizeFigure } = view;
  for (const name of Object.getOwnPropertyNames(view).filter((name) => name.startsWith("do_"))) {
    const change = view[name];
    view[name] = function () { if (!this.gone) change.call(this); };
  }
  view.perform_render = function () {
    perform_render.call(this);
    this.observer = new ResizeObserver(() => this.autosizeFigure());
    this.observer.observe(this.el);
  };
  view.autosizeFigure = function () {
    if (this.gone || !this.el.offsetWidth || this.el.offsetWidth === this.width) return;
    this.width = this.el.offsetWidth;
    autosizeFigure.call(this);
  };
  view.remove = function () {
    this.gone = true;
    this.observer?.disconnect();
    // A figure may leave as soon as it came; plotly fails where its drawing ends on a purged plot.
    setTimeout(() => remove.call(this));
  };
}

function load(slot, model) {
  const url = URL.createObjectURL(new Blob([model.get("source")], { type: "text/javascript" }));
  import(url)
    .then((plotly) => {
      adapt(plotly.FigureView.prototype);
      slot.resolve(plotly);
    }, slot.reject)
    .finally(() => URL.revokeObjectURL(url));
}

function initialize({ model }) {
  const slot = shared(model.get("version"));
  if (slot.taken) return;
  slot.taken = true;
  slot.wanted.promise.then(() => setTimeout(() => load(slot, model), SETTLE_MS));
}

export default { initialize };
