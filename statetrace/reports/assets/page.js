// Draws the figures of the page and handles their controls, comparison and export.
// Plain JavaScript, no build step. All text is set through textContent.
"use strict";
(async function () {
  const SEPARATOR = "\u241f";
  const root = document.documentElement;

  function make(tag, props = {}, ...children) {
    const element = Object.assign(document.createElement(tag), props);
    element.append(...children);
    return element;
  }

  function shape(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  async function unpack(id) {
    const element = document.getElementById(id);
    const bytes = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
    element.remove();
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  // An open iframe delays the load event until every figure is drawn, so that tools which print at
  // that event print all of them.
  const hold = make("iframe", { hidden: true });
  document.body.append(hold);
  hold.contentDocument.open();
  const release = () => { hold.contentDocument?.close(); hold.remove(); };

  // Theme: that of the system, until the button is pressed.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  function setTheme(name) {
    root.dataset.theme = name;
    button.textContent = name === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colors`);
  }
  setTheme(dark.matches ? "dark" : "light");

  if (typeof DecompressionStream === "undefined") {
    document.getElementById("loading").textContent =
      "This browser is too old to show the figures: it has no DecompressionStream.";
    release();
    return;
  }
  const [library, text] = await Promise.all([unpack("plotly-packed"), unpack("data-packed")]);
  document.head.append(make("script", { textContent: library }));
  const { figures, traces, steps, runs } = JSON.parse(text);

  function colours(value, style) {
    if (typeof value === "string") {
      return value[0] === "@" ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
    }
    if (Array.isArray(value)) {
      return value.length && typeof value[0] === "number" ? value : value.map((v) => colours(v, style));
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, colours(v, style)]));
    }
    return value;
  }

  const touch = matchMedia("(pointer: coarse)").matches;
  let chosenStep = steps.length ? steps[steps.length - 1] : null;

  // The newest checkpoint of a run that is not later than the chosen one.
  function stateOf(column) {
    const { states } = column;
    if (column.run === null || states.length === 1 || chosenStep === null) {
      return states[states.length - 1];
    }
    let newest = 0;
    runs[column.run].forEach((step, i) => { if (step === null || step <= chosenStep) newest = i; });
    return states[Math.min(newest, states.length - 1)];
  }

  // The chosen view; controls that a run does not have are ignored.
  function viewOf(state, key) {
    const parts = key.split(SEPARATOR);
    for (let n = parts.length; n > 0; n--) {
      const view = state.views[parts.slice(0, n).join(SEPARATOR)];
      if (view) return view;
    }
    return state.views[""] || null;
  }

  class Figure {
    constructor(data) {
      this.data = data;
      this.section = document.querySelector(`[data-figure="${data.name}"]`);
      this.drawn = false;
      this.busy = false;
      this.section.querySelectorAll("[data-control]").forEach((control) =>
        control.addEventListener("change", () => this.draw()));
      this.section.querySelectorAll("[data-save]").forEach((b) =>
        b.addEventListener("click", () => this.save(b.dataset.save)));
    }

    key() {
      const chosen = [];
      this.section.querySelectorAll("[data-control]").forEach((control) => {
        if (control.type === "radio" && !control.checked) return;
        chosen[Number(control.dataset.control)] = control.value;
      });
      return chosen.join(SEPARATOR);
    }

    // What is shown: each column with its checkpoint, element and view (or null).
    views() {
      const key = this.key();
      return this.data.columns.map((column, i) => {
        const state = stateOf(column);
        const element = this.section.querySelector(`[data-column="${i}"]`);
        return { column, state, element, view: viewOf(state, key) };
      });
    }

    // Everything but the plots, with the height that they will have: links land where they should.
    prepare() {
      const keys = new Map();
      const scales = new Map();
      const style = getComputedStyle(root);
      const plots = [];
      for (const { column, state, element, view } of this.views()) {
        const place = element.querySelector(".panels");
        const count = view ? view.panels.length : 0;
        place.querySelectorAll(".missing").forEach((line) => line.remove());
        while (place.children.length > count) {
          if (place.lastChild.data) Plotly.purge(place.lastChild);
          place.lastChild.remove();
        }
        if (!view) place.appendChild(missing(state));
        while (place.children.length < count) place.append(make("div", { className: "panel" }));
        for (let i = 0; i < count; i++) {
          const panel = view.panels[i];
          const at = place.children[i];
          at.setAttribute("role", "img");
          at.setAttribute("aria-label", `${column.head}: ${view.title}`);
          at.style.height = `${traces[panel.layout].height}px`;
          const data = colours(panel.data.map((n) => traces[n]), style);
          collect(panel, data, keys, scales);
          plots.push({ at, data, layout: traces[panel.layout], number: i });
        }
        tables(element.querySelector(".tables"), state.tables || []);
      }
      legend(this.section.querySelector(".legend"), keys, scales);
      this.section.querySelector(".save").hidden = !plots.length;
      return plots;
    }

    async draw() {
      this.drawn = true;
      const style = getComputedStyle(root);
      const config = { responsive: true, displayModeBar: false, displaylogo: false };
      await Promise.all(this.prepare().map(({ at, data, layout, number }) => {
        layout = colours(layout, style);
        layout.dragmode = touch && !layout.scene ? false : layout.scene ? "turntable" : "zoom";
        layout.hoverlabel = { ...layout.hoverlabel, bgcolor: style.getPropertyValue("--card").trim(),
          font: { ...layout.hoverlabel.font, color: style.getPropertyValue("--ink").trim() } };
        // plotly would adapt to the new width too late for printing
        if (document.body.classList.contains("printing")) layout.width = at.clientWidth;
        return Plotly.react(at, data, layout, config).then(() => this.link(at, number));
      }));
      this.section.dataset.drawn = String(Number(this.section.dataset.drawn || 0) + 1);
    }

    // Zooming or turning one panel does the same to its neighbours.
    link(at, number) {
      if (!this.data.linked || at.linked) return;
      at.linked = true;
      at.on("plotly_relayout", (change) => {
        if (this.busy) return;
        const moved = Object.entries(change).filter(([k]) => /^[xy]axis\.|^scene\.camera/.test(k));
        if (!moved.length) return;
        this.busy = true;
        const others = [...this.section.querySelectorAll(".column")]
          .map((column) => column.querySelectorAll(".panel")[number])
          .filter((panel) => panel && panel !== at && panel.data);
        Promise.all(others.map((panel) => Plotly.relayout(panel, Object.fromEntries(moved))))
          .finally(() => { this.busy = false; });
      });
    }

    async save(kind) {
      const name = `${this.data.name}${this.key() ? "-" + this.key() : ""}`
        .replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "").toLowerCase();
      if (kind === "csv") return download(this.csv(), `${name}.csv`, "text/csv");
      const { svg, width, height } = await this.picture();
      if (kind === "svg") return download(svg, `${name}.svg`, "image/svg+xml");
      const image = new Image();
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
      await image.decode();
      const canvas = make("canvas", { width: 2 * width, height: 2 * height });
      const pen = canvas.getContext("2d");
      pen.scale(2, 2);
      pen.drawImage(image, 0, 0, width, height);
      canvas.toBlob((blob) => download(blob, `${name}.png`, "image/png"));
    }

    // All panels in one SVG, with headings, legends and colour bars.
    async picture() {
      const style = getComputedStyle(root);
      const ink = style.getPropertyValue("--ink").trim();
      const [w, gap] = [460, 16];
      const shown = this.views().filter(({ view }) => view)
        .flatMap(({ column, view }) => view.panels.map((panel, i) => [panel, i ? "" : column.head]));
      const each = Math.max(0, ...this.views().map(({ view }) => (view ? view.panels.length : 0)));
      const across = each > 1 ? each : shown.length > 4 ? 3 : Math.max(1, shown.length);
      let top = 0, tallest = 0;
      const parts = [];
      for (const [number, [panel, heading]] of shown.entries()) {
        if (number % across === 0) [top, tallest] = [top + tallest, 0];
        const x = (number % across) * (w + gap);
        const data = colours(panel.data.map((n) => traces[n]), style);
        data.forEach((trace) => { if (trace.type === "heatmap") trace.showscale = true; });
        const layout = colours(traces[panel.layout], style);
        layout.showlegend = data.filter((t) => t.type !== "heatmap" && t.showlegend !== false).length > 1;
        layout.legend = { orientation: "h", y: -0.25 };
        const h = layout.height + (layout.showlegend ? 60 : 0);
        const url = await Plotly.toImage({ data, layout: { ...layout, width: w, height: h } },
          { format: "svg", width: w, height: h });
        const inner = decodeURIComponent(url.slice(url.indexOf(",") + 1)).replace(/^<\?xml[^>]*>/, "");
        const head = this.data.columns.length > 1 ? escapeXml(heading) : "";
        parts.push(`<text x="${x + 8}" y="${top + 18}" font-size="14" font-weight="600" fill="${ink}" ` +
          `font-family="system-ui, sans-serif">${head}</text>` +
          inner.replace("<svg ", `<svg x="${x}" y="${top + 26}" `));
        tallest = Math.max(tallest, h + 34);
      }
      const [width, height] = [across * (w + gap) - gap, Math.max(1, top + tallest)];
      const paper = style.getPropertyValue("--paper").trim();
      const svg = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ` +
        `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
        `<rect width="100%" height="100%" fill="${paper}"/>${parts.join("")}</svg>`;
      return { svg, width, height };
    }

    // The numbers shown, one row per point or cell.
    csv() {
      const rows = [];
      for (const { column, state, view } of this.views()) {
        if (!view) continue;
        const step = column.run === null ? "" : runs[column.run][column.states.indexOf(state)] ?? "";
        for (const panel of view.panels) {
          const layout = traces[panel.layout];
          const about = { column: column.head, step, panel: plainText(layout.title && layout.title.text) };
          const named = (axis, other) => plainText((layout[axis] || (layout.scene || {})[axis] || {}).title?.text) || other;
          for (const trace of panel.data.map((n) => traces[n])) {
            if (trace.hoverinfo === "skip" && !trace.hovertemplate) continue;
            const series = plainText(trace.name);
            if (trace.type === "heatmap") {
              trace.z.forEach((row, i) => row.forEach((z, j) => rows.push({ ...about,
                [named("xaxis", "x")]: trace.x[j], [named("yaxis", "y")]: trace.y[i],
                [plainText(trace.colorbar.title.text)]: z })));
            } else {
              trace.x.forEach((x, i) => {
                const row = { ...about, series, [named("xaxis", "x")]: x, [named("yaxis", "y")]: trace.y[i] };
                if (trace.z) row[named("zaxis", "z")] = trace.z[i];
                if (Array.isArray(trace.text) && trace.text[i]) row.what = plainText(trace.text[i]);
                if (trace.customdata) [row.low, row.high] = trace.customdata[i];
                rows.push(row);
              });
            }
          }
        }
      }
      const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
      // Spreadsheets would take text with a leading = + - @ for a formula.
      const cell = (v) => {
        if (v === null || v === undefined) return "";
        if (typeof v === "number") return String(v);
        const safe = /^[=+\-@]/.test(v) ? "'" + v : v;
        return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
      };
      return [names.map(cell).join(","), ...rows.map((row) => names.map((n) => cell(row[n])).join(","))].join("\n") + "\n";
    }
  }

  function plainText(html) {
    if (!html) return "";
    return new DOMParser().parseFromString(html, "text/html").body.textContent;
  }

  function escapeXml(text) {
    return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  }

  function missing(state) {
    const line = make("p", { className: "missing" }, state.missing || "Not measured for this choice.");
    if (state.command) line.append(" ", make("code", {}, state.command), " computes them.");
    return line;
  }

  function collect(panel, data, keys, scales) {
    if (panel.scale) scales.set(panel.scale.join("|"), panel.scale);
    for (const trace of data) {
      if (trace.type === "heatmap" || trace.showlegend === false || !trace.name) continue;
      if (!keys.has(trace.name)) keys.set(trace.name, trace);
    }
  }

  const SHAPES = {
    circle: "M22,8a4,4 0 1,1 -8,0a4,4 0 1,1 8,0", square: "M14,4h8v8h-8z",
    diamond: "M18,3l5,5l-5,5l-5,-5z", "triangle-up": "M18,3l5,9h-10z", "triangle-down": "M18,13l5,-9h-10z",
  };
  function legend(place, keys, scales) {
    place.replaceChildren();
    for (const [name, trace] of keys) {
      const svg = shape("svg", { width: 36, height: 16, "aria-hidden": "true" });
      const colour = trace.line?.color || trace.marker?.color || trace.color;
      if ((trace.mode || "").includes("lines")) {
        const dashes = { dash: "6 4", dot: "2 3" }[trace.line.dash] || "";
        svg.append(shape("path", { d: "M2,8H34", stroke: colour, "stroke-width": Math.min(8, trace.line.width),
          "stroke-dasharray": dashes, opacity: trace.opacity ?? 1 }));
      }
      const area = ["mesh3d", "bar"].includes(trace.type);
      if (area || (trace.mode || "").includes("markers")) {
        svg.append(shape("path", { d: area ? "M4,3h28v10h-28z" : SHAPES[trace.marker.symbol] || SHAPES.circle,
          fill: colour, opacity: trace.type === "mesh3d" ? 0.25 : trace.marker?.opacity ?? 1 }));
      }
      place.append(make("span", { className: "key" }, svg, make("span", {}, plainText(name))));
    }
    const number = (v) => String(Number(v.toPrecision(3)));
    for (const [label, low, high] of scales.values()) {
      place.append(make("span", { className: "scale" },
        `${label}  ${number(low)}`, make("span", { className: "ramp" }), number(high)));
    }
  }

  function tables(place, contents) {
    if (place.contents === contents) return;  // the same table keeps the keyboard focus
    place.contents = contents;
    place.replaceChildren();
    for (const { title, head, rows } of contents) {
      const cells = rows.map((row) => make("tr", {}, ...row.map((text) => make("td", {}, text))));
      const top = make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)));
      const table = make("table", {}, make("caption", {}, title), make("thead", {}, top), make("tbody", {}, ...cells));
      // focusable, so that a wide table can be scrolled by keyboard
      place.append(make("div", { className: "wide", tabIndex: 0 }, table));
    }
  }

  function download(content, name, type) {
    const href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    const link = make("a", { href, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const all = figures.filter((data) => document.getElementById(data.name)).map((data) => new Figure(data));
  const bySection = new Map(all.map((figure) => [figure.section, figure]));
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const figure = bySection.get(entry.target);
      figure.near = entry.isIntersecting;
      if (figure.near && !figure.drawn) figure.draw();
    }
  }, { rootMargin: "700px" });
  all.forEach((figure) => figure.prepare());
  document.getElementById("loading").remove();
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView({ behavior: "instant" });
  all.forEach((figure) => near.observe(figure.section));

  // The rest is drawn when the page is idle, so that all of it can be printed.
  const idle = window.requestIdleCallback || ((act) => setTimeout(act, 50));
  async function drawRest() {
    const next = all.find((figure) => !figure.drawn);
    if (!next) { root.dataset.complete = "true"; release(); return; }
    await next.draw();
    idle(drawRest, { timeout: 500 });
  }
  idle(drawRest, { timeout: 500 });

  // Figures far from the viewport are redrawn when they come near.
  const redraw = () => Promise.all(all.map((figure) => {
    figure.drawn = false;
    return figure.near ? figure.draw() : null;
  }));
  const drawAll = () => Promise.all(all.map((figure) => figure.draw()));
  button.addEventListener("click", () => { setTheme(root.dataset.theme === "dark" ? "light" : "dark"); redraw(); });
  dark.addEventListener("change", () => { setTheme(dark.matches ? "dark" : "light"); redraw(); });

  const slider = document.getElementById("checkpoint");
  if (slider) {
    slider.addEventListener("input", () => {
      chosenStep = steps[Number(slider.value)];
      const label = `step ${chosenStep.toLocaleString("en")}`;
      slider.setAttribute("aria-valuetext", label);
      document.getElementById("checkpoint-label").textContent = label;
      redraw();
    });
  }

  // Print all figures in the light theme.
  let before = null;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    document.body.classList.add("printing");
    setTheme("light");
    drawAll();
  });
  addEventListener("afterprint", () => {
    document.body.classList.remove("printing");
    setTheme(before || root.dataset.theme);
    redraw();
  });
  window.statetrace = { drawAll, figures: all };
  root.dataset.ready = "true";
})().catch((error) => {
  const line = document.getElementById("loading");
  if (line) line.textContent = "The figures could not be drawn: " + error.message;
  throw error;
});
