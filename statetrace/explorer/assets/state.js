// The view as one object, and as the part of the address after "#". Nothing else is stored: an
// address is the view.

export const fresh = () => ({ patches: [], without: [], head: null, step: null });

export function initial(models) {
  const start = models[0].start;
  return {
    actions: start.actions, source: start.source, at: -1, instead: "mean", reader: "probe",
    when: "after", edit: "actions", click: "add",
    models: models.map((about) => ({ ...fresh(), head: about.head })),
  };
}

const pair = (p) => p.join(".");
const unpair = (text) => text.split(".").map(Number);

export function write(state) {
  const parts = { a: state.actions.join(","), s: state.source.join(","), t: state.at,
    i: state.instead, r: state.reader, w: state.when, e: state.edit, c: state.click };
  state.models.forEach((own, i) => {
    const n = i ? String(i + 1) : "";
    if (own.patches.length) parts[`p${n}`] = own.patches.map((p) => p.join("-")).join(",");
    if (own.without.length) parts[`x${n}`] = own.without.map(pair).join(",");
    if (own.head) parts[`h${n}`] = pair(own.head);
    if (own.step !== null) parts[`k${n}`] = own.step;
  });
  const defaults = { t: -1, i: "mean", r: "probe", w: "after", e: "actions", c: "add" };
  return "#" + Object.entries(parts).filter(([k, v]) => defaults[k] !== v)
    .map(([k, v]) => `${k}=${encodeURIComponent(v).replaceAll("%2C", ",").replaceAll("%3A", ":")}`)
    .join("&");
}

const list = (text) => (text ? text.split(",").filter(Boolean) : []);
const whole = (numbers, size) => numbers.length === size && numbers.every(Number.isInteger);

// What cannot be parsed keeps its default; what parses but is invalid is refused by the server.
export function read(hash, models) {
  const state = initial(models);
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const choose = (key, name, allowed) => {
    if (allowed.includes(found.get(key))) state[name] = found.get(key);
  };
  if (found.has("a")) state.actions = list(found.get("a"));
  if (found.has("s")) state.source = list(found.get("s"));
  const at = Number(found.get("t"));
  if (found.has("t") && Number.isInteger(at) && at >= -1) state.at = at;
  choose("i", "instead", ["mean", "zero"]);
  choose("r", "reader", ["probe", "unembedding"]);
  choose("w", "when", ["before", "after"]);
  choose("e", "edit", ["actions", "source"]);
  choose("c", "click", ["add", "replace"]);
  state.models.forEach((own, i) => {
    const n = i ? String(i + 1) : "";
    own.patches = list(found.get(`p${n}`)).map((p) => p.split("-").map(Number)).filter((p) => whole(p, 3));
    own.without = list(found.get(`x${n}`)).map(unpair).filter((p) => whole(p, 2));
    const head = found.has(`h${n}`) ? unpair(found.get(`h${n}`)) : [];
    if (whole(head, 2)) own.head = head;
    const step = Number(found.get(`k${n}`));
    if (models[i].checkpoints.some((c) => c.step === step)) own.step = step;
  });
  return state;
}

export const prefixOf = (own) => own.patches.find(([, first]) => first === 0) || null;

export function toggleCell(own, layer, t) {
  const covered = own.patches.find(([l, a, b]) => l === layer && a <= t && t <= b);
  if (!covered) { own.patches = [...own.patches, [layer, t, t]]; return; }
  const rest = own.patches.filter((p) => p !== covered);
  const [, first, last] = covered;  // a cell in the middle cuts a patch in two
  if (first < t) rest.push([layer, first, t - 1]);
  if (t < last) rest.push([layer, t + 1, last]);
  own.patches = rest;
}

// The handle stands for one prefix: the patch that begins at the first action.
export function setPrefix(own, layer, last) {
  const before = prefixOf(own);
  const rest = own.patches.filter((p) => p !== before);
  if (last < 0) { own.patches = rest; return; }
  own.patches = [...rest.filter(([l, , b]) => l !== layer || b > last), [layer, 0, last]];
}
