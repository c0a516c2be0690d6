import assert from "node:assert/strict";
import fc from "fast-check";
import { type EgressClient, MAX_SLICE_CLIENTS } from "../../../lib/api/mod.ts";
import { type LiveSlice, planSlices } from "./slice_plan.ts";

function client(n: number, address?: string): EgressClient {
  return {
    namespace: "team",
    name: `pod-${n}`,
    uid: `u${n}`,
    nodeName: `node${n % 7}`,
    ...(address !== undefined && { addresses: [address] }),
  };
}

const range = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => client(from + i));

const wantedOf = (clients: readonly EgressClient[]) =>
  new Map(clients.map((c) => [c.uid, c]));

const slice = (number: number, clients: readonly EgressClient[]) => ({
  number,
  clients,
});

/** The slices after the first so many steps of the plan. */
function after(
  live: readonly LiveSlice[],
  plan: ReturnType<typeof planSlices>,
  steps = Infinity,
): LiveSlice[] {
  const slices = new Map(live.map(({ number, clients }) => [number, clients]));
  for (const { number, clients } of plan.writes) {
    if (steps-- > 0) slices.set(number, clients);
  }
  for (const number of plan.deletes) if (steps-- > 0) slices.delete(number);
  return [...slices].map(([number, clients]) => slice(number, clients));
}

const uidsOf = (slices: readonly LiveSlice[]) =>
  slices.flatMap(({ clients }) => clients.map(({ uid }) => uid));

const hasFirst = (slices: readonly LiveSlice[]) =>
  slices.some(({ number }) => number === 0);

/** What makes it right that several plan at once: a client only leaves a slice when the same plan has written it into a lower one. */
function assertMovesDown(
  wanted: ReadonlyMap<string, EgressClient>,
  { live, plan }: {
    readonly live: readonly LiveSlice[];
    readonly plan: ReturnType<typeof planSlices>;
  },
): void {
  const writtenTo = new Map<string, number>();
  for (const { number, clients } of plan.writes) {
    const uids = new Set(uidsOf([{ number, clients }]));
    const before = live.filter((slice) => slice.number === number);
    for (const uid of uidsOf(before)) {
      if (!wanted.has(uid) || uids.has(uid)) continue;
      const lower = writtenTo.get(uid) ?? Infinity;
      assert.ok(lower < number, `${uid} leaves ${number} for ${lower}`);
    }
    for (const uid of uids) writtenTo.set(uid, number);
  }
}

Deno.test("planSlices() fills slices of a hundred, and leaves them alone", () => {
  const clients = range(0, 250);
  const plan = planSlices(wantedOf(clients), []);
  assert.deepEqual(
    plan.writes.map((w) => [w.number, w.clients.length]),
    [[2, 50], [1, 100], [0, 100]],
  );
  const live = after([], plan);
  assert.deepEqual(planSlices(wantedOf(clients), live), {
    writes: [],
    deletes: [],
  });
});

Deno.test("planSlices() writes one slice for a client that comes, changes or goes", () => {
  const clients = range(0, 150);
  const live = after([], planSlices(wantedOf(clients), []));
  const come = planSlices(wantedOf([...clients, client(150)]), live);
  assert.deepEqual(come.writes.map(({ number }) => number), [1]);
  const changed = clients.with(7, client(7, "10.1.1.7"));
  const change = planSlices(wantedOf(changed), live);
  assert.deepEqual(change.writes.map(({ number }) => number), [0]);
  const gone = planSlices(wantedOf(clients.toSpliced(7, 1)), live);
  assert.deepEqual(gone.writes.map(({ number }) => number), [0]);
  // The room of who goes is taken by who comes, in one write.
  const swap = clients.toSpliced(7, 1, client(200));
  const swapped = planSlices(wantedOf(swap), live);
  assert.deepEqual(swapped.writes.map(({ number }) => number), [0]);
});

Deno.test("planSlices() puts a new client into the fullest slice that has room", () => {
  const live = [[0, 10], [1, 100], [2, 90]].map(([number = 0, count = 0]) =>
    slice(number, range(number * 100, number * 100 + count))
  );
  const clients = live.flatMap(({ clients }) => clients);
  const plan = planSlices(wantedOf([...clients, client(999)]), live);
  assert.deepEqual(plan.writes.map(({ number }) => number), [2]);
});

Deno.test("planSlices() writes damaged slices, and removes clients that are listed twice or are not wanted", () => {
  const [a, b, c, stranger] = range(0, 4) as [
    ...[EgressClient, EgressClient, EgressClient, EgressClient],
  ];
  const wanted = wantedOf([a, b, c]);
  const damaged = [{ number: 0, clients: [a, b, c], isDamaged: true }];
  assert.deepEqual(planSlices(wanted, damaged).writes, [
    slice(0, [a, b, c]),
  ]);
  const odd = [slice(0, [a, b, stranger]), slice(3, [b, c])];
  assert.deepEqual(planSlices(wanted, odd).writes, [
    slice(0, [a, b]),
    slice(3, [c]),
  ]);
});

Deno.test("planSlices() writes the lower one of two slices that have a client, before the other loses it", () => {
  const [a, b] = range(0, 2) as [EgressClient, EgressClient];
  const live = [slice(2, [a, b]), slice(1, [a]), slice(0, [])];
  assert.deepEqual(planSlices(wantedOf([a, b]), live).writes, [
    slice(1, [a]),
    slice(2, [b]),
  ]);
});

