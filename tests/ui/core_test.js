// @ts-check
/** Tests of the reactive core without a page; `html` and `each` are tested in a browser. */

import { computed, effect, signal } from "../../src/gristmill/server/ui/static/js/core.js";

/** @param {unknown} actual @param {unknown} expected */
function assertEqual(actual, expected) {
  const [a, b] = [actual, expected].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}
const nextTask = () => new Promise((resolve) => setTimeout(resolve, 0));

Deno.test("an effect runs again after a change, once for many changes", async () => {
  const [a, b] = [signal(1), signal(2)];
  /** @type {number[]} */ const seen = [];
  effect(() => {
    seen.push(a.value + b.value);
  });
  a.value = 10;
  b.value = 20;
  assertEqual(seen, [3]);
  await nextTask();
  assertEqual(seen, [3, 30]);
});

Deno.test("setting an equal value triggers nothing", async () => {
  const a = signal("x");
  let runs = 0;
  effect(() => {
    void a.value;
    runs++;
  });
  a.value = "x";
  await nextTask();
  assertEqual(runs, 1);
});

Deno.test("a computed value is computed on demand, and only after a change", () => {
  const a = signal(2);
  let computations = 0;
  const double = computed(() => {
    computations++;
    return a.value * 2;
  });
  assertEqual(computations, 0);
  assertEqual([double.value, double.value, computations], [4, 4, 1]);
  a.value = 3;
  assertEqual([double.peek(), computations], [6, 2]);
});

Deno.test("an effect does not run when a computed value stays the same", async () => {
  const n = signal(1);
  const odd = computed(() => n.value % 2 === 1);
  let runs = 0;
  effect(() => {
    void odd.value;
    runs++;
  });
  n.value = 3;
  await nextTask();
  assertEqual(runs, 1);
  n.value = 4;
  await nextTask();
  assertEqual(runs, 2);
});

Deno.test("an effect never sees a half-updated diamond", async () => {
  const n = signal(1);
  const left = computed(() => n.value + 1);
  const right = computed(() => n.value * 10);
  /** @type {string[]} */ const seen = [];
  effect(() => {
    seen.push(`${left.value} ${right.value}`);
  });
  n.value = 2;
  await nextTask();
  assertEqual(seen, ["2 10", "3 20"]);
});

Deno.test("a signal that is no longer read is no longer tracked", async () => {
  const [which, a] = [signal(true), signal(0)];
  let runs = 0;
  effect(() => {
    runs++;
    if (which.value) void a.value;
  });
  which.value = false;
  await nextTask();
  a.value = 5;
  await nextTask();
  assertEqual(runs, 2);
});

Deno.test("an effect is disposed with the effect that created it", async () => {
  const [outer, inner] = [signal(0), signal(0)];
  /** @type {string[]} */ const log = [];
  const end = effect(() => {
    const n = outer.value;
    effect(() => {
      log.push(`run ${n}.${inner.value}`);
      return () => log.push(`end ${n}`);
    });
  });
  outer.value = 1;
  await nextTask();
  inner.value = 1;
  await nextTask();
  end();
  inner.value = 2;
  await nextTask();
  assertEqual(log, ["run 0.0", "end 0", "run 1.0", "end 1", "run 1.1", "end 1"]);
});

Deno.test("reads in `react` are not tracked", async () => {
  const [watched, other] = [signal(1), signal(1)];
  /** @type {number[]} */ const seen = [];
  effect(
    () => watched.value,
    (value) => {
      seen.push(value + other.value);
    },
  );
  other.value = 5;
  await nextTask();
  watched.value = 2;
  await nextTask();
  assertEqual(seen, [2, 7]);
});

Deno.test("an effect that throws is reported, and the others go on", async () => {
  const a = signal(0);
  /** @type {string[]} */ const reported = [];
  const before = globalThis.reportError;
  globalThis.reportError = (error) => reported.push(/** @type {Error} */ (error).message);
  try {
    let runs = 0;
    effect(() => {
      if (a.value === 1) throw new Error("broken");
    });
    effect(() => {
      void a.value;
      runs++;
    });
    a.value = 1;
    await nextTask();
    assertEqual([reported, runs], [["broken"], 2]);
  } finally {
    globalThis.reportError = before;
  }
});

Deno.test("effects that trigger each other endlessly are stopped", async () => {
  const [a, b] = [signal(0), signal(0)];
  /** @type {string[]} */ const thrown = [];
  const catcher = (/** @type {ErrorEvent} */ event) => {
    event.preventDefault();
    thrown.push(event.error.message);
  };
  addEventListener("error", catcher);
  const ends = [
    effect(() => {
      b.value = a.value + 1;
    }),
    effect(() => {
      a.value = b.value + 1;
    }),
  ];
  await nextTask();
  removeEventListener("error", catcher);
  for (const end of ends) end();
  assertEqual(thrown, ["effects trigger each other endlessly"]);
});

Deno.test("a computed value ends with its effect, and is right for those who still read it", async () => {
  const n = signal(1);
  /** @type {{readonly value: number}} */ let double = signal(0);
  const dispose = effect(() => {
    double = computed(() => n.value * 2);
    void double.value;
  });
  /** @type {number[]} */ const seen = [];
  const other = double;
  effect(() => {
    seen.push(other.value);
  });
  dispose();
  n.value = 2;
  await nextTask();
  assertEqual(seen, [2, 4]); // another effect reads it
  const alone = signal(1);
  const end = effect(() => {
    double = computed(() => alone.value * 3);
    void double.value;
  });
  end();
  alone.value = 5;
  assertEqual(double.value, 15);
});
