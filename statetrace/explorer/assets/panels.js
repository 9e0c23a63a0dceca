// Beside the score: the model's answer, and the attention of its heads.
import { choice, count, css, make, percent, rgb, whole } from "./dom.js";

const MOST = 8;

const first = (numbers) => numbers.indexOf(Math.max(...numbers));

// The answer after one action, before and after the changes.
export class Answer {
  constructor(about) {
    this.about = about;
    this.box = make("section", { class: "card reply", "aria-live": "polite" });
  }

  show(state, own, data) {
    const { labels } = this.about;
    const before = data.base.distribution, after = data.changed?.distribution;
    const shown = after || before;
    const true_ = data.states[data.at];
    const theirs = own.patches.length ? data.source_states[data.at] : undefined;
    const answer = first(shown);
    const order = labels.length <= MOST ? labels.map((_, i) => i)
      : [...new Set([true_, theirs, first(before), ...labels.map((_, i) => i).sort((a, b) => shown[b] - shown[a])])]
        .filter((i) => i !== undefined).slice(0, MOST);
    const rows = order.map((i) => {
      const bars = make("span", { class: "bar" });
      if (after) bars.append(make("span", { class: "was" }));
      bars.append(make("span", { class: "is" }));
      if (after) bars.firstChild.style.width = `${100 * before[i]}%`;
      bars.lastChild.style.width = `${100 * shown[i]}%`;
      const tags = make("span", { class: "tags" });
      if (i === true_) tags.append(make("span", { class: "tag true" }, "true"));
      if (i === theirs) tags.append(make("span", { class: "tag source" }, "source"));
      return make("li", { class: i === answer ? "top" : "", data: { element: labels[i] } },
        make("span", { class: "label" }, labels[i]), tags, bars, make("span", { class: "share" }, percent(shown[i])));
    });
    this.box.replaceChildren(
      make("h3", {}, `Answer after ${count(data.at + 1)}${after ? ", changed model" : ""}: `,
        make("b", { class: answer === true_ ? "right" : "wrong" }, labels[answer]), answer === true_ ? " ✓" : " ✗"),
      make("ul", { class: "bars", "aria-label": "probability of each state" }, ...rows),
      make("p", { class: "fine" }, this.sentence(own, data, answer, true_, theirs, before)));
  }

  sentence(own, data, answer, true_, theirs, before) {
    const { labels } = this.about;
    if (!data.changed) return answer === true_ ? "Correct. Click cells to patch them from the source, or drag a prefix." : `Wrong: the state is ${labels[true_]}.`;
    const was = first(before);
    if (answer === was) return `No change: the answer was ${labels[was]} before.`;
    if (answer === theirs) return `The answer was ${labels[was]} before; now it is the true state of the source.`;
    return `The answer was ${labels[was]} before.`;
  }
}

// All heads as small pictures, to choose from and to ablate; the chosen one in full.
export class Heads {
  // on: { head([l, h]), ablate([l, h]), instead(how) }
  constructor(about, number, on) {
    this.about = about;
    this.number = number;
    this.on = on;
    this.box = make("section", { class: "card heads" });
    this.chosen = null;
  }

  show(state, own, data) {
    const { about } = this;
    if (about.no_attention) {
      this.box.replaceChildren(make("h3", {}, "Attention"), make("p", { class: "missing" }, `No maps and no heads: ${about.no_attention}.`));
      return;
    }
    const held = document.activeElement?.dataset?.key;
    const run = data.changed && state.when === "after" ? data.changed : data.base;
    const T = state.actions.length, S = T + about.marker;
    const maps = run.maps ? Uint8Array.from(atob(run.maps), (c) => c.charCodeAt(0)) : null;
    const table = make("div", { class: "matrix", role: "group", "aria-label": "heads" });
    table.style.setProperty("--heads", about.heads);
    const name = (text) => make("span", { class: "name" }, text);
    table.append(name(""), ...Array.from({ length: about.heads }, (_, head) => name(String(head))));
    for (let layer = 1; layer <= about.layers; layer++) {
      table.append(name(String(layer)));
      for (let head = 0; head < about.heads; head++) {
        table.append(this.head(layer, head, own, maps, T, S));
      }
    }
    const how = choice(`instead-${this.number}`, "replace an ablated head by", [["mean", "its mean"], ["zero", "zero"]],
      state.instead, this.on.instead);
    this.box.replaceChildren(make("h3", {}, "Attention"), make("div", { class: "both" },
      make("div", {}, make("p", { class: "fine" }, "rows: layers, columns: heads; × ablates a head"), table, about.no_heads ? "" : how),
      this.full(own, run, state, S)));
    if (held) this.box.querySelector(`[data-key="${held}"]`)?.focus();
  }