Deno.test("planSlices() makes the first slice always, after all others", () => {
  assert.deepEqual(planSlices(wantedOf([]), []), {
    writes: [slice(0, [])],
    deletes: [],
  });
  const clients = range(0, 250);
  const live = after([], planSlices(wantedOf(clients), []));
  const numbers = (of: readonly LiveSlice[], wanted = clients) =>
    planSlices(wantedOf(wanted), of).writes.map(({ number }) => number);
  assert.deepEqual(numbers(live.filter(({ number }) => number !== 0)), [0]);
  // Also when all clients are in others.
  const rest = clients.slice(100);
  assert.deepEqual(
    numbers(live.filter(({ number }) => number !== 0), rest),
    [0],
  );
  // A leader that ended in the middle has made the last ones.
  assert.deepEqual(numbers(live.filter(({ number }) => number === 2)), [
    2,
    1,
    0,
  ]);
});

Deno.test("planSlices() has 10,000 clients in at most 200 slices, and writes one for each change", () => {
  const clients = range(0, 10_000);
  let wanted = wantedOf(clients);
  let live = after([], planSlices(wanted, []));
  assert.equal(live.length, 100);
  let next = clients.length;
  for (let step = 1; step <= 20; step++) {
    // A third of them goes and comes again, here and there.
    const stay = [...wanted.values()].filter((_, i) => (i + step) % 3 !== 0);
    const come = range(next, next += clients.length - stay.length);
    for (const set of [stay, [...stay, ...come]]) {
      wanted = wantedOf(set);
      live = after(live, planSlices(wanted, live));
      assert.ok(live.length <= 200, `${live.length} slices`);
    }
    const changed = { ...come[0] as EgressClient, addresses: ["10.1.1.1"] };
    wanted.set(changed.uid, changed);
    const { writes, deletes } = planSlices(wanted, live);
    assert.deepEqual([writes.length, deletes], [1, []]);
    live = after(live, { writes, deletes });
  }
  assert.equal(new Set(uidsOf(live)).size, 10_000);
  const few = live.flatMap(({ clients }) => clients.slice(0, 40));
  while (live.length > 80) {
    const plan = planSlices(wantedOf(few), live);
    assert.notEqual(plan.writes.length + plan.deletes.length, 0);
    live = after(live, plan);
  }
});

Deno.test("planSlices() empties slices before it deletes them, and keeps one", () => {
  const live = [slice(0, [client(0)]), slice(1, []), slice(2, [])];
  assert.deepEqual(planSlices(wantedOf([client(0)]), live), {
    writes: [],
    deletes: [2],
  });
  assert.deepEqual(planSlices(wantedOf([]), live), {
    writes: [slice(0, [])],
    deletes: [1, 2],
  });
});

Deno.test("planSlices() moves clients together, and no step of it loses one", () => {
  const live = Array.from(
    { length: 6 },
    (_, n) => slice(n, range(n * 100, n * 100 + 10 + n)),
  );
  const clients = live.flatMap(({ clients }) => clients);
  const plan = planSlices(wantedOf(clients), live);
  for (let steps = 0; steps <= plan.writes.length; steps++) {
    const uids = new Set(uidsOf(after(live, plan, steps)));
    assert.equal(uids.size, clients.length, `after ${steps} writes`);
  }
  const result = after(live, plan).filter(({ clients }) => clients.length > 0);
  assert.deepEqual(result.map(({ clients }) => clients.length), [75]);
});

Deno.test("planSlices(): from any slices to any clients, each once, in full slices, with nothing to do after", () => {
  const anyClient = fc.tuple(fc.nat(400), fc.boolean())
    .map(([n, has]) =>
      client(n, has ? `10.0.${n >> 8}.${n & 255}` : undefined)
    );
  const anyLive = fc.uniqueArray(
    fc.record({
      number: fc.nat(9),
      clients: fc.uniqueArray(anyClient, {
        maxLength: MAX_SLICE_CLIENTS,
        selector: ({ uid }) => uid,
      }),
      isDamaged: fc.boolean(),
    }),
    { selector: ({ number }) => number, maxLength: 8 },
  );
  fc.assert(fc.property(
    fc.array(anyClient, { maxLength: 300 }),
    anyLive,
    (clients, before) => {
      const wanted = wantedOf(clients);
      const stay = new Set(uidsOf(before).filter((uid) => wanted.has(uid)));
      let live: LiveSlice[] = before;
      for (let round = 0;; round++) {
        const plan = planSlices(wanted, live);
        if (plan.writes.length + plan.deletes.length === 0) break;
        assert.ok(round < 4, "it never ends");
        assertMovesDown(wanted, { live, plan });
        for (let steps = 0; steps <= plan.writes.length; steps++) {
          const there = after(live, plan, steps);
          const uids = new Set(uidsOf(there));
          for (const uid of stay) assert.ok(uids.has(uid), `${uid} is lost`);
          if (hasFirst(live) || !hasFirst(there)) continue;
          for (const uid of wanted.keys()) {
            assert.ok(uids.has(uid), `no ${uid}`);
          }
        }
        for (const number of plan.deletes) {
          const slice = live.find((s) => s.number === number);
          assert.deepEqual(slice?.clients, []);
        }
        live = after(live, plan);
      }
      assert.ok(hasFirst(live));
      const uids = uidsOf(live);
      assert.equal(uids.length, wanted.size);
      assert.deepEqual(new Set(uids), new Set(wanted.keys()));
      for (const { clients } of live) {
        assert.ok(clients.length <= MAX_SLICE_CLIENTS);
        for (const c of clients) assert.deepEqual(c, wanted.get(c.uid));
      }
      const filled = live.filter(({ clients }) => clients.length > 0).length;
      assert.ok(filled <= 2 * Math.ceil(wanted.size / MAX_SLICE_CLIENTS));
      assert.ok(live.length - filled <= 1);
    },
  ));
});
