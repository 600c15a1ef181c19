// @ts-check
/**
 * The reactive core: five functions, `signal`, `computed`, `effect`, `html` and `each`, and nothing beyond them.
 *
 * Guarantees: an effect runs again after a signal that it read has changed, once per task however many changed, and
 * never for a value that came out equal. What an effect creates (effects, listeners, nodes) is disposed before its next
 * run. Data never becomes markup: it is written as text nodes, attributes and properties that can't execute. An effect
 * that throws is reported, and the others go on.
 */

/** @typedef {{version: number, readers: Set<Reader>, refresh(): void}} Source */
/** @typedef {{sources: Map<Source, number>, invalidate(): void}} Reader */
/** @template T @typedef {{value: T, peek(): T}} Signal */
/** @template T @typedef {{readonly value: T, peek(): T}} Computed */

/** @type {Reader | null} */ let currentReader = null;
/** @type {Set<() => void> | null} cleanups of the effect that runs now */ let currentCleanups = null;
/** @type {Set<Reader & {run(): void}>} */ let pendingEffects = new Set();
let isFlushScheduled = false;
const MAX_ROUNDS = 100; // effects that trigger each other endlessly are a bug, but must not freeze the page

/** @param {Source} source */
function track(source) {
  if (currentReader) {
    source.readers.add(currentReader);
    currentReader.sources.set(source, source.version);
  }
}

/** @param {Reader} reader */
function unsubscribe(reader) {
  for (const source of reader.sources.keys()) source.readers.delete(reader);
  reader.sources.clear();
}

/** @param {Reader} reader Whether anything that it read has changed. */
function isOutdated(reader) {
  for (const [source, seen] of reader.sources) {
    source.refresh();
    if (source.version !== seen) return true;
  }
  return false;
}

/**
 * A value that can be watched. Setting an equal value (`Object.is`) triggers nothing.
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
      for (const reader of [...source.readers]) reader.invalidate();
    },
    peek: () => current,
  };
}

/**
 * A value computed from others: on demand, and only if one of them changed.
 * @template T @param {() => T} compute @returns {Computed<T>}
 */
export function computed(compute) {
  /** @type {T} */ let current;
  let isStale = true;
  let isFirst = true;
  /** @type {Source & Reader} */
  const self = {
    version: 0,
    readers: new Set(),
    sources: new Map(),
    invalidate() {
      if (isStale) return;
      isStale = true;
      for (const reader of [...self.readers]) reader.invalidate();
    },
    refresh() {
      if (!isStale) return;
      if (!isFirst && !isOutdated(self)) {
        isStale = false;
        return;
      }
      unsubscribe(self);
      const outerReader = currentReader;
      currentReader = self;
      isStale = isFirst = false;
      try {
        const next = compute();
        if (self.version === 0 || !Object.is(next, current)) {
          current = next;
          self.version++;
        }
      } finally {
        currentReader = outerReader;
      }
    },
  };
  // With the effect that made it, or else a signal that outlives the page would keep everything that the page had.
  currentCleanups?.add(() => {
    if (self.readers.size) return; // someone else reads it
    unsubscribe(self);
    isStale = isFirst = true;
  });
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
  for (let round = 0; pendingEffects.size; round++) {
    if (round === MAX_ROUNDS) {
      pendingEffects.clear();
      isFlushScheduled = false;
      throw new Error("effects trigger each other endlessly");
    }
    const effects = pendingEffects;
    pendingEffects = new Set();
    for (const pending of effects) pending.run();
  }
  isFlushScheduled = false;
}

/**
 * Runs `run` now, and again after anything that it read changed. If it returns a function, that is called before the
 * next run and at the end. With `react`, `run` only names what is watched: `react` gets its value, and its reads are
 * not tracked.
 * @template T @param {() => T} run @param {(value: T) => unknown} [react] @returns {() => void} disposes it
 */
