// @ts-check
/**
 * The reactive core: five names, `signal`, `computed`, `effect`, `html`, `each`, and nothing beyond them.
 *
 * Guarantees: whoever reads a signal in an effect runs again after it changes, once per task however many changed, and
 * never on a value that came out equal. What an effect makes (effects, listeners, nodes) ends with its next run or its
 * disposal. Data never becomes markup: it is written as text nodes, attributes and properties, none of which can run.
 * An effect that throws is reported, and the others go on.
 */

/** @typedef {{version: number, readers: Set<Reader>, refresh(): void}} Source */
/** @typedef {{sources: Map<Source, number>, touched(): void}} Reader */
/** @template T @typedef {{value: T, peek(): T}} Signal */
/** @template T @typedef {{readonly value: T, peek(): T}} Computed */

/** @type {Reader | null} */ let reading = null;
/** @type {Set<() => void> | null} what ends with the effect that runs now */ let owned = null;
/** @type {Set<Reader & {run(): void}>} */ let queue = new Set();
let flushing = false;
const ROUNDS = 100; // effects that keep waking each other are a bug, and must not freeze the page

/** @param {Source} source */
function track(source) {
  if (reading) {
    source.readers.add(reading);
    reading.sources.set(source, source.version);
  }
}

/** @param {Reader} reader */
function forget(reader) {
  for (const source of reader.sources.keys()) source.readers.delete(reader);
  reader.sources.clear();
}

/** @param {Reader} reader Whether anything that it read is another now. */
function outdated(reader) {
  for (const [source, seen] of reader.sources) {
    source.refresh();
    if (source.version !== seen) return true;
  }
  return false;
}

/**
 * A value that can be watched. Equal values (`Object.is`) wake nobody.
 * @template T @param {T} initial @returns {Signal<T>}
 */
export function signal(initial) {
  let current = initial;
  /** @type {Source} */
  const source = { version: 0, readers: new Set(), refresh() {} };
  return {
    get value() {
      track(source);
      return current;
    },
    set value(next) {
      if (Object.is(next, current)) return;
      current = next;
      source.version++;
      for (const reader of [...source.readers]) reader.touched();
    },
    peek: () => current,
  };
}

/**
 * A value made from others, when it is asked for and only if one of them changed.
 * @template T @param {() => T} make @returns {Computed<T>}
 */
export function computed(make) {
  /** @type {T} */ let current;
  let stale = true;
  let first = true;
  /** @type {Source & Reader} */
  const self = {
    version: 0,
    readers: new Set(),
    sources: new Map(),
    touched() {
      if (stale) return;
      stale = true;
      for (const reader of [...self.readers]) reader.touched();
    },
    refresh() {
      if (!stale) return;
      if (!first && !outdated(self)) {
        stale = false;
        return;
      }
      forget(self);
      const before = reading;
      reading = self;
      stale = first = false;
      try {
        const next = make();
        if (self.version === 0 || !Object.is(next, current)) {
          current = next;
          self.version++;
        }
      } finally {
        reading = before;
      }
    },
  };
  return {
    get value() {
      self.refresh();
      track(self);
      return current;
    },
    peek() {
      self.refresh();
      return current;
    },
  };
}

function flush() {
  for (let round = 0; queue.size; round++) {
    if (round === ROUNDS) {
      queue.clear();
      flushing = false;
      throw new Error("effects wake each other without end");
    }
    const due = queue;
    queue = new Set();
    for (const one of due) one.run();
  }
  flushing = false;
}

/**
 * Runs `run` now, and again after anything that it read changed. What it returns is called before the next run and at
 * the end. With `react`, `run` only says what is watched: `react` gets its value, and what that reads wakes nobody.
 * @template T
 * @param {() => T} run @param {(value: T) => unknown} [react]
 * @returns {() => void} ends it
 */
