// Elements made by hand: text is always text, never markup.

/** Return a new element; attributes whose value is null or false are left out, functions are listeners. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function nameOf(item) {
  return item.name ?? String(item.id);
}

/** Return a name in parts: where it is “title — author”, the author is quieter. */
export function nameParts(item) {
  const [title, ...rest] = nameOf(item).split(" — ");
  return rest.length ? [title, make("span", { class: "by" }, ` — ${rest.join(" — ")}`)] : [title];
}

/** Return the title alone, where a name is “title — author”. */
export function titleOf(item) {
  return nameOf(item).split(" — ")[0];
}

/** Return a picture that the operator allows, or null; it goes away where it cannot be had. */
export function picture(item, className) {
  if (!item?.picture) return null;
  const image = make("img", { class: className, src: item.picture, alt: "", loading: "lazy", referrerpolicy: "no-referrer" });
  image.addEventListener("error", () => image.remove());
  return image;
}

let terms = 0;

/** Return a word with its explanation, shown while the pointer or the focus is on it. */
export function term(word, explanation) {
  terms += 1;
  const id = `term-${terms}`;
  return make("span", { class: "term" },
    make("button", { type: "button", "aria-describedby": id }, word),
    make("span", { class: "explanation", role: "tooltip", id }, explanation));
}

const numbers = new Intl.NumberFormat("en");

export function count(n, noun) {
  return `${numbers.format(n)} ${noun}${n === 1 ? "" : "s"}`;
}

export function link(kind, id) {
  return `#${kind}=${encodeURIComponent(id)}`;
}

export function movesGently() {
  return !matchMedia("(prefers-reduced-motion: reduce)").matches;
}