export function effect(run, react) {
  /** @type {Set<() => void>} */ const cleanups = new Set();
  let isDisposed = false;
  /** @type {Reader & {run(): void}} */
  const self = {
    sources: new Map(),
    invalidate() {
      pendingEffects.add(self);
      if (!isFlushScheduled) {
        isFlushScheduled = true;
        queueMicrotask(flush);
      }
    },
    run() {
      if (!isDisposed && (!self.sources.size || isOutdated(self))) execute();
    },
  };
  function cleanUp() {
    unsubscribe(self);
    for (const cleanup of [...cleanups].reverse()) cleanup();
    cleanups.clear();
  }
  function execute() {
    cleanUp();
    const [outerReader, outerCleanups] = [currentReader, currentCleanups];
    currentReader = self;
    currentCleanups = cleanups;
    try {
      let result = /** @type {unknown} */ (run());
      currentReader = null;
      if (react) result = react(/** @type {T} */ (result));
      if (typeof result === "function") cleanups.add(/** @type {() => void} */ (result));
    } catch (error) {
      globalThis.reportError(error);
    } finally {
      currentReader = outerReader;
      currentCleanups = outerCleanups;
    }
  }
  const owner = currentCleanups;
  function dispose() {
    isDisposed = true;
    pendingEffects.delete(self);
    owner?.delete(dispose);
    cleanUp();
  }
  owner?.add(dispose);
  execute();
  return dispose;
}

// ── nodes ───────────────────────────────────────────────────────────────────────────────────────────────────

const HOLE = "\u2060hole:";
const FORBIDDEN = /^(on|srcdoc$|style$|\.(inner|outer)html$)/;
/** @type {WeakMap<TemplateStringsArray, HTMLTemplateElement>} */ const templates = new WeakMap();

/**
 * @param {TemplateStringsArray} strings The template of a literal. Its text comes from the source code, never from
 *   data.
 */
