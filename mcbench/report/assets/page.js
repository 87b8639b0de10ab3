(() => {
  "use strict";
  const specs = JSON.parse(document.getElementById("figure-data").textContent);
  const config = {
    displayModeBar: false,  // dragging zooms, a double click resets
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Figures come without colours of their own for text and grid: those are the reader's theme.
  function theme(layout) {
    const update = {
      "font.color": css("--muted"), "font.family": css("--sans"),
      "hoverlabel.bgcolor": css("--card"), "hoverlabel.bordercolor": css("--line"),
      "hoverlabel.font.color": css("--fg"),
    };
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(key)) update[key + ".gridcolor"] = css("--grid");
    }
    return update;
  }

  // "font.color" -> layout.font.color, before the first drawing, which is then the only one.
  function themed(layout) {
    for (const [path, value] of Object.entries(theme(layout))) {
      const keys = path.split("."), last = keys.pop();
      keys.reduce((at, key) => (at[key] ??= {}), layout)[last] = value;
    }
    return layout;
  }

  const divs = [...document.querySelectorAll(".plot")];
  const drawn = divs.map((div) => {
    const { data, layout } = specs[div.id];
    return Plotly.newPlot(div, data, themed(layout), config);
  });

  // A figure follows its own box: that also covers printing, rotation and an opened sidebar.
  const boxes = new ResizeObserver((entries) => {
    for (const { target } of entries) if (target.data) Plotly.Plots.resize(target);
  });
  divs.forEach((div) => boxes.observe(div));

  const restyleAll = () => divs.forEach((div) => Plotly.relayout(div, theme(specs[div.id].layout)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyleAll);

  // Paper has no resize event: two figures of fixed width side by side fit A4 and Letter.
  addEventListener("beforeprint", () => {
    boxes.disconnect();
    restyleAll();
    divs.forEach((div) => Plotly.relayout(div, { width: 312, height: 230 }));
  });
  addEventListener("afterprint", () => {
    restyleAll();
    divs.forEach((div) => Plotly.relayout(div, { width: null, height: null, autosize: true }));
    divs.forEach((div) => boxes.observe(div));
  });

  document.querySelectorAll(".arms button").forEach((button) => {
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      for (const div of divs) {
        const found = div.data.flatMap((trace, i) => trace.legendgroup === button.value ? [i] : []);
        if (found.length) Plotly.restyle(div, { visible: on }, found);
      }
    });
  });
  Promise.all(drawn).then(() => { document.body.dataset.drawn = String(drawn.length); });
})();
