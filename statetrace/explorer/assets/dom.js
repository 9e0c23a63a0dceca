// Small helpers. Everything that is text goes through textContent.

export function make(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") element.className = value;
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((c) => c !== null && c !== undefined));
  return element;
}

export function draw(tag, props = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === "class") element.setAttribute("class", value);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// A row of buttons of which one is pressed, as the report has them.
export function choice(name, legend, options, chosen, change, title) {
  const set = make("fieldset", { class: "choice", title }, make("legend", {}, legend));
  for (const [value, label] of options) {
    const input = make("input", { type: "radio", name, value, checked: value === chosen,
      onchange: () => change(value) });
    set.append(make("label", {}, input, make("span", {}, label)));
  }
  return set;
}

export const percent = (p) => {
  if (p > 0 && p < 0.001) return "<0.1%";
  if (p < 1 && p > 0.999) return ">99.9%";
  return `${(100 * p).toFixed(p > 0.0995 && p < 0.9945 ? 0 : 1)}%`;
};

// An accuracy, rounded down: 100% means no error.
export const whole = (p) => `${Math.floor(100 * p)}%`;

export const count = (n) => `${n} action${n === 1 ? "" : "s"}`;

const root = document.documentElement;
export const dark = () => root.dataset.theme === "dark";
export const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

export const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const light = (c) => c.map((v) => v / 255)
  .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);

// A colour between "nothing" and the full hue, and the ink that can be read on it. One of black
// and white always has a contrast of 4.5.
export function shade(hue, share) {
  const none = rgb(css("--none")), full = rgb(css(`--cell-${hue}`));
  const mixed = none.map((v, i) => Math.round(v + (full[i] - v) * share));
  const ink = light(mixed) + 0.05 > 0.2291 ? "#000000" : "#FFFFFF";
  return [`rgb(${mixed.join(",")})`, ink];
}

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function announce(text) {
  const toast = document.getElementById("toast");
  toast.textContent = text;
  toast.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => toast.classList.remove("shown"), 2500);
}

// One tooltip for the page; it follows what is pointed at or focused.
export function tip(target, lines) {
  const box = document.getElementById("tip");
  if (!target) { box.hidden = true; return; }
  box.replaceChildren(...lines.map((line) => make("div", {}, line)));
  box.hidden = false;
  const at = target.getBoundingClientRect();
  const own = box.getBoundingClientRect();
  const x = Math.min(innerWidth - own.width - 8, Math.max(8, at.left + at.width / 2 - own.width / 2));
  const above = at.top - own.height - 8;
  box.style.left = `${x}px`;
  box.style.top = `${above > 8 ? above : at.bottom + 8}px`;
}
