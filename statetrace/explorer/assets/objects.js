// Coloured objects in a row: the stage, where a person swaps them, and the braid, which shows the
// whole sequence as strands that cross.
import { draw, make, still } from "./dom.js";

const NAMES = "ABCDEFG";
export const hue = (i) => `object-${i}`;

// Where each object stands after each action: rows[0] is before any.
export function arrangements(about, actions) {
  const n = about.moves[0].length;
  const rows = [Array.from({ length: n }, (_, i) => i)];
  for (const action of actions) {
    const move = about.moves[about.labels.indexOf(action)];
    rows.push(rows[rows.length - 1].map((place) => (move ? move[place] : place)));
  }
  return rows;
}

const SIZE = 58;

export class Stage {
  constructor(place, about, add) {
    this.about = about;
    this.add = add;
    this.held = null;
    this.pending = null;  // a movement gathered from several swaps
    this.gather = false;
    place.replaceChildren();
    if (!about.moves) {
      place.append(make("p", { class: "fine" }, `No objects to move: ${about.no_moves}.`));
      return;
    }
    const n = about.moves[0].length;
    this.n = n;
    this.svg = draw("svg", { viewBox: `0 0 ${n * SIZE} ${SIZE}`, class: "row", role: "group",
      "aria-label": "the objects after the last action; choose two to swap them" });
    this.svg.style.maxWidth = `${n * SIZE}px`;
    this.discs = [];
    for (let i = 0; i < n; i++) {
      this.svg.append(draw("rect", { class: "place", x: i * SIZE + 4, y: SIZE - 6, width: SIZE - 8, height: 3, rx: 1.5 }));
    }
    for (let i = 0; i < n; i++) {
      const disc = draw("g", { class: `disc ${hue(i)}` },
        draw("circle", { cx: SIZE / 2, cy: SIZE / 2 - 4, r: SIZE / 2 - 8 }),
        draw("text", { x: SIZE / 2, y: SIZE / 2 - 3 }));
      disc.lastChild.textContent = NAMES[i];
      if (about.swaps) {
        disc.setAttribute("tabindex", "0");
        disc.setAttribute("role", "button");
        disc.addEventListener("click", () => this.choose(i));
        disc.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.choose(i); }
        });
      }
      this.discs.push(disc);
      this.svg.append(disc);
    }
    this.note = make("p", { class: "fine", id: "stage-note" });
    place.append(this.svg, this.note);
    if (!about.swaps) return;
    this.addButton = make("button", { type: "button", onclick: () => this.finish() }, "Add");
    this.undo = make("button", { type: "button", onclick: () => this.drop() }, "Undo");
    const box = make("input", { type: "checkbox", id: "gather", onchange: () => {
      this.gather = box.checked;
      this.drop();
    } });
    const direct = about.moves.some((m) => m.filter((to, i) => to !== i).length === 2);
    if (!direct) { this.gather = true; box.checked = true; box.disabled = true; }
    place.append(make("div", { class: "gather" },
      make("label", {}, box, " several swaps make one action"), this.addButton, this.undo));
  }

  // row[i] is the position of object i; the discs slide there.
  show(row, note) {
    if (!this.discs) return;
    this.row = row;
    const places = this.pending ? row.map((p) => this.pending[p]) : row;
    this.discs.forEach((disc, i) => {
      disc.style.transform = `translateX(${places[i] * SIZE}px)`;
      disc.classList.toggle("held", this.held === i);
      disc.setAttribute("aria-label", `object ${NAMES[i]} at position ${places[i] + 1}`);
      if (this.about.swaps) disc.setAttribute("aria-pressed", String(this.held === i));
    });
    this.places = places;
    if (note !== undefined) this.note.textContent = note;
    if (!this.addButton) return;
    const element = this.pending ? this.elementOf(this.pending) : -1;
    this.addButton.hidden = this.undo.hidden = !this.pending;
    this.addButton.disabled = element < 0;
    this.addButton.textContent = element < 0 ? "no element yet" : `Add ${this.about.labels[element]}`;
  }

  choose(i) {
    if (this.held === null || this.held === i) {
      this.held = this.held === i ? null : i;
      this.show(this.row);
      return;
    }
    const [a, b] = [this.places[this.held], this.places[i]];
    this.held = null;
    const swap = Array.from({ length: this.n }, (_, p) => (p === a ? b : p === b ? a : p));
    if (!this.gather) { this.add(this.about.labels[this.elementOf(swap)]); return; }
    this.pending = (this.pending || swap.map((_, p) => p)).map((p) => swap[p]);
    this.show(this.row);
  }

  elementOf(move) {
    const key = move.join();
    return this.about.moves.findIndex((m) => m.join() === key);
  }

  finish() {
    const label = this.about.labels[this.elementOf(this.pending)];
    this.drop();
    this.add(label);
  }

  drop() {
    this.pending = this.held = null;
    if (this.row) this.show(this.row);
  }
}

// Strands through all columns; x(t) is the middle of column t, x(-1) that of the start.
export function braid(svg, about, actions, x, width) {
  if (!about.moves) { svg.replaceChildren(); return 0; }
  const rows = arrangements(about, actions);
  const n = rows[0].length;
  const gap = n > 5 ? 19 : 23;
  const height = n * gap + 4;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  const y = (place) => place * gap + gap / 2 + 2;
  const strands = [], knots = [];
  for (let i = 0; i < n; i++) {
    let path = `M${x(-1)} ${y(rows[0][i])}`;
    for (let t = 0; t < actions.length; t++) {
      const [from, to] = [x(t - 1), x(t)], mid = (from + to) / 2;
      path += `C${mid} ${y(rows[t][i])} ${mid} ${y(rows[t + 1][i])} ${to} ${y(rows[t + 1][i])}`;
    }
    strands.push(draw("path", { d: path, class: `strand ${hue(i)}` }));
    rows.forEach((row, k) => {
      const knot = draw("g", { class: `knot ${hue(i)}`, "data-t": k - 1 },
        draw("circle", { cx: x(k - 1), cy: y(row[i]), r: gap / 2 - 2.5 }),
        draw("text", { x: x(k - 1), y: y(row[i]) + 0.5 }));
      knot.lastChild.textContent = NAMES[i];
      knots.push(knot);
    });
  }
  svg.replaceChildren(...strands, ...knots);
  return height;
}

// Walk through the sequence from the start, one action after another.
export async function replay(stage, about, actions, step, stopped) {
  const rows = arrangements(about, actions);
  const pause = still() ? 120 : 420;
  for (let k = 0; k < rows.length && !stopped(); k++) {
    stage.show(rows[k], k ? `action ${k}: ${actions[k - 1]}` : "before any action");
    step(k - 1);
    await new Promise((done) => setTimeout(done, pause));
  }
}
