// The map of the items on a canvas: all items as a density of ink, and above it marks, lines and names.
//
// Items are added up in a buffer of pixels and then coloured, which takes a few milliseconds for 100,000 of them on any
// machine, with or without a graphics card. Where a sharp picture takes too long for a smooth move, the map is drawn with
// fewer pixels while it moves, and sharply once it rests.

import { movesGently, titleOf } from "./dom.js";

const LARGEST_RATIO = 2; // device pixels for a pixel of the page
const LARGEST_ZOOM = 400; // times the view of the whole map
const REACH = 14; // pixels from the pointer in which an item is found
const FLIGHT = 550; // milliseconds
const PAUSE = 120; // milliseconds after which the view rests: it is drawn sharply, and names are asked for
const LONGEST_FRAME = 9; // milliseconds for the items; what takes longer is drawn with fewer pixels while it moves
const LABELS_AT_ONCE = 90;
const LABEL_HEIGHT = 17;
const LONGEST_LABEL = 34; // characters
const SIZES = [2, 10, 50]; // numbers of users from which an item is drawn larger
const MANY = 20_000; // items; fewer are drawn larger
const PIXELS_AT_ONCE = 1.2e6; // of all dots, so that a frame is quick
const INK = 64; // of an item on the pixel below it
const DENSE = 51; // ink of a pixel that has two thirds of its colour, where few items overlap
const NEAR = 6; // times the view of the whole map beyond which regions have no names