export function effect(run, react) {
  /** @type {Set<() => void>} */ const mine = new Set();
  let over = false;
  /** @type {Reader & {run(): void}} */
  const self = {
    sources: new Map(),
    touched() {
      queue.add(self);
      if (!flushing) {
        flushing = true;
        queueMicrotask(flush);
      }
    },
    run() {
      if (!over && (!self.sources.size || outdated(self))) go();
    },
  };
  function clear() {
    forget(self);
    for (const end of [...mine].reverse()) end();
    mine.clear();
  }
  function go() {
    clear();
    const [read, own] = [reading, owned];
    reading = self;
    owned = mine;
    try {
      let left = /** @type {unknown} */ (run());
      reading = null;
      if (react) left = react(/** @type {T} */ (left));
      if (typeof left === "function") mine.add(/** @type {() => void} */ (left));
    } catch (error) {
      globalThis.reportError(error);
    } finally {
      reading = read;
      owned = own;
    }
  }
  const host = owned;
  function end() {
    over = true;
    queue.delete(self);
    host?.delete(end);
    clear();
  }
  host?.add(end);
  go();
  return end;
}

// ── nodes ───────────────────────────────────────────────────────────────────────────────────────────────────

const HOLE = "\u2060hole:";
const FORBIDDEN = /^(on|srcdoc$|style$|\.(inner|outer)html$)/;
/** @type {WeakMap<TemplateStringsArray, HTMLTemplateElement>} */ const parsed = new WeakMap();

