import assert from "node:assert/strict";
import { type Asked, longestGapMs, waitFigures } from "./waits.ts";

const WINDOW = { fromMs: 1_000, toMs: 2_000 };

function get(atMs: number, ms: number, status = 200): Asked {
  return { what: "get", atMs, ms, status };
}

Deno.test("longestGapMs() counts from answer to answer, the window's ends included", () => {
  assert.equal(longestGapMs([], WINDOW), 1_000);
  // The first answer comes late.
  assert.equal(longestGapMs([get(1_000, 600), get(1_700, 100)], WINDOW), 600);
  // The last one comes early.
  assert.equal(longestGapMs([get(1_000, 100)], WINDOW), 900);
  // One in the middle is missing.
  const around = [get(1_000, 300), get(1_600, 300)];
  assert.equal(longestGapMs(around, WINDOW), 600);
});

Deno.test("longestGapMs() takes no refusal for an answer", () => {
  const refused = [429, 403, 503, 0].map((s, i) => get(1_100 + 100 * i, 1, s));
  assert.equal(longestGapMs(refused, WINDOW), 1_000);
});

Deno.test("waitFigures() counts each way of failing apart, and only in the window", () => {
  const statuses = [200, 429, 429, 401, 403, 403, 500, 503, 504, 504, 0];
  const asked = [
    get(900, 1, 0),
    ...statuses.map((status, i) => get(1_000 + 10 * i, 5, status)),
    get(2_000, 1, 0),
    { ...get(1_500, 30), what: "renew" as const },
  ];
  const figures = waitFigures("after", asked, WINDOW);
  const maxOf = (name: string) => figures.find((f) => f.name === name)?.max;
  assert.deepEqual(
    ["after.none", "after.429", "after.401or403", "after.5xx"].map(maxOf),
    [1, 2, 3, 4],
  );
  assert.equal(maxOf("after.get.first"), 5);
  assert.equal(maxOf("after.get.gap"), 995);
  assert.equal(maxOf("after.renew.first"), 530);
  assert.equal(maxOf("after.renew"), 30);
});
