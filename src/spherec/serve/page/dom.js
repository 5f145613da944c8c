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
