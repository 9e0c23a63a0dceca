// The score: a column for every action with the true state, the readings of every layer, and the
// model's answer. It is rebuilt when its shape changes and otherwise filled in place, so that mouse
// and keyboard keep the cell they are on.
import { count, draw, make, percent, shade, tip, whole } from "./dom.js";
import { braid } from "./objects.js";
import { Handle } from "./handle.js";

const MORE = ["fifth", "third"];  // of further quotients; purple is for patches

export class Score {
  // on: { select(t), patch(layer, t), prefix(layer, last) }
  constructor(about, on) {
    this.about = about;
    this.on = on;
    this.box = make("div", { class: "score", role: "group", "aria-label": `readings of ${about.name}` });
    this.scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "score, scrolls sideways" });
    this.box.append(this.scroll);
    this.targets = [...about.targets].sort((a, b) => (a.name === "state") - (b.name === "state"));
    this.targets.forEach((t, i) => { t.hue = ["state", "parity"].includes(t.name) ? t.name : MORE[i % 2]; });
    this.shape = "";
    this.box.addEventListener("pointerleave", () => tip(null));
    new ResizeObserver(() => this.fit()).observe(this.box);
  }

  show(state, own, data) {
    this.state = state;
    this.own = own;
    this.data = data;
    const shape = `${state.actions.length} ${state.reader}`;
    if (shape !== this.shape) { this.build(); this.shape = shape; }
    this.fill();
  }

  build() {
    const held = document.activeElement?.dataset?.key;
    const T = this.state.actions.length;
    const row = (name, title, cells, start = "") => make("div", { class: `line ${name}` },
      make("div", { class: "head" }, ...title), make("div", { class: "start" }, start), ...cells);
    const many = (cls, tag = "div", props = () => ({})) =>
      Array.from({ length: T }, (_, t) => make(tag, { class: cls, ...props(t) }));
    const pick = (what) => (t) => ({ type: "button", onclick: () => this.on.select(t),
      data: { key: `${what}-${t}` } });

    this.numbers = many("number", "button", pick("n"));
    this.actions = many("action", "button", pick("a"));
    this.truths = many("truth");
    this.sourced = many("sourced");
    this.svg = draw("svg", { class: "braid", "aria-hidden": "true" });
    this.before = many("answer");
    this.after = many("answer");
    const rows = [
      row("numbers", [make("span", { title: "number of actions read; click one to see the answer after it" }, "after")], this.numbers),
      row("actions", ["actions"], this.actions),
      this.about.moves ? make("div", { class: "line strands" }, make("div", { class: "head" }, "objects"), this.svg) : "",
      row("truths", ["true state"], this.truths),
    ];
    this.grids = this.targets.filter((t) => this.readings(t, "base")).map((t) => this.grid(t, T));
    rows.push(...this.grids.map((g) => g.box));
    if (!this.grids.length) rows.push(make("p", { class: "missing" }, this.missing()));
    this.now = row("answers changed", ["answer now"], this.after);
    this.then = row("answers", [""], this.before);
    rows.push(this.then, this.now, row("sources", ["source"], this.sourced));
    this.scroll.replaceChildren(...rows);
    this.fit();
    if (held) this.scroll.querySelector(`[data-key="${held}"]`)?.focus();
  }

  missing() {
    return this.state.reader === "probe"
      ? `${this.about.group} has too many elements for probes; choose the unembedding.`
      : `The unembedding cannot read every layer: ${this.about.no_unembedding}.`;
  }

  readings(target, run) {
    const from = this.data[run]?.[this.state.reader];
    return from ? from[target.name] : null;
  }

  grid(target, T) {
    const cells = [], lines = [], levels = [];
    const by = this.state.reader === "probe" ? "read by a probe" : "read by the unembedding";
    const body = make("div", { class: "lattice", role: "grid", "aria-label": `${target.name}, ${by}` });
    for (let layer = 0; layer <= this.about.layers; layer++) {
      const head = make("div", { class: "head", role: "rowheader" },
        make("span", { class: "layer", title: layer ? `the residual stream after block ${layer}` : "the embedding, before the first block" }, `layer ${layer}`));
      if (this.state.reader === "probe") {
        const bar = make("span", { class: "level" }, make("span", { class: `fill ${target.hue}` }));
        levels.push([bar, make("span", { class: "n" })]);
        head.append(...levels[layer]);
      }
      const line = Array.from({ length: T }, (_, t) => make("button", {
        type: "button", class: "cell", role: "gridcell", tabindex: layer || t ? "-1" : "0",
        data: { key: `${target.name}-${layer}-${t}` },
        onclick: () => this.on.patch(layer, t),
        onpointerenter: (event) => this.explain(event.currentTarget, layer, t),
        onfocus: (event) => { if (event.currentTarget.matches(":focus-visible")) this.explain(event.currentTarget, layer, t); },
        onblur: () => tip(null),
        onkeydown: (event) => this.move(event, cells, layer, t),
      }));
      cells.push(line);
      lines.push(make("div", { class: "line", role: "row" }, head, make("div", { class: "start" }), ...line));
    }
    body.append(...lines);
    const handle = new Handle(body, this.about, `${target.name}-handle`, this.on.prefix);
    const title = make("h3", {}, make("span", { class: `dot ${target.hue}` }), target.name, " ", make("span", { class: "by" }, by));
    return { target, cells, levels, handle, box: make("div", { class: "grid", data: { target: target.name } }, title, body) };
  }

  move(event, cells, layer, t) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = cells[layer + step[0]]?.[t + step[1]];
    if (!next) return;
    cells.flat().forEach((cell) => cell.setAttribute("tabindex", "-1"));
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  run() {
    return this.data.changed && this.state.when === "after" ? "changed" : "base";
  }

  patched(layer, t) {
    return this.own.patches.some(([l, a, b]) => l === layer && a <= t && t <= b);
  }

  explain(cell, layer, t) {
    const lines = [`layer ${layer}${layer ? "" : " (the embedding)"}, after ${count(t + 1)}`];
    for (const reader of ["probe", "unembedding"]) {
      for (const target of this.targets) {
        const from = this.data[this.run()][reader]?.[target.name];
        if (!from) continue;
        const predicted = from.predicted[layer][t], true_ = target.map[this.data.states[t]];
        const right = predicted === true_ ? "correct" : `true: ${target.labels[true_]}`;
        lines.push(`${target.name}, ${reader}: ${target.labels[predicted]} ${percent(from.probability[layer][t])} (${right})`);
      }
    }
    lines.push(this.patched(layer, t) ? "patched from the source; click to undo" : "click to patch from the source");
    tip(cell, lines);
  }

  fill() {
    const { state, about, data, own } = this;
    const at = data.at;
    const labels = about.labels;
    const sentence = (label) => about.sentences?.[labels.indexOf(label)];
    const parity = about.targets.find((t) => t.name === "parity");
    state.actions.forEach((label, t) => {
      const here = t === at;
      this.numbers[t].textContent = t + 1;
      this.numbers[t].setAttribute("aria-label", `show the answer after ${count(t + 1)}`);
      this.numbers[t].setAttribute("aria-pressed", String(here));
      this.actions[t].textContent = label;
      this.actions[t].title = sentence(label) || `action ${t + 1}; click to select it`;
      this.actions[t].setAttribute("aria-label", `action ${t + 1}: ${sentence(label) || label}`);
      this.actions[t].classList.toggle("odd", Boolean(about.parity?.[labels.indexOf(label)]));
      const name = labels[data.states[t]];
      const sign = parity ? parity.labels[parity.map[data.states[t]]] : "";
      this.truths[t].replaceChildren(make("b", {}, name), make("span", { class: `sign ${sign}` }, this.width < 34 ? sign.slice(0, 1) : sign));
      const other = state.source[t];
      this.sourced[t].textContent = other ?? "";
      this.sourced[t].classList.toggle("differs", other !== undefined && other !== label);
      for (const line of [this.numbers, this.actions, this.truths, this.sourced, this.before, this.after]) {
        line[t].classList.toggle("here", here);
      }
    });
    const mark = (line, run) => line.forEach((cell, t) => {
      const from = data[run].answers.state;
      const right = from.predicted[t] === data.states[t];
      cell.replaceChildren(make("b", {}, labels[from.predicted[t]]), make("span", { class: right ? "right" : "wrong" }, right ? "✓" : "✗"));
      cell.title = `probability ${percent(from.probability[t])}`;
    });
    mark(this.before, "base");
    if (data.changed) mark(this.after, "changed");
    this.now.hidden = !data.changed;  // there all the time, so that a drag does not rebuild the grid
    this.then.firstChild.textContent = data.changed ? "answer before" : "answer";
    for (const grid of this.grids) this.paint(grid, own);
    this.fit();
  }

  paint({ target, cells, levels, handle }, own) {
    levels.forEach(([bar, number], layer) => {
      const accuracy = target.accuracy?.[layer];
      const known = accuracy !== undefined;
      bar.title = known ? `accuracy of this probe on held-out sequences: ${whole(accuracy)}` : "";
      bar.firstChild.style.width = `${known ? 100 * Math.max(0, (accuracy - target.chance) / (1 - target.chance)) : 0}%`;
      number.textContent = known ? whole(accuracy) : "";
    });
    const from = this.readings(target, this.run());
    const plain = this.readings(target, "base");
    const short = target.name === "parity" && this.width < 34;
    cells.forEach((line, layer) => line.forEach((cell, t) => {
      const predicted = from.predicted[layer][t], right = predicted === target.map[this.data.states[t]];
      const sure = Math.max(0, (from.probability[layer][t] - target.chance) / (1 - target.chance));
      [cell.style.backgroundColor, cell.style.color] = shade(right ? target.hue : "other", sure);
      const label = target.labels[predicted].replace(/[[\]]/g, "");
      cell.textContent = short ? label[0] : label;
      cell.classList.toggle("right", right);
      cell.classList.toggle("patched", this.patched(layer, t));
      cell.setAttribute("aria-selected", String(this.patched(layer, t)));
      cell.classList.toggle("moved", predicted !== plain.predicted[layer][t]);
      cell.classList.toggle("here", t === this.data.at);
      cell.setAttribute("aria-label", `layer ${layer}, after ${t + 1}: ${label} ` +
        `${percent(from.probability[layer][t])}, ${right ? "correct" : "wrong"}${this.patched(layer, t) ? ", patched" : ""}`);
    }));
    handle.show(own, Math.min(this.state.actions.length, this.state.source.length));
  }

  // Columns share the available width, but stay wide enough for a label.
  fit() {
    if (!this.state) return;
    const T = this.state.actions.length;
    const longest = Math.max(3, ...this.about.labels.slice(0, 200).map((l) => l.length));
    const least = Math.max(28, 7.4 * longest + 4);
    const narrow = this.box.clientWidth < 520;
    const head = narrow ? 74 : 132, start = narrow ? 22 : 30;
    this.width = Math.floor(Math.max(least, Math.min(72, (this.box.clientWidth - head - start - 9) / T)));
    this.box.style.setProperty("--w", `${this.width}px`);
    this.box.style.setProperty("--head", `${head}px`);
    this.box.style.setProperty("--start", `${start}px`);
    this.box.style.setProperty("--columns", T);
    if (!this.svg) return;
    const x = (t) => (t < 0 ? start / 2 : start + (t + 0.5) * this.width);
    braid(this.svg, this.about, this.state.actions, x, start + T * this.width);
    this.mark(this.data?.at);
  }

  mark(at) {
    this.svg.querySelectorAll(".knot").forEach((k) => k.classList.toggle("here", Number(k.dataset.t) === at));
  }

  // For the replay: one column stands out.
  spot(at) {
    this.mark(at);
    this.actions.forEach((cell, t) => cell.classList.toggle("now", t === at));
  }
}