/** @param {TemplateStringsArray} strings The template of a literal; its text is the programmer's, never data. */
function templateOf(strings) {
  let template = parsed.get(strings);
  if (!template) {
    let markup = "";
    strings.forEach((part, i) => {
      markup += part;
      if (i === strings.length - 1) return;
      const inTag = markup.lastIndexOf("<") > markup.lastIndexOf(">");
      const name = inTag ? (/([^\s"'<>=]+)\s*=\s*(?:"[^"]*|'[^']*)?$/.exec(markup)?.[1] ?? "") : "";
      if (FORBIDDEN.test(name)) throw new Error(`${name} takes no data`); // before the browser looks at it
      markup += inTag ? `${HOLE}${i};` : `<!--${HOLE}${i};-->`;
    });
    template = document.createElement("template");
    template.innerHTML = markup.trim();
    parsed.set(strings, template);
  }
  return template;
}

/**
 * Makes nodes. A hole between tags takes text, a node, a list of those, nothing (null, false), or a function that is run
 * again when a signal it reads changes. A hole in a tag is an attribute (`class="a ${b}"`), `@click` a listener,
 * `.value` a property, `?hidden` on or off, `style.width` a style, `ref` a function that gets the element.
 * @param {TemplateStringsArray} strings @param {unknown[]} values @returns {Node} one node, or a fragment
 */
export function html(strings, ...values) {
  const content = document.importNode(templateOf(strings).content, true);
  const walker = document.createTreeWalker(content, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT);
  /** @type {(() => void)[]} */ const bindings = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node instanceof Comment) {
      if (node.data.startsWith(HOLE)) bindings.push(() => fill(node, values[parseInt(node.data.slice(HOLE.length))]));
      continue;
    }
    const element = /** @type {Element} */ (node);
    for (const { name, value } of [...element.attributes]) {
      if (!value.includes(HOLE)) continue;
      element.removeAttribute(name);
      const parts = value.split(new RegExp(`${HOLE}(\\d+);`)).map((part, i) => (i % 2 ? values[Number(part)] : part));
      bindings.push(() => bind(element, name, parts.length === 3 && !parts[0] && !parts[2] ? [parts[1]] : parts));
    }
  }
  for (const one of bindings) one();
  return content.childNodes.length === 1 ? /** @type {Node} */ (content.firstChild) : content;
}

/** @param {Element} element @param {string} name @param {unknown[]} parts */
function bind(element, name, parts) {
  if (name === "ref") return /** @type {(e: Element) => void} */ (parts[0])(element);
  if (name[0] === "@") return element.addEventListener(name.slice(1), /** @type {EventListener} */ (parts[0]));
  const put = () => {
    const told = parts.map((part) => (typeof part === "function" ? part() : part));
    write(element, name, told.length === 1 ? told[0] : told.map((one) => one ?? "").join(""));
  };
  if (parts.some((part) => typeof part === "function")) effect(put);
  else put();
}

/** @param {Element} element @param {string} name @param {unknown} value */
function write(element, name, value) {
  if (name[0] === ".") Reflect.set(element, name.slice(1), value);
  else if (name[0] === "?") element.toggleAttribute(name.slice(1), Boolean(value));
  else if (name.startsWith("style.")) {
    /** @type {HTMLElement} */ (element).style.setProperty(name.slice(6), String(value ?? ""));
  } else if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if ((name === "href" || name === "src") && !/^(https?:|blob:|mailto:|[/?#.]|$)/i.test(String(value))) {
    element.removeAttribute(name); // `javascript:` and its like, whoever wrote them
  } else element.setAttribute(name, value === true ? "" : String(value));
}

/** @param {unknown} value @returns {Node[]} */
function nodesOf(value) {
  if (value === null || value === undefined || value === false || value === true) return [];
  if (Array.isArray(value)) return value.flatMap(nodesOf);
  if (value instanceof DocumentFragment) return [...value.childNodes];
  return [value instanceof Node ? value : document.createTextNode(String(value))];
}

/** @param {Comment} place @param {unknown} value Puts `value` before `place`, and keeps it there. */
function fill(place, value) {
  if (value instanceof Each) return value.mount(place);
  if (typeof value !== "function") return place.before(...nodesOf(value));
  const start = document.createComment("");
  place.before(start);
  effect(() => {
    const made = value();
    const only = start.nextSibling;
    if (only instanceof Text && only.nextSibling === place && (typeof made === "string" || typeof made === "number")) {
      only.data = String(made);
      return;
    }
    const next = nodesOf(made);
    // all between the two marks is ours, also what came in later
    for (let node = start.nextSibling; node && node !== place; node = start.nextSibling) node.remove();
    place.before(...next);
  });
}

/** @template T */
class Each {
  /** @param {() => readonly T[]} list @param {(item: T) => unknown} key @param {(item: Signal<T>) => Node} render */
  constructor(list, key, render) {
    this.list = list;
    this.key = key;
    this.render = render;
  }

  /** @param {Comment} place */
  mount(place) {
    /** @type {Map<unknown, {item: Signal<T>, node: ChildNode, end(): void}>} */ let rows = new Map();
    const host = effect(() => () => rows.forEach((row) => row.end()));
    effect(this.list, (list) => {
      const next = new Map();
      const was = owned;
      owned = null; // a row lives as long as its key is listed, not until the list's next change
      for (const value of list) {
        const key = this.key(value);
        if (next.has(key)) continue; // listed twice: shown once
        const row = rows.get(key) ?? this.make(value);
        row.item.value = value;
        next.set(key, row);
      }
      owned = was;
      for (const [key, row] of rows) {
        if (next.has(key)) continue;
        row.end();
        row.node.remove();
      }
      let after = /** @type {ChildNode} */ (place);
      for (const row of [...next.values()].reverse()) {
        if (row.node.nextSibling !== after) after.before(row.node);
        after = row.node;
      }
      rows = next;
    });
    return host;
  }

  /** @param {T} value */
  make(value) {
    const item = signal(value);
    /** @type {Node | undefined} */ let node;
    const end = effect(
      () => null,
      () => {
        node = this.render(item);
      },
    );
    if (!(node instanceof Element)) throw new Error("a row is one element");
    return { item, node, end };
  }
}

/**
 * A keyed list for a hole of `html`: rows stay the same elements while their key is listed, and get what is new of them
 * through their signal.
 * @template T
 * @param {() => readonly T[]} list @param {(item: T) => unknown} key @param {(item: Signal<T>) => Node} render one element
 */
export function each(list, key, render) {
  return new Each(list, key, render);
}