export class MapView {
  /** options: pick(index), fetchNames(indices) -> [{index, id, name}], tip (element) */
  constructor(canvas, options) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.options = options;
    this.names = new Map();
    this.camera = { x: 0, y: 0, scale: 1 };
    this.extent = { width: 1, height: 1 };
    this.marks = { selected: null, list: [], history: [], lines: [] };
    this.pending = 0;
    this.pointers = new Map();
    this.readColours();
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.listen();
  }

  /** Take the answer of /map: x and y of all items, then their numbers of users. */
  setData(buffer) {
    const numbers = new Float32Array(buffer);
    this.n = numbers.length / 3;
    this.places = numbers.subarray(0, 2 * this.n);
    this.users = numbers.subarray(2 * this.n);
    this.sizes = Uint8Array.from(this.users, (users) => SIZES.filter((least) => users >= least).length);
    const order = Uint32Array.from({ length: this.n }, (_, index) => index);
    this.order = order.sort((a, b) => this.users[b] - this.users[a] || a - b);
    this.dotSize = 0.62 * Math.min(Math.max((MANY / this.n) ** 0.35, 1), 4); // of a dot on the whole map, in pixels
    this.names.clear();
    this.regions = [];
    this.codes = null;
    this.marks = { selected: null, list: [], history: [], lines: [] };
    this.whole = this.measure();
    this.resize();
    this.camera = this.fit(this.whole, 0.04);
    this.redraw();
  }

  /** Return the rectangle that holds nearly all items: a few lie far out. */
  measure() {
    if (!this.n) return { left: -1, right: 1, top: -1, bottom: 1 };
    const at = (axis, share) => {
      const sorted = Float32Array.from({ length: this.n }, (_, i) => this.places[2 * i + axis]).sort();
      return sorted[Math.round(share * (this.n - 1))];
    };
    return { left: at(0, 0.01), right: at(0, 0.99), top: at(1, 0.01), bottom: at(1, 0.99) };
  }

  /** Take names of regions, and the colours of items: a number for each, 0 for none, and the colour of each number. */
  setColours(regions, codes, colours) {
    this.regions = regions;
    this.codes = colours.length ? codes : null;
    this.itemColours = colours;
    this.redraw();
  }

  /** Mark items: {selected, list, history, lines: [[from, to], …]}, all by index; then show them if `fly`. */
  setMarks(marks, { fly = true } = {}) {
    this.marks = { selected: null, list: [], history: [], lines: [], ...marks };
    if (!this.n) return;
    const shown = [...this.marks.list, ...this.marks.history, this.marks.selected ?? []].flat();
    if (fly && shown.length) this.flyTo(this.fitItems(shown));
    else if (fly) this.flyTo(this.fit(this.whole, 0.04));
    this.redraw();
  }

  /** Point at one item, for as long as the pointer is on its entry; null ends it. */
  pointAt(index, because = []) {
    this.pointed = index === null ? null : { index, because };
    this.redraw();
  }

  // --- camera ---

  fit(box, margin) {
    const { width, height } = this.size();
    const spanX = Math.max(box.right - box.left, 1e-6);
    const spanY = Math.max(box.bottom - box.top, 1e-6);
    const scale = Math.min((width * (1 - 2 * margin)) / spanX, (height * (1 - 2 * margin)) / spanY);
    return { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2, scale: Math.max(scale, 1e-9) };
  }

  /** Return the camera that shows most of some items; the farthest tenth may lie outside. */
  fitItems(items) {
    const axis = (offset) => items.map((item) => this.places[2 * item + offset]).sort((a, b) => a - b);
    const trim = Math.floor(items.length / 10);
    const [xs, ys] = [axis(0), axis(1)];
    const last = items.length - 1 - trim;
    const camera = this.fit({ left: xs[trim], right: xs[last], top: ys[trim], bottom: ys[last] }, 0.16);
    const whole = this.fit(this.whole, 0.04).scale;
    camera.scale = Math.min(Math.max(camera.scale, whole), whole * 14);
    return camera;
  }

  flyTo(target) {
    cancelAnimationFrame(this.flight);
    if (!movesGently() || !this.canvas.offsetParent) {
      this.camera = target;
      this.redraw();
      return;
    }
    const from = this.camera;
    const begin = performance.now();
    const step = (now) => {
      const t = Math.min(Math.max((now - begin) / FLIGHT, 0), 1);
      const ease = t < 0.5 ? 4 * t ** 3 : 1 - (-2 * t + 2) ** 3 / 2;
      const scale = from.scale * (target.scale / from.scale) ** ease;
      // The centre moves as fast as what is seen of it.
      const moved = Math.abs(target.scale - from.scale) < 1e-9 * from.scale
        ? ease : (1 / from.scale - 1 / scale) / (1 / from.scale - 1 / target.scale);
      this.camera = { x: from.x + (target.x - from.x) * moved, y: from.y + (target.y - from.y) * moved, scale };
      this.redrawMoving();
      if (t < 1) this.flight = requestAnimationFrame(step);
    };
    this.flight = requestAnimationFrame(step);
  }

  zoom(factor, at) {
    if (!this.n) return;
    cancelAnimationFrame(this.flight);
    const { width, height } = this.size();
    const point = at ?? { x: width / 2, y: height / 2 };
    const whole = this.fit(this.whole, 0.04).scale;
    const scale = Math.min(Math.max(this.camera.scale * factor, whole * 0.6), whole * LARGEST_ZOOM);
    const shift = 1 / this.camera.scale - 1 / scale;
    this.camera = {
      x: this.camera.x + (point.x - width / 2) * shift, y: this.camera.y + (point.y - height / 2) * shift, scale,
    };
    this.redrawMoving();
  }

  pan(dx, dy) {
    cancelAnimationFrame(this.flight);
    this.camera = { ...this.camera, x: this.camera.x - dx / this.camera.scale, y: this.camera.y - dy / this.camera.scale };
    this.redrawMoving();
  }

  showAll() {
    if (this.n) this.flyTo(this.fit(this.whole, 0.04));
  }

  size() {
    return this.extent; // kept, because asking the document for it takes longer than drawing an item
  }

  /** Return the part of the map that is in sight. */
  sight() {
    const [x, y] = [this.extent.width / 2 / this.camera.scale, this.extent.height / 2 / this.camera.scale];
    return { left: this.camera.x - x, right: this.camera.x + x, top: this.camera.y - y, bottom: this.camera.y + y };
  }

  toScreen(index) {
    const { width, height } = this.size();
    return {
      x: (this.places[2 * index] - this.camera.x) * this.camera.scale + width / 2,
      y: (this.places[2 * index + 1] - this.camera.y) * this.camera.scale + height / 2,
    };
  }

  // --- drawing ---

  resize() {
    const [width, height] = [this.canvas.clientWidth || 1, this.canvas.clientHeight || 1];
    this.extent = { width, height };
    this.ratio = Math.min(devicePixelRatio || 1, LARGEST_RATIO);
    const [w, h] = [Math.round(width * this.ratio), Math.round(height * this.ratio)];
    if (this.sharp && this.canvas.width === w && this.canvas.height === h) return;
    const isFirst = !this.sharp || this.canvas.width <= 2;
    this.sharp = sheet(this.canvas, w, h, this.ratio);
    this.coarse = this.ratio > 1 ? sheet(document.createElement("canvas"), width, height, 1) : this.sharp;
    if (this.n && isFirst) {
      this.camera = this.fit(this.whole, 0.04);
      this.setMarks(this.marks);
    }
    this.draw();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    this.colours = {
      ink: read("--map-ink"), list: read("--list"), history: read("--history"), text: read("--ink"), halo: read("--map"),
      muted: read("--muted"),
    };
    this.redraw();
  }

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  /** Draw a view that moves; once it rests, it is drawn sharply. */
  redrawMoving() {
    this.isMoving = true;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.isMoving = false;
      this.redraw();
    }, PAUSE);
    this.redraw();
  }

  draw() {
    if (!this.n || !this.sharp) return;
    const begin = performance.now();
    const used = this.isMoving && this.isSlow ? this.coarse : this.sharp;
    this.drawInk(used);
    if (used === this.sharp) this.isSlow = performance.now() - begin > LONGEST_FRAME;
    const context = this.context;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.drawLines(context);
    this.drawMarks(context);
    this.drawLabels(context, this.drawRegions(context));
    this.placeTip();
    if (document.activeElement === this.canvas && this.usesKeys) this.drawCross(context);
    this.canvas.dataset.milliseconds = (performance.now() - begin).toFixed(1);
    this.canvas.dataset.ratio = used.ratio;
  }

  /** Draw all items: add their dots up in the buffer of a sheet, then give each pixel its colour. */
  drawInk(used) {
    const { context, image, ink, ratio } = used;
    const { places, sizes, codes } = this;
    const tints = codes ? (used.tints ??= [1, 2, 3].map(() => new Uint32Array(ink.length))) : [];
    const { width, height } = image;
    ink.fill(0);
    for (const tint of tints) tint.fill(0);
    const rgb = [this.colours.ink, ...(codes ? this.itemColours : [])].map(split);
    const scale = this.camera.scale * ratio;
    const zoom = this.camera.scale / this.fit(this.whole, 0.04).scale;
    const affordable = Math.sqrt(PIXELS_AT_ONCE / Math.max(this.inSight ?? this.n, 1)) / 2;
    const base = Math.min(this.dotSize * zoom ** 0.45 * ratio, 3.2 * ratio, Math.max(affordable, 1));
    let inSight = 0;
    const dots = [1, 1.25, 1.6, 2.1].map((times) => dot(Math.min(base * times, 7 * ratio)));
    const [left, top] = [width / 2 - this.camera.x * scale, height / 2 - this.camera.y * scale];
    for (let i = 0, at = 0; i < this.n; i += 1, at += 2) {
      const x = Math.round(places[at] * scale + left);
      const y = Math.round(places[at + 1] * scale + top);
      const { radius, weights } = dots[sizes[i]];
      if (x < radius || y < radius || x >= width - radius || y >= height - radius) continue;
      inSight += 1;
      let k = 0;
      for (let row = y - radius; row <= y + radius; row += 1) {
        const start = row * width + x - radius;
        if (!codes) for (let pixel = start; pixel <= start + 2 * radius; pixel += 1) ink[pixel] += weights[k++];
        else for (let pixel = start; pixel <= start + 2 * radius; pixel += 1, k += 1) {
          ink[pixel] += weights[k];
          for (let part = 0; part < 3; part += 1) tints[part][pixel] += weights[k] * rgb[codes[i]][part];
        }
      }
    }
    this.inSight = inSight;
    const pixels = new Uint32Array(image.data.buffer);
    const shades = shade(ink);
    const [red, green, blue] = rgb[0];
    const plain = (blue << 16) | (green << 8) | red;
    for (let pixel = 0; pixel < pixels.length; pixel += 1) {
      const value = ink[pixel];
      if (!value) pixels[pixel] = 0;
      else if (!codes) pixels[pixel] = shades[Math.min(value >> 2, 2047)] | plain;
      else {
        const [r, g, b] = [tints[0][pixel] / value, tints[1][pixel] / value, tints[2][pixel] / value];
        pixels[pixel] = shades[Math.min(value >> 2, 2047)] | (b << 16) | (g << 8) | r;
      }
    }
    context.putImageData(image, 0, 0);
    if (context === this.context) return;
    this.context.resetTransform();
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.context.drawImage(context.canvas, 0, 0, this.canvas.width, this.canvas.height);
  }

  drawLines(context) {
    const lines = [...this.marks.lines];
    if (this.pointed) lines.push(...this.pointed.because.map((other) => [this.pointed.index, other]));
    context.strokeStyle = this.colours.list;
    context.lineWidth = 1.2;
    context.globalAlpha = 0.55;
    context.beginPath();
    for (const [from, to] of lines) {
      const [a, b] = [this.toScreen(from), this.toScreen(to)];
      context.moveTo(a.x, a.y);
      context.lineTo(b.x, b.y);
    }
    context.stroke();
    context.globalAlpha = 1;
  }

  drawMarks(context) {
    for (const index of this.marks.history) this.mark(context, index, 4.2, this.colours.history, true);
    for (const index of this.marks.list) this.mark(context, index, 4.6, this.colours.list, false);
    if (this.marks.selected !== null) {
      this.mark(context, this.marks.selected, 6.5, this.colours.list, false);
      this.mark(context, this.marks.selected, 11, this.colours.list, true);
    }
    if (this.pointed) this.mark(context, this.pointed.index, 9, this.colours.list, true);
  }

  mark(context, index, radius, colour, isRing) {
    const { x, y } = this.toScreen(index);
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.lineWidth = 2;
    if (isRing) {
      context.strokeStyle = this.colours.halo;
      context.lineWidth = 4;
      context.stroke();
      context.strokeStyle = colour;
      context.lineWidth = 2;
    } else {
      context.fillStyle = colour;
      context.fill();
      context.strokeStyle = this.colours.halo;
      context.lineWidth = 1.5;
    }
    context.stroke();
  }

  /** Write the names of regions while the map is seen from afar; return the boxes that they fill. */
  drawRegions(context) {
    const zoom = this.camera.scale / this.fit(this.whole, 0.04).scale;
    const boxes = [];
    if (zoom > NEAR) return boxes;
    const { width, height } = this.size();
    context.font = `600 ${width < 500 ? 12 : 14}px ${getComputedStyle(this.canvas).fontFamily}`;
    context.letterSpacing = "1.5px";
    context.textBaseline = "middle";
    for (const { x, y, name } of this.regions) {
      const text = shorten(name).toUpperCase();
      const across = context.measureText(text).width;
      const left = (x - this.camera.x) * this.camera.scale + width / 2 - across / 2;
      const middle = (y - this.camera.y) * this.camera.scale + height / 2;
      const box = { x: left - 6, y: middle - LABEL_HEIGHT / 2 - 2, width: across + 12, height: LABEL_HEIGHT + 4 };
      const meets = (other) => box.x < other.x + other.width && other.x < box.x + box.width
        && box.y < other.y + other.height && other.y < box.y + box.height;
      if (box.x < 4 || box.x + box.width > width - 4 || middle < 12 || middle > height - 12 || boxes.some(meets)) continue;
      boxes.push(box);
      context.lineWidth = 4;
      context.lineJoin = "round";
      context.strokeStyle = this.colours.halo;
      context.strokeText(text, left, middle);
      context.fillStyle = this.colours.text;
      context.fillText(text, left, middle);
    }
    context.letterSpacing = "0px";
    return boxes;
  }

  /** Write names where there is room: of what is marked first, then of the most popular items in sight. */
  drawLabels(context, taken) {
    const { width, height } = this.size();
    const missing = [];
    const pointed = this.pointed ? [this.pointed.index, ...this.pointed.because] : [];
    const first = [...pointed, this.marks.selected ?? [], ...this.marks.list, ...this.marks.history].flat();
    const marked = new Set(first);
    const marks = [...marked].map((index) => ({ index, ...this.toScreen(index) }));
    let written = 0;
    const write = (index, isMarked) => {
      const { x, y } = this.toScreen(index);
      if (x < 0 || y < 0 || x > width || y > height) return;
      const entry = this.names.get(index);
      const box = { x: x + (isMarked ? 9 : 6), y: y - LABEL_HEIGHT / 2, width: 110, height: LABEL_HEIGHT };
      if (entry) {
        context.font = this.font(isMarked);
        entry.widths ??= {};
        box.width = (entry.widths[isMarked] ??= context.measureText(entry.label).width);
      }
      const meets = (other) => box.x < other.x + other.width + 10 && other.x < box.x + box.width + 10
        && box.y < other.y + other.height && other.y < box.y + box.height;
      const covers = (mark) => mark.index !== index && mark.x + 4 > box.x && mark.x - 4 < box.x + box.width
        && mark.y + 1 > box.y && mark.y - 1 < box.y + box.height;
      const hasRoom = () => box.x >= 4 && box.x + box.width <= width - 4 && !taken.some(meets) && !marks.some(covers);
      if (!hasRoom()) box.x = x - (isMarked ? 9 : 6) - box.width; // on the other side
      if (!hasRoom()) return;
      taken.push(box);
      written += 1;
      if (!entry) {
        missing.push(index);
        return;
      }
      context.font = this.font(isMarked);
      context.lineWidth = 3.5;
      context.lineJoin = "round";
      context.strokeStyle = this.colours.halo;
      context.strokeText(entry.label, box.x, y + 0.5);
      context.fillStyle = this.markColour(index, marked);
      context.fillText(entry.label, box.x, y + 0.5);
    };
    context.textBaseline = "middle";
    for (const index of marked) write(index, true);
    const most = written + Math.min(LABELS_AT_ONCE, Math.round((width * height) / 13000));
    const { left, right, top, bottom } = this.sight();
    for (let place = 0; place < this.n && written < most; place += 1) {
      const index = this.order[place];
      const x = this.places[2 * index];
      const y = this.places[2 * index + 1];
      if (x > left && x < right && y > top && y < bottom && !marked.has(index)) write(index, false);
    }
    if (missing.length) this.fetch(missing);
  }

  font(isMarked) {
    return `${isMarked ? "600 12.5px" : "12px"} ${getComputedStyle(this.canvas).fontFamily}`;
  }

  markColour(index, marked) {
    if (!marked.has(index)) return this.colours.muted;
    return this.marks.history.includes(index) && this.marks.selected !== index ? this.colours.history : this.colours.text;
  }

  drawCross(context) {
    const { width, height } = this.size();
    context.strokeStyle = this.colours.text;
    context.lineWidth = 1;
    context.beginPath();
    context.arc(width / 2, height / 2, REACH, 0, 2 * Math.PI);
    context.stroke();
  }

  /** Ask for names of items in sight, once the view has rested. */
  fetch(indices) {
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      for (const item of await this.options.fetchNames(indices.slice(0, 150))) this.learn(item);
      this.redraw();
    }, PAUSE);
  }

  learn(item) {
    if (!this.names.has(item.index)) this.names.set(item.index, { id: item.id, label: shorten(titleOf(item)) });
  }

  // --- pointer and keys ---

  /** Return the item nearest to a point, and of those about as near the most popular one; null if none is near. */
  itemAt(point, reach = REACH) {
    if (!this.n) return null;
    let [best, bestCost] = [null, Infinity];
    const { width, height } = this.size();
    const { x, y, scale } = this.camera;
    for (let i = 0; i < this.n; i += 1) {
      const dx = (this.places[2 * i] - x) * scale + width / 2 - point.x;
      if (dx > reach || dx < -reach) continue;
      const dy = (this.places[2 * i + 1] - y) * scale + height / 2 - point.y;
      const distance = dx * dx + dy * dy;
      if (distance > reach * reach) continue;
      const cost = Math.sqrt(distance) - 2 * Math.log1p(this.users[i]);
      if (cost < bestCost) [best, bestCost] = [i, cost];
    }
    return best;
  }

  listen() {
    const { canvas } = this;
    const pointOf = (event) => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      this.usesKeys = false;
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, pointOf(event));
      if (this.pointers.size === 1) moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const point = pointOf(event);
      const last = this.pointers.get(event.pointerId);
      if (!last) {
        this.hover(point);
        return;
      }
      const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, other]) => other);
      if (others.length) {
        const [other] = others;
        const spread = (p) => Math.hypot(p.x - other.x, p.y - other.y) || 1;
        this.zoom(spread(point) / spread(last), { x: (point.x + other.x) / 2, y: (point.y + other.y) / 2 });
        moved += 100;
      } else {
        moved += Math.hypot(point.x - last.x, point.y - last.y);
        if (moved > 3) this.pan(point.x - last.x, point.y - last.y);
      }
      this.pointers.set(event.pointerId, point);
      this.hover(null);
    });
    const release = (event) => {
      if (!this.pointers.delete(event.pointerId) || event.type === "pointercancel" || moved > 3) return;
      const item = this.itemAt(pointOf(event), event.pointerType === "touch" ? 2 * REACH : REACH);
      if (item !== null) this.options.pick(item);
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0022)), pointOf(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
      this.usesKeys = true;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (steps[event.key]) this.pan(...steps[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoom(1.4);
      else if (event.key === "-") this.zoom(1 / 1.4);
      else if (event.key === "0") this.showAll();
      else if (event.key === "Enter") {
        const { width, height } = this.size();
        const item = this.itemAt({ x: width / 2, y: height / 2 }, 3 * REACH);
        if (item !== null) this.options.pick(item);
      } else return;
      event.preventDefault();
    });
    for (const kind of ["focus", "blur"]) canvas.addEventListener(kind, () => this.redraw());
  }

  async hover(point) {
    const item = point ? this.itemAt(point) : null;
    const { tip } = this.options;
    this.canvas.classList.toggle("on-item", item !== null);
    if (item === null) {
      this.hovered = null;
      tip.hidden = true;
      return;
    }
    if (this.hovered === item) return;
    this.hovered = item;
    if (!this.names.has(item)) {
      await new Promise((resolve) => setTimeout(resolve, 60));
      if (this.hovered !== item) return;
      for (const known of await this.options.fetchNames([item])) this.learn(known);
      if (this.hovered !== item) return;
    }
    const users = this.users[item];
    tip.textContent = `${this.names.get(item)?.label ?? ""} · ${users} user${users === 1 ? "" : "s"}`;
    tip.hidden = false;
    this.placeTip();
  }

  /** Keep the tip at its item while the map moves below the pointer. */
  placeTip() {
    const { tip } = this.options;
    if (tip.hidden || this.hovered === null) return;
    const place = this.toScreen(this.hovered);
    const x = Math.min(Math.max(place.x, 90), this.size().width - 90);
    const y = place.y < 44 ? place.y + 44 : place.y - 14; // below what is at the upper edge
    Object.assign(tip.style, { left: `${x}px`, top: `${y}px` });
  }
}

