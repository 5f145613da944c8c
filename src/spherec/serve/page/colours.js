// The colours of the map by a column of the item table, and the names of its regions.
//
// Both are made from groups: [value, indices of the items that have it].

const COLOURS = 8; // of values
const RANGES = 6; // of numbers
const REGIONS = 60; // at most
const LEAST_ITEMS = 8; // of a region
const LEAST_LIFT = 3; // times as close together as all items

/**
 * Return the values that have colours, for each of n items the place of its own from 1 on, and whether they are in order.
 * Many numbers are cut into ranges of about as many items, in order; of other values the most frequent have colours.
 */
export function colourItems(groups, n) {
  const codes = new Uint8Array(n);
  const isOrdered = groups.length > COLOURS && groups.every(([value]) => value.trim() && Number.isFinite(Number(value)));
  if (!isOrdered) {
    const common = [...groups].sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1)).slice(0, COLOURS);
    for (let place = common.length; place > 0; place -= 1) for (const item of common[place - 1][1]) codes[item] = place;
    return { values: common.map(([value]) => value), codes, isOrdered };
  }
  const total = groups.reduce((sum, [, items]) => sum + items.length, 0);
  const ranges = new Map();
  let before = 0;
  for (const [value, items] of [...groups].sort((a, b) => a[0] - b[0])) {
    const at = Math.floor(((before + items.length / 2) * RANGES) / total);
    before += items.length;
    ranges.set(at, [...(ranges.get(at) ?? []), value]);
    for (const item of items) codes[item] = ranges.size;
  }
  const values = [...ranges.values()].map((range) => (range.length > 1 ? `${range[0]} to ${range.at(-1)}` : range[0]));
  return { values, codes, isOrdered };
}

/** Return x, y and name of regions of the map: of the values whose items lie close together, those that say most first. */
export function nameRegions(places, groups) {
  const whole = measure(places, Array.from({ length: places.length / 2 }, (_, index) => index)).spread;
  const found = [];
  for (const [name, items] of groups) {
    if (items.length < LEAST_ITEMS) continue;
    const { x, y, spread } = measure(places, items);
    const lift = whole / Math.max(spread, 0.01 * whole);
    if (lift >= LEAST_LIFT) found.push({ x, y, name, weight: items.length * Math.log(lift) });
  }
  return found.sort((a, b) => b.weight - a.weight).slice(0, REGIONS);
}

/** Return the middle of items, and the distance from it in which half of them lie. */
function measure(places, items) {
  const half = (numbers) => Float32Array.from(numbers).sort()[numbers.length >> 1] ?? 0;
  const x = half(items.map((item) => places[2 * item]));
  const y = half(items.map((item) => places[2 * item + 1]));
  return { x, y, spread: half(items.map((item) => Math.hypot(places[2 * item] - x, places[2 * item + 1] - y))) };
}
