// Requests to the server: keys, errors in words, another try where the server is busy.

const KEY = "spherec-key";
const TRIES = 4;

/** An answer that is no answer; `message` is a sentence for the visitor. */
export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

let onModel = () => {};
let askForKey = async () => null;

/** Set what happens when another model answers, and how a visitor is asked for a key. */
export function configure(options) {
  onModel = options.onModel ?? onModel;
  askForKey = options.askForKey ?? askForKey;
}

/** Return the answer to a request, as JSON. */
export async function ask(path, { body, signal } = {}) {
  const response = await send(path, { body, signal });
  const answer = await response.json().catch(() => {
    throw new Problem("This is no answer of the server: an id of dots alone has no address, or a proxy stands in between.", 0);
  });
  if (answer.model) onModel(answer.model);
  return answer;
}

/** Return the answer to a request as it is, once its status is below 400. */
export async function send(path, { body, signal, wasRefused = false } = {}) {
  for (let attempt = 1; ; attempt += 1) {
    const response = await request(path, body, signal);
    if (response.ok || response.status === 304) return response;
    if (response.status === 401) {
      const key = await askForKey(wasRefused);
      if (key === null) throw new Problem("This server needs a key. Reload the page to enter one.", 401);
      sessionStorage.setItem(KEY, key);
      return send(path, { body, signal, wasRefused: true });
    }
    if (response.status === 503 && attempt < TRIES) {
      await sleep(1000 * Number(response.headers.get("retry-after") ?? 1));
      continue;
    }
    throw new Problem(await sentenceOf(response), response.status);
  }
}

async function request(path, body, signal) {
  const key = sessionStorage.getItem(KEY);
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const options = body ? { method: "POST", body: JSON.stringify(body) } : {};
  if (body) headers["content-type"] = "application/json";
  try {
    return await fetch(path, { ...options, headers, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server cannot be reached. Is it still running?", 0);
  }
}

async function sentenceOf(response) {
  const answer = await response.json().catch(() => ({}));
  const sentence = answer.error ?? `The server answered with status ${response.status}.`;
  return sentence.charAt(0).toUpperCase() + sentence.slice(1) + (/[.!?]$/.test(sentence) ? "" : ".");
}

export function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Return a function that runs `work` for its latest argument: at most one at a time, those in between are skipped. */
export function coalesce(work) {
  let isRunning = false;
  let waiting = null;
  return async function run(argument) {
    if (isRunning) {
      waiting = { argument };
      return;
    }
    isRunning = true;
    try {
      await work(argument);
    } finally {
      isRunning = false;
      if (waiting) {
        const next = waiting.argument;
        waiting = null;
        run(next);
      }
    }
  };
}
