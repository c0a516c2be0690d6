import assert from "node:assert/strict";
import { FreshRun, Gate } from "../mod.ts";
import { settle } from "../testing.ts";

Deno.test("FreshRun.do() joins a run that has not begun, and never one that has", async () => {
  const gates: Gate[] = [];
  const runs = new FreshRun(async () => {
    const gate = new Gate();
    const count = gates.push(gate);
    await gate.wait();
    return count;
  });
  const first = [runs.do(), runs.do()];
  await settle();
  assert.equal(gates.length, 1);
  const second = [runs.do(), runs.do()];
  await settle();
  assert.equal(gates.length, 1, "one at a time");
  gates[0]?.open();
  assert.deepEqual(await Promise.all(first), [1, 1]);
  await settle();
  gates[1]?.open();
  assert.deepEqual(await Promise.all(second), [2, 2]);
});

Deno.test("FreshRun.do() fails for those who share the run, and not for the next", async () => {
  let runs = 0;
  const fresh = new FreshRun(() =>
    runs++ === 0 ? Promise.reject(new Error("no")) : Promise.resolve("yes")
  );
  const first = [fresh.do(), fresh.do()];
  await Promise.all(first.map((one) => assert.rejects(one, /no/)));
  assert.equal(await fresh.do(), "yes");
});

Deno.test("FreshRun rests before each run; who comes in the rest joins the run", async () => {
  const rest = new Gate();
  let runs = 0;
  const fresh = new FreshRun(() => Promise.resolve(++runs), () => rest.wait());
  const first = fresh.do();
  await settle();
  const second = fresh.do();
  assert.equal(runs, 0);
  rest.open();
  assert.deepEqual(await Promise.all([first, second]), [1, 1]);
});

Deno.test("FreshRun.do() fails for those whose rest failed, and not for the next", async () => {
  let rests = 0;
  const fresh = new FreshRun(
    () => Promise.resolve("yes"),
    async () => {
      if (rests++ === 0) throw new Error("no");
    },
  );
  const first = [fresh.do(), fresh.do()];
  await Promise.all(first.map((one) => assert.rejects(one, /no/)));
  assert.equal(await fresh.do(), "yes");
});
