// @ts-check
/** Tests of the reactive core that need no page; `html` and `each` are tested in a browser. */

import { computed, effect, signal } from "../../src/gristmill/doors/ui/static/js/core.js";

/** @param {unknown} got @param {unknown} wanted */
function equal(got, wanted) {
  const [a, b] = [got, wanted].map((one) => JSON.stringify(one));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}
const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

Deno.test("an effect runs again after what it read changed, once for many changes", async () => {
  const [a, b] = [signal(1), signal(2)];
  /** @type {number[]} */ const seen = [];
  effect(() => {
    seen.push(a.value + b.value);
  });
  a.value = 10;
  b.value = 20;
  equal(seen, [3]);
  await settled();
  equal(seen, [3, 30]);
});

Deno.test("an equal value wakes nobody", async () => {
  const a = signal("x");
  let runs = 0;
  effect(() => {
    void a.value;
    runs++;
  });
  a.value = "x";
  await settled();
  equal(runs, 1);
});

Deno.test("a computed value is made when it is asked for, and only when something changed", () => {
  const a = signal(2);
  let made = 0;
  const double = computed(() => {
    made++;
    return a.value * 2;
  });
  equal(made, 0);
  equal([double.value, double.value, made], [4, 4, 1]);
  a.value = 3;
  equal([double.peek(), made], [6, 2]);
});

Deno.test("an effect does not run when a computed value came out the same", async () => {
  const n = signal(1);
  const odd = computed(() => n.value % 2 === 1);
  let runs = 0;
  effect(() => {
    void odd.value;
    runs++;
  });
  n.value = 3;
  await settled();
  equal(runs, 1);
  n.value = 4;
  await settled();
  equal(runs, 2);
});

Deno.test("a diamond is seen whole, never half", async () => {
  const n = signal(1);
  const left = computed(() => n.value + 1);
  const right = computed(() => n.value * 10);
  /** @type {string[]} */ const seen = [];
  effect(() => {
    seen.push(`${left.value} ${right.value}`);
  });
  n.value = 2;
  await settled();
  equal(seen, ["2 10", "3 20"]);
});

Deno.test("what is read only in one branch is forgotten in the other", async () => {
  const [which, a] = [signal(true), signal(0)];
  let runs = 0;
  effect(() => {
    runs++;
    if (which.value) void a.value;
  });
  which.value = false;
  await settled();
  a.value = 5;
  await settled();
  equal(runs, 2);
});

Deno.test("an effect ends with the one that made it, and cleans up", async () => {
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
  await settled();
  inner.value = 1;
  await settled();
  end();
  inner.value = 2;
  await settled();
  equal(log, ["run 0.0", "end 0", "run 1.0", "end 1", "run 1.1", "end 1"]);
});

Deno.test("what `react` reads wakes nobody", async () => {
  const [watched, other] = [signal(1), signal(1)];
  /** @type {number[]} */ const seen = [];
  effect(
    () => watched.value,
    (value) => {
      seen.push(value + other.value);
    },
  );
  other.value = 5;
  await settled();
  watched.value = 2;
  await settled();
  equal(seen, [2, 7]);
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
    await settled();
    equal([reported, runs], [["broken"], 2]);
  } finally {
    globalThis.reportError = before;
  }
});

Deno.test("effects that wake each other for ever are stopped", async () => {
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
  await settled();
  removeEventListener("error", catcher);
  for (const end of ends) end();
  equal(thrown, ["effects wake each other without end"]);
});