function parseTemplate(strings) {
  let template = templates.get(strings);
  if (!template) {
    let markup = "";
    strings.forEach((part, i) => {
      markup += part;
      if (i === strings.length - 1) return;
      const inTag = markup.lastIndexOf("<") > markup.lastIndexOf(">");
      const name = inTag ? (/([^\s"'<>=]+)\s*=\s*(?:"[^"]*|'[^']*)?$/.exec(markup)?.[1] ?? "") : "";
      if (FORBIDDEN.test(name)) throw new Error(`${name} takes no data`); // before the browser parses it
      markup += inTag ? `${HOLE}${i};` : `<!--${HOLE}${i};-->`;
    });
    template = document.createElement("template");
    template.innerHTML = markup.trim();
    templates.set(strings, template);
  }
  return template;
}

/**
 * Creates nodes. A hole between tags takes text, a node, a list of those, nothing (null, false), or a function that
 * runs again when a signal it reads changes. A hole in a tag is an attribute (`class="a ${b}"`), `@click` a listener,
 * `.value` a property, `?hidden` a boolean attribute, `style.width` a style, `ref` a function that gets the element.
 * @param {TemplateStringsArray} strings @param {unknown[]} values @returns {Node} one node, or a fragment
 */
export function html(strings, ...values) {
  const content = document.importNode(parseTemplate(strings).content, true);
  const walker = document.createTreeWalker(content, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT);
  /** @type {(() => void)[]} */ const bindings = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node instanceof Comment) {
      if (node.data.startsWith(HOLE)) {
        bindings.push(() => fillHole(node, values[parseInt(node.data.slice(HOLE.length))]));
      }
      continue;
    }
    const element = /** @type {Element} */ (node);
    for (const { name, value } of [...element.attributes]) {
      if (!value.includes(HOLE)) continue;
      element.removeAttribute(name);
      const parts = value.split(new RegExp(`${HOLE}(\\d+);`)).map((part, i) => (i % 2 ? values[Number(part)] : part));
      bindings.push(() =>
        bindAttribute(element, name, parts.length === 3 && !parts[0] && !parts[2] ? [parts[1]] : parts)
      );
    }
  }
  for (const bindNow of bindings) bindNow();
  return content.childNodes.length === 1 ? /** @type {Node} */ (content.firstChild) : content;
}

/** @param {Element} element @param {string} name @param {unknown[]} parts */
function bindAttribute(element, name, parts) {
  if (name === "ref") return /** @type {(e: Element) => void} */ (parts[0])(element);
  if (name[0] === "@") return element.addEventListener(name.slice(1), /** @type {EventListener} */ (parts[0]));
  const update = () => {
    const values = parts.map((part) => (typeof part === "function" ? part() : part));
    setAttribute(element, name, values.length === 1 ? values[0] : values.map((value) => value ?? "").join(""));
  };
  if (parts.some((part) => typeof part === "function")) effect(update);
  else update();
}

/** @param {Element} element @param {string} name @param {unknown} value */
function setAttribute(element, name, value) {
  if (name[0] === ".") Reflect.set(element, name.slice(1), value);
  else if (name[0] === "?") element.toggleAttribute(name.slice(1), Boolean(value));
  else if (name.startsWith("style.")) {
    /** @type {HTMLElement} */ (element).style.setProperty(name.slice(6), String(value ?? ""));
  } else if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if ((name === "href" || name === "src") && !/^(https?:|blob:|mailto:|[/?#.]|$)/i.test(String(value))) {
    element.removeAttribute(name); // `javascript:` and the like are never set
  } else element.setAttribute(name, value === true ? "" : String(value));
}

/** @param {unknown} value @returns {Node[]} */
function toNodes(value) {
  if (value === null || value === undefined || value === false || value === true) return [];
  if (Array.isArray(value)) return value.flatMap(toNodes);
  if (value instanceof DocumentFragment) return [...value.childNodes];
  return [value instanceof Node ? value : document.createTextNode(String(value))];
}

/** @param {Comment} marker @param {unknown} value Inserts `value` before `marker`, and keeps it up to date. */
function fillHole(marker, value) {
  if (value instanceof KeyedList) return value.mount(marker);
  if (typeof value !== "function") return marker.before(...toNodes(value));
  const start = document.createComment("");
  marker.before(start);
  effect(() => {
    const content = value();
    const textNode = start.nextSibling;
    if (
      textNode instanceof Text && textNode.nextSibling === marker &&
      (typeof content === "string" || typeof content === "number")
    ) {
      textNode.data = String(content);
      return;
    }
    const nodes = toNodes(content);
    // everything between the two markers belongs to this hole, also nodes that were added later
    for (let node = start.nextSibling; node && node !== marker; node = start.nextSibling) node.remove();
    marker.before(...nodes);
  });
}

/** @template T */
class KeyedList {
  /** @param {() => readonly T[]} list @param {(item: T) => unknown} key @param {(item: Signal<T>) => Node} render */
  constructor(list, key, render) {
    this.list = list;
    this.key = key;
    this.render = render;
  }

  /** @param {Comment} marker */
  mount(marker) {
    /** @type {Map<unknown, {item: Signal<T>, node: ChildNode, dispose(): void}>} */ let rows = new Map();
    const dispose = effect(() => () => rows.forEach((row) => row.dispose()));
    effect(this.list, (list) => {
      const next = new Map();
      const outerCleanups = currentCleanups;
      currentCleanups = null; // a row lives as long as its key is listed, not only until the list changes
      for (const value of list) {
        const key = this.key(value);
        if (next.has(key)) continue; // a key that is listed twice is shown once
        const row = rows.get(key) ?? this.createRow(value);
        row.item.value = value;
        next.set(key, row);
      }
      currentCleanups = outerCleanups;
      for (const [key, row] of rows) {
        if (next.has(key)) continue;
        row.dispose();
        row.node.remove();
      }
      const focused = document.activeElement; // an element that is moved loses the focus
      let nextNode = /** @type {ChildNode} */ (marker);
      for (const row of [...next.values()].reverse()) {
        if (row.node.nextSibling !== nextNode) nextNode.before(row.node);
        nextNode = row.node;
      }
      if (focused instanceof HTMLElement && focused.isConnected) focused.focus({ preventScroll: true });
      rows = next;
    });
    return dispose;
  }

  /** @param {T} value */
  createRow(value) {
    const item = signal(value);
    /** @type {Node | undefined} */ let node;
    const dispose = effect(
      () => null,
      () => {
        node = this.render(item);
      },
    );
    if (!(node instanceof Element)) throw new Error("a row is one element");
    return { item, node, dispose };
  }
}

/**
 * A keyed list for a hole of `html`: rows stay the same elements while their key is listed, and get new values through
 * their signal.
 * @template T @param {() => readonly T[]} list @param {(item: T) => unknown} key
 * @param {(item: Signal<T>) => Node} render one element
 */
export function each(list, key, render) {
  return new KeyedList(list, key, render);
}