/** Return the context of a canvas of this size, and buffers for the ink and the colours of its pixels. */
function sheet(canvas, width, height, ratio) {
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  return { context, image: context.createImageData(width, height), ink: new Uint32Array(width * height), ratio };
}

/** Return red, green and blue of a colour such as #5b5346. */
function split(colour) {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}

/** Return how opaque a pixel is, by a fourth of its ink: where many items overlap, more ink is needed for the same. */
function shade(ink) {
  let [sum, n] = [0, 0];
  for (const value of ink) if (value) [sum, n] = [sum + value, n + 1];
  const dense = Math.max(DENSE, sum / Math.max(n, 1));
  return Uint32Array.from({ length: 2048 }, (_, value) => Math.round(235 * (1 - Math.exp((-value * 4) / dense))) << 24);
}

/** Return a soft dot: the ink of each pixel around its centre. */
function dot(size) {
  const radius = Math.max(Math.ceil(size), 1);
  const weights = [];
  const faint = Math.min(size / 0.8, 1);
  for (let y = -radius; y <= radius; y += 1) {
    for (let x = -radius; x <= radius; x += 1) {
      const cover = Math.min(Math.max(size + 0.5 - Math.hypot(x, y), 0), 1);
      weights.push(Math.round(INK * cover * faint * (size > 1 ? 1.6 : 1)));
    }
  }
  return { radius, weights: Uint16Array.from(weights) };
}

function shorten(text) {
  if (text.length <= LONGEST_LABEL) return text;
  return `${text.slice(0, LONGEST_LABEL).replace(/[\s,.:;–—-]+\S*$/u, "")}…`;
}
