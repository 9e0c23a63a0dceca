// The verdict and its map, computed on request, in seconds, for the checkpoint that is shown.
import { draw, make } from "./dom.js";

const SIZE = 240, LOW = -0.6;
const KNOWN = { parallel: [0, 0], "parity-associative": [0, 1], associative: [1, 1], "composed-quotient": [1, 1] };

export class Verdict {
  constructor(ask) {  // ask(): a promise of the verdict on the checkpoint that is shown
    this.ask = ask;
    this.button = make("button", { type: "button", onclick: () => this.show() }, "Verdict");
    this.text = make("div", { role: "status" });
    this.box = make("div", { class: "judged" }, this.button, this.text);
  }

  clear() {
    this.text.replaceChildren();
  }

  async show() {
    this.button.disabled = true;
    this.text.replaceChildren(make("p", { class: "fine" }, "Measuring …"));
    const current = this.current = {};
    try {
      const verdict = await this.ask();
      if (this.current !== current) return;
      const confidence = ["unlearned", "undecided"].includes(verdict.mechanism) ? "" : `, confidence ${Math.round(100 * verdict.confidence)}%`;
      this.text.replaceChildren(
        make("p", {}, make("b", {}, verdict.mechanism + confidence), `: ${verdict.says}`),
        ...(verdict.hint ? [make("p", {}, `Hint: ${verdict.hint}`)] : []),
        ...(verdict.links.length ? [make("div", { class: "both" }, map(verdict.links), layers(verdict.links))] : []));
    } catch (error) {
      this.text.replaceChildren(make("p", { class: "error" }, error.message));
    } finally {
      this.button.disabled = false;
    }
  }
}

// The model among the known algorithms: layers added per doubling of the length.
function map(links) {
  const first = links.length > 1 ? links[0] : null, last = links.at(-1);
  const here = [first ? first.growth : last.growth, first ? last.growth : 1];
  const errors = [(first || last).growth_error || 0, first ? last.growth_error || 0 : 0];
  const high = Math.max(1.6, here[0] + errors[0] + 0.3, here[1] + errors[1] + 0.3);
  const scale = (v) => (SIZE * (Math.min(Math.max(v, LOW), high) - LOW)) / (high - LOW);
  const x = (v) => scale(v), y = (v) => SIZE - scale(v);
  const dots = Object.entries(first ? KNOWN : { associative: [1, 1] }).map(([name, [a, b]]) =>
    draw("g", {}, draw("circle", { class: "known", cx: x(a), cy: y(b), r: 5 }),
      draw("text", { x: x(a) + (a ? 8 : 0), y: y(b) + (name.endsWith("associative") ? 18 : -9), "text-anchor": name === "composed-quotient" ? "middle" : "start" }, name)));
  const label = `${first ? `${first.link} ${here[0].toFixed(2)}, ` : ""}state ${last.growth.toFixed(2)} layers per doubling of the length`;
  const picture = draw("svg", { viewBox: `0 0 ${SIZE} ${SIZE + 20}`, role: "img", "aria-label": `map of mechanisms: ${label}` },
    draw("rect", { class: "frame", x: 0, y: 0, width: SIZE, height: SIZE }), ...dots,
    draw("path", { class: "error-bar", d: `M${x(here[0] - errors[0])},${y(here[1])}H${x(here[0] + errors[0])}M${x(here[0])},${y(here[1] - errors[1])}V${y(here[1] + errors[1])}` }),
    draw("circle", { class: "here", cx: x(here[0]), cy: y(here[1]), r: 5 }),
    draw("text", { x: SIZE / 2, y: SIZE + 15, "text-anchor": "middle" }, `growth of ${first ? first.link : "state"} →`),
    draw("text", { x: 4, y: 11 }, first ? "↑ growth of state" : ""));
  return make("figure", {}, picture, make("figcaption", { class: "fine" }, label));
}

// The layers that each link needs, by length.
function layers(links) {
  const lengths = links.at(-1).lengths;
  const needed = (link, n) => (link.lengths.includes(n) ? link.layers_needed[link.lengths.indexOf(n)].toFixed(1) : "");
  const kind = ({ composed }) => (composed >= 0.8 ? "composed" : composed <= 0.2 ? "counted" : "counted or composed");
  return make("table", {},
    make("caption", { class: "fine" }, "layers needed, by length"),
    make("thead", {}, make("tr", {}, make("th", {}), ...lengths.map((n) => make("th", { scope: "col" }, String(n))), make("th", {}))),
    make("tbody", {}, ...links.map((link) => make("tr", {}, make("th", { scope: "row" }, link.link),
      ...lengths.map((n) => make("td", {}, needed(link, n))), make("td", {}, kind(link))))));
}