  head(layer, head, own, maps, T, S) {
    const off = own.without.some(([l, h]) => l === layer && h === head);
    const chosen = own.head?.[0] === layer && own.head?.[1] === head;
    const picture = make("canvas", { width: S, height: T, "aria-hidden": "true" });
    if (maps) {
      const from = ((layer - 1) * this.about.heads + head) * T * S;
      paint(picture, T, S, (i) => maps[from + i] / 255);
    }
    const key = `${this.number}-${layer}.${head}`;
    const box = make("div", { class: `one${off ? " off" : ""}${chosen ? " chosen" : ""}` },
      make("button", { type: "button", class: "see", data: { key: `see-${key}` }, "aria-pressed": String(chosen),
        "aria-label": `layer ${layer}, head ${head}`, title: `layer ${layer}, head ${head}`,
        onclick: () => this.on.head([layer, head]) }, picture));
    if (!this.about.no_heads) {
      box.append(make("button", { type: "button", class: "cut", data: { key: `cut-${key}` }, "aria-pressed": String(off),
        "aria-label": `ablate layer ${layer}, head ${head}`, title: `${off ? "restore" : "ablate"} layer ${layer}, head ${head}`, onclick: () => this.on.ablate([layer, head]) }, "×"));
    }
    return box;
  }

  full(own, run, state, S) {
    const box = make("div", { class: "map" });
    if (!own.head || !run.attention) return box;
    const [layer, head] = own.head, T = state.actions.length;
    const picture = make("canvas", { width: S, height: T, class: "large", role: "img",
      "aria-label": `attention of layer ${layer}, head ${head}: rows attend to columns` });
    paint(picture, T, S, (i) => run.attention[Math.floor(i / S)][i % S]);
    const odd = state.actions.map((label) => Boolean(this.about.parity?.[this.about.labels.indexOf(label)]));
    const marks = make("div", { class: "marks", "aria-hidden": "true" });
    marks.style.setProperty("--columns", S);
    if (this.about.marker) marks.append(make("span", { class: "begin" }));
    odd.forEach((o) => marks.append(make("span", { class: o ? "odd" : "" })));
    const caption = make("output", { class: "fine" }, `rows attend to columns${this.about.parity ? "; odd actions are marked" : ""}`);
    const point = (event) => {
      const area = picture.getBoundingClientRect();
      const row = Math.min(T - 1, Math.max(0, Math.floor(((event.clientY - area.top) / area.height) * T)));
      const column = Math.min(S - 1, Math.max(0, Math.floor(((event.clientX - area.left) / area.width) * S)));
      const key = column < this.about.marker ? "the start marker" : `action ${column - this.about.marker + 1}`;
      caption.textContent = `action ${row + 1} attends to ${key}: ${percent(run.attention[row][column])}`;
    };
    picture.addEventListener("pointermove", point);
    box.append(make("h4", {}, `layer ${layer}, head ${head}`), picture, marks, caption);
    return box;
  }
}

function paint(canvas, rows, columns, value) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const none = rgb(css("--none")), full = rgb(css("--cell-map"));
  for (let i = 0; i < rows * columns; i++) {
    const share = Math.sqrt(Math.min(1, value(i)));
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = none[c] + (full[c] - none[c]) * share;
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

// The headline: from which layer on the probes read parity and the state on held-out sequences.
export function headline(about) {
  const enough = 0.95;
  const found = about.targets.filter((t) => t.accuracy).map((t) => ({ name: t.name, hue: t.hue,
    from: t.accuracy.findIndex((a) => a >= enough), best: Math.max(...t.accuracy), at: first(t.accuracy) }));
  const line = make("p", { class: "headline" });
  const word = (t) => make("b", { class: `ink ${t.hue}` }, t.name === "state" ? "the state" : t.name);
  const state = found.find((t) => t.name === "state");
  const early = found.find((t) => t.name !== "state");
  const place = (n) => `layer ${n}${n ? "" : " (the embedding)"}`;
  const capital = (node) => { node.textContent = node.textContent[0].toUpperCase() + node.textContent.slice(1); return node; };
  if (!state) line.append(`${about.group} has too many states for probes; the unembedding reads them.`);
  else if (state.from < 0 && (!early || early.from < 0)) {
    line.append("No probe reads ", word(state), ` reliably at any layer: at best ${whole(state.best)}, at ${place(state.at)}.`);
  } else if (!early || early.from < 0) {
    line.append(capital(word(state)), ` can be read from ${place(state.from)} on.`);
  } else if (state.from < 0) {
    line.append(capital(word(early)), ` can be read from ${place(early.from)} on, `, word(state), ` at no layer (at best ${whole(state.best)}).`);
  } else if (early.from < state.from) {
    const last = state.from === about.layers ? "only at" : "only from";
    line.append(capital(word(early)), ` can be read from ${place(early.from)} on, `, word(state), ` ${last} ${place(state.from)}${last === "only at" ? "" : " on"}.`);
  } else {
    line.append(capital(word(early)), " and ", word(state), ` appear together, at ${place(state.from)}.`);
  }
  return line;
}
