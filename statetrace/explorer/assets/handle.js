// The prefix handle: drag it right to patch a prefix from the source at that layer, up or down to
// another layer. With the keyboard: arrows, Home and End.
import { make, tip } from "./dom.js";
import { prefixOf } from "./state.js";

export class Handle {
  constructor(body, about, key, change) {
    this.body = body;
    this.layers = about.layers;
    this.change = change;
    this.layer = Math.ceil(about.layers / 2);  // its place while there is no prefix
    this.last = -1;
    this.knob = make("div", {
      class: "handle", role: "slider", tabindex: "0", data: { key },
      "aria-label": "prefix taken from the source",
      onpointerdown: (event) => this.grab(event), onkeydown: (event) => this.press(event),
      onpointerenter: () => tip(this.knob, ["drag: patch a prefix from the source"]),
      onpointerleave: () => tip(null),
    });
    body.append(this.knob);
  }

  show(own, length) {
    const prefix = prefixOf(own);
    this.length = length;
    if (this.held) return;  // answers arrive later than the drag
    if (prefix) [this.layer, , this.last] = prefix;
    else this.last = -1;
    this.place();
  }

  place() {
    this.knob.style.setProperty("--at", this.last + 1);
    this.knob.style.setProperty("--layer", this.layer);
    this.knob.classList.toggle("parked", this.last < 0);
    this.knob.setAttribute("aria-valuemin", "0");
    this.knob.setAttribute("aria-valuemax", String(this.length));
    this.knob.setAttribute("aria-valuenow", String(this.last + 1));
    this.knob.setAttribute("aria-valuetext", this.last < 0 ? "no prefix"
      : `the first ${this.last + 1} actions, at layer ${this.layer}`);
  }

  set(layer, last, done) {
    layer = Math.min(this.layers, Math.max(0, layer));
    last = Math.min(this.length - 1, Math.max(-1, last));
    if (layer === this.layer && last === this.last && !done) return;
    this.layer = layer;
    this.last = last;
    this.place();
    this.change(layer, last, done);
  }

  grab(event) {
    event.preventDefault();
    tip(null);
    this.knob.focus();
    this.knob.setPointerCapture(event.pointerId);
    this.held = true;
    const first = this.body.querySelector(".cell");
    const follow = (e) => {
      const box = first.getBoundingClientRect();
      this.set(Math.floor((e.clientY - box.top) / box.height),
        Math.round((e.clientX - box.left) / box.width) - 1, false);
    };
    const end = () => {
      this.knob.removeEventListener("pointermove", follow);
      this.held = false;
      this.set(this.layer, this.last, true);
    };
    this.knob.addEventListener("pointermove", follow);
    this.knob.addEventListener("pointerup", end, { once: true });
    this.knob.addEventListener("pointercancel", end, { once: true });
  }

  press(event) {
    const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const to = { Home: -1, End: this.length - 1 };
    if (event.key in moves) this.set(this.layer + moves[event.key][0], this.last + moves[event.key][1], true);
    else if (event.key in to) this.set(this.layer, to[event.key], true);
    else return;
    this.knob.scrollIntoView({ block: "nearest", inline: "nearest" });
    event.preventDefault();
  }
}
