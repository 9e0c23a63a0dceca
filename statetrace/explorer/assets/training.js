// The slider over the checkpoints of a run: how the mechanism forms. Every view of the page follows.
import { make, percent } from "./dom.js";

const PAUSE = 700;  // at least this long at each checkpoint while playing

export class Training {
  // choose(step, done): show the model at that step; returns a promise of its drawing
  constructor(about, choose) {
    this.checkpoints = about.checkpoints;
    this.opened = about.step;
    this.choose = choose;
    const last = this.checkpoints.length - 1;
    this.slider = make("input", { type: "range", min: "0", max: String(last), step: "1", "aria-label": "checkpoint",
      oninput: () => { this.playing = false; this.go(false); }, onchange: () => this.go(true) });
    this.button = make("button", { type: "button", "aria-label": "play the training", onclick: () => this.play() }, "▶ Training");
    this.label = make("output", {});
    this.box = make("div", { class: "training", role: "group", "aria-label": "checkpoints of the run" },
      this.button, this.slider, this.label);
    this.box.hidden = last < 1;
  }

  go(done) {
    return this.choose(this.checkpoints[Number(this.slider.value)].step, done);
  }

  show(own) {
    const step = own.step ?? this.opened;
    const at = this.checkpoints.findIndex((c) => c.step === step);
    if (at < 0) return;
    if (document.activeElement !== this.slider || this.playing) this.slider.value = String(at);
    const { accuracy } = this.checkpoints[at];
    const shares = Object.entries(accuracy || {}).map(([what, share]) => `${what} ${percent(share)}`).join(", ");
    const label = `step ${step.toLocaleString("en")}${shares ? `: accuracy ${shares}` : ""}`;
    this.label.textContent = label;
    this.slider.setAttribute("aria-valuetext", label);
  }

  async play() {
    this.playing = !this.playing;
    const last = this.checkpoints.length - 1;
    if (this.playing && Number(this.slider.value) === last) this.slider.value = "-1";
    for (let at = Number(this.slider.value); this.playing && at <= last; at++) {
      this.button.textContent = "❚❚ Pause";
      this.slider.value = String(at);
      await Promise.all([this.go(at === last), new Promise((done) => setTimeout(done, PAUSE))]);
    }
    this.playing = false;
    this.button.textContent = "▶ Training";
  }
}
