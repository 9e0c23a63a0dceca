// The page: the view is in the address, the server computes, the parts draw.
import { announce, choice, make } from "./dom.js";
import { arrangements, replay, Stage } from "./objects.js";
import { Answer, Heads, headline } from "./panels.js";
import { Score } from "./score.js";
import { fresh, read, setPrefix, toggleCell, write } from "./state.js";
import { Training } from "./training.js";
import { Verdict } from "./verdict.js";

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
let models, state, stage, parts;
const texts = [];
let playing = false;

// Colours follow the system until the button is pressed.
const system = matchMedia("(prefers-color-scheme: dark)");
function setTheme(name) {
  root.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colors`);
  parts?.forEach((part) => part.data && part.draw());
}
setTheme(system.matches ? "dark" : "light");
system.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
$("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));

async function request(path, body) {
  const options = body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("the explorer does not respond; is it still running?");
  }
  const found = await answer.json().catch(() => ({ error: `the explorer answered ${answer.status}` }));
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function trouble(text = "") {
  $("trouble").textContent = text;
}

// One model's part of the page. A newer request replaces older ones.
class Part {
  constructor(number) {
    this.number = number;
    this.about = models[number];
    const own = () => state.models[number];
    this.score = new Score(this.about, {
      select: (t) => change(() => { state.at = t; }),
      patch: (layer, t) => {
        if (t < state.source.length) change(() => toggleCell(own(), layer, t));
        else trouble(`the source ends with action ${state.source.length}; make it longer to patch action ${t + 1}`);
      },
      prefix: (layer, last, done) => change(() => setPrefix(own(), layer, last), done),
    });
    this.reply = new Answer(this.about);
    this.heads = new Heads(this.about, number, {
      head: (head) => change(() => { own().head = head; }),
      ablate: ([l, h]) => change(() => {
        const there = own().without.some(([a, b]) => a === l && b === h);
        own().without = there ? own().without.filter(([a, b]) => a !== l || b !== h) : [...own().without, [l, h]];
      }),
      instead: (how) => change(() => { state.instead = how; }),
    });
    this.reset = make("button", { type: "button", class: "reset", onclick: () => change(() => {
      Object.assign(own(), { ...fresh(), head: own().head, step: own().step });
    }) }, "Undo all changes");
    this.notes = make("p", { class: "fine notes" });
    this.training = new Training(this.about, (step, done) => {
      this.verdict.clear();
      change(() => { own().step = step === this.about.step ? null : step; }, done);
      return this.work;
    });
    this.verdict = new Verdict(() => request("api/verdict", { model: this.number, step: own().step }));
    this.headline = make("div", {}, this.title());
    const title = models.length > 1 ? make("h2", {}, this.about.name) : null;
    this.box = make("section", { class: "model", data: { model: String(number) }, "aria-label": this.about.name },
      title, this.notes,
      make("div", { class: "columns" }, this.score.box,
        make("aside", {}, this.reply.box, this.heads.box, make("div", { class: "below" }, this.reset))));
  }

  title() {
    const line = headline(this.about);
    if (models.length > 1) line.prepend(make("span", { class: "whose" }, `${this.about.name}: ${this.about.about}`));
    return line;
  }

  ask() {  // at most one request is under way, and the latest is answered last
    if (this.waiting) this.again = true;
    else this.work = this.answer();
    return this.work;
  }

  async answer() {
    this.waiting = true;
    this.box.dataset.waiting = "true";
    const own = state.models[this.number];
    const shown = structuredClone(state);
    try {
      const data = await request("api/look", { model: this.number, step: own.step, actions: state.actions, source: own.patches.length ? state.source : [],
        patches: own.patches, without: own.without, instead: state.instead,
        at: state.at < state.actions.length ? state.at : -1, head: own.head, maps: true });
      this.data = data;
      this.shown = shown;
      this.error = "";
      this.draw();
      $("speed").textContent = `Answered in ${data.ms} ms.`;
    } catch (error) {
      this.error = error.message;
    } finally {
      trouble(parts.map((part) => part.error).find(Boolean));
      this.waiting = false;
      this.count = (this.count || 0) + 1;
      this.box.dataset.answers = String(this.count);
    }
    if (!this.again) { delete this.box.dataset.waiting; return; }
    this.again = false;
    await this.answer();
  }

  draw() {
    const own = this.shown.models[this.number];
    for (const target of this.about.targets) target.accuracy = this.data.accuracy[target.name] ?? null;
    this.headline.replaceChildren(this.title());
    this.training.show(own);
    this.score.show(this.shown, own, this.data);
    this.reply.show(this.shown, own, this.data);
    this.heads.show(this.shown, own, this.data);
    this.reset.hidden = !this.data.changed;
    this.notes.textContent = this.data.notes.join("; ");
    texts[this.number] = this.data.python;
  }
}

// Every action of the user goes through here: state, address, request.
function change(act, keep = true) {
  playing = false;
  act();
  clip();
  const address = write(state);
  if (address !== location.hash) history[keep && location.hash !== address ? "pushState" : "replaceState"](null, "", address);
  show();
}

// Patches and the chosen column end where the shorter sequence ends.
function clip() {
  const end = Math.min(state.actions.length, state.source.length) - 1;
  for (const own of state.models) {
    own.patches = own.patches.filter(([, a]) => a <= end).map(([l, a, b]) => [l, a, Math.min(b, end)]);
  }
  if (state.at >= state.actions.length) state.at = -1;
}

function show() {
  for (const name of ["actions", "source"]) {
    const field = $(name);
    if (document.activeElement !== field) field.value = state[name].join(" ");
    field.parentElement.classList.toggle("editing", state.edit === name);
  }
  const { sentences, labels } = models[0];
  $("sentences").textContent = sentences ? state[state.edit].map((label) => sentences[labels.indexOf(label)] ?? label).join(" ") : "";
  controls();
  pose();
  parts.forEach((part) => part.ask());
}

function pose() {
  if (!stage.discs) return;
  const rows = arrangements(models[0], state[state.edit]);
  const last = state[state.edit].length;
  const where = state.edit === "source" ? " of the source" : "";
  stage.show(rows[last], models[0].swaps
    ? `after ${last} actions${where}; click two objects to swap them`
    : `after ${last} actions${where}`);
}

// A source as long as the sequence grows with it, so that every action can be patched.
function follow(name, words) {
  if (name === "actions" && state.source.length >= state.actions.length && words.length > state.source.length) {
    state.source = [...state.source, ...words.slice(state.source.length)];
  }
  state[name] = words;
}

const longest = () => Math.min(...models.map((about) => about.longest));

function add(label) {
  if (state.click === "replace" && state.at >= 0 && state.at < state[state.edit].length) {
    change(() => { state[state.edit] = state[state.edit].with(state.at, label); });
    return;
  }
  if (state[state.edit].length >= longest()) {
    trouble(`${longest() + 1} actions are too many; this model takes up to ${longest()}`);
    return;
  }
  change(() => { follow(state.edit, [...state[state.edit], label]); state.at = -1; });
}

// While typing, the sequence changes as soon as all words are elements.
function typed(name) {
  const words = $(name).value.split(/[\s,]+/).filter(Boolean);
  const bad = words.find((word) => !models[0].labels.includes(word));
  $(name).setAttribute("aria-invalid", String(bad !== undefined));
  if (bad !== undefined) trouble(`${models[0].group} has no element '${bad}'; write elements such as ${models[0].labels.slice(0, 3).join(", ")}`);
  else if (!words.length) trouble("the sequence is empty; write at least one action");
  else if (words.length > longest()) trouble(`${words.length} actions are too many; this model takes up to ${longest()}`);
  else { trouble(); change(() => { follow(name, words); state.edit = name; }, false); }
}

function controls() {
  const button = (text, act, label) => make("button", { type: "button", onclick: act, "aria-label": label, title: label, data: { key: text } }, text);
  const held = document.activeElement?.dataset?.key || document.activeElement?.name;
  const value = document.activeElement?.value;
  const set = (key) => (v) => change(() => { state[key] = v; });
  $("controls").replaceChildren(
    choice("edit", "edit", [["actions", "sequence"], ["source", "source"]], state.edit, set("edit"),
      "which of the two the buttons and objects change"),
    choice("click", "a click", [["add", "adds an action"], ["replace", "replaces the selected one"]], state.click, set("click"),
      "what a click on an element below does; select an action in the grid"),
    make("div", { class: "buttons" },
      button("⌫", () => state[state.edit].length > 1 && change(() => { state[state.edit] = state[state.edit].slice(0, -1); }), "remove the last action"),
      button("Random", () => change(() => { state[state.edit] = random(state[state.edit].length); })),
      button("Swap", () => change(() => { [state.actions, state.source] = [state.source, state.actions]; }), "swap sequence and source"),
      models[0].moves ? button("▶ Play", play, "play the sequence") : null));
  const changed = state.models.some((m) => m.patches.length || m.without.length);
  const when = choice("when", "show the model", [["after", "changed"], ["before", "unchanged"]], state.when, set("when"));
  when.disabled = !changed;  // there all the time, so that the grid does not move under a drag
  const ramp = (hue) => make("span", { class: `ramp ${hue}` });
  $("view").replaceChildren(
    choice("reader", "read by", [["probe", "probes"], ["unembedding", "unembedding"]], state.reader, set("reader")),
    when,
    make("span", { class: "scale" }, "chance", ...parts[0].score.targets.map((t) => ramp(t.hue)), "certain and correct"),
    make("span", { class: "scale" }, ramp("other"), "certain of another value"),
    make("span", { class: "scale" }, make("span", { class: "framed" }), "patched", make("span", { class: "dotted" }), "reading changed"));
  if (!held) return;
  const again = [...document.querySelectorAll("#controls input, #controls button, #view input")]
    .find((e) => e.dataset.key === held || (e.name === held && e.value === value));
  again?.focus();
}

function random(n) {
  const among = models[0].actions;
  return Array.from({ length: n }, () => models[0].labels[among[Math.floor(Math.random() * among.length)]]);
}

async function play() {
  if (playing) { playing = false; return; }
  playing = true;
  const actions = state[state.edit];
  await replay(stage, models[0], actions, (t) => parts.forEach((part) => part.score.spot(t)), () => !playing);
  playing = false;
  parts.forEach((part) => { part.score.spot(-2); part.score.mark(part.data?.at); });
  pose();
}

function palette() {
  const about = models[0];
  const few = about.actions.length <= 24;
  const one = (i) => make("button", { type: "button", class: about.parity?.[i] ? "odd" : "",
    title: about.sentences?.[i] || (about.parity ? (about.parity[i] ? "odd" : "even") : ""),
    onclick: () => add(about.labels[i]) }, about.labels[i]);
  if (few) { $("palette").replaceChildren(...about.actions.map(one)); return; }
  const found = make("span", { class: "found" });
  const search = make("input", { type: "search", size: 24, placeholder: `find one of ${about.actions.length} elements`, "aria-label": "find an element",
    oninput: () => filter(), onkeydown: (event) => {
      if (event.key === "Enter" && found.firstChild?.click) { event.preventDefault(); found.firstChild.click(); search.select(); }
    } });
  const filter = () => {
    const fits = about.actions.filter((i) => about.labels[i].startsWith(search.value.trim()));
    found.replaceChildren(...fits.slice(0, 12).map(one),
      ...(fits.length > 12 ? [make("span", { class: "fine" }, ` and ${fits.length - 12} more: keep typing`)] : []),
      ...(fits.length ? [] : [make("span", { class: "fine" }, `${about.group} has no element '${search.value}'`)]));
  };
  $("palette").replaceChildren(search, found);
  filter();
}

async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    announce(done);
    return true;
  } catch {
    return false;
  }
}

$("share").addEventListener("click", async () => {
  if (!(await copy(location.href, "The address of this view was copied"))) announce("Copy the address from the browser's address bar");
});
$("python").addEventListener("click", async () => {
  const text = texts.join("\n");
  $("code-text").textContent = text;
  await copy(text, "Copied");
  $("code").showModal();
});
$("code-close").addEventListener("click", () => $("code").close());
addEventListener("popstate", () => { state = read(location.hash, models); show(); });
for (const name of ["actions", "source"]) {
  $(name).addEventListener("input", () => typed(name));
  $(name).addEventListener("focus", () => { if (state.edit !== name) { state.edit = name; show(); } });
  $(name).addEventListener("blur", () => { $(name).removeAttribute("aria-invalid"); trouble(); $(name).value = state[name].join(" "); });
}

(async function open() {
  try {
    ({ models } = await request("api/about"));
  } catch (error) {
    $("loading").textContent = error.message;
    return;
  }
  $("loading").remove();
  $("title").textContent = models.length > 1 ? `${models[0].name} beside ${models[1].name}` : `${models[0].name}: ${models[0].about}`;
  document.title = `statetrace: ${models.map((m) => m.name).join(" and ")}`;
  document.body.classList.toggle("two", models.length > 1);
  state = read(location.hash, models);
  clip();
  history.replaceState(null, "", write(state));
  $("editor").hidden = false;
  stage = new Stage($("stage"), models[0], add);
  palette();
  parts = models.map((_, i) => new Part(i));
  $("headlines").replaceChildren(...parts.map((part) => make("div", {}, part.headline, part.training.box, part.verdict.box)));
  $("models").replaceChildren(...parts.map((part) => part.box));
  show();
  await Promise.all(parts.map((part) => part.ask()));
  root.dataset.ready = "true";
})();
