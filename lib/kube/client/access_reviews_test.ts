import assert from "node:assert/strict";
import { AccessReviews } from "./access_reviews.ts";
import type { KubeClient } from "./client.ts";

/** An API server that knows "good" and "other", of whom one may. */
function setUp() {
  const asked: string[] = [];
  let nowMs = 0;
  const create = (type: { plural: string }, body: unknown) => {
    const { spec } = body as { spec: Record<string, unknown> };
    asked.push(type.plural);
    const token = spec["token"];
    return Promise.resolve({
      status: type.plural === "tokenreviews"
        ? {
          authenticated: token === "good" || token === "other",
          user: { username: token, groups: ["g"] },
        }
        : { allowed: spec["user"] === "good" },
    });
  };
  const client = { create } as unknown as Pick<KubeClient, "create">;
  const reviews = new AccessReviews(client, {
    path: "/metrics",
    nowMs: () => nowMs,
  });
  const ask = async (authorization?: string, peer = "192.0.2.1") => {
    const headers = authorization === undefined ? {} : { authorization };
    const request = new Request("http://x/metrics", { headers });
    return (await reviews.refusal(request, peer))?.status ?? 200;
  };
  return { ask, asked, pass: (ms: number) => nowMs += ms };
}

Deno.test("AccessReviews lets in who may get the path, asks once a minute, and others not at all", async () => {
  const { ask, asked, pass } = setUp();
  assert.equal(await ask(), 401);
  assert.equal(await ask("Basic good"), 401);
  assert.deepEqual(asked, []);
  assert.equal(await ask("Bearer good"), 200);
  assert.equal(await ask("Bearer good"), 200);
  assert.deepEqual(asked, ["tokenreviews", "subjectaccessreviews"]);
  pass(60_001);
  assert.equal(await ask("Bearer good"), 200);
  assert.equal(asked.length, 4);
  assert.equal(await ask("Bearer other"), 403);
  assert.equal(await ask("Bearer nobody"), 401);
});

Deno.test("AccessReviews does not ask for each of a flood of tokens, and knows known ones all the time", async () => {
  const { ask, asked, pass } = setUp();
  await ask("Bearer good");
  const statuses: number[] = [];
  for (let n = 0; n < 100; n++) {
    statuses.push(await ask(`Bearer x${n}`, `192.0.2.${n}`));
  }
  assert.equal(statuses.filter((status) => status === 429).length, 81);
  assert.equal(asked.length, 2 + 19);
  assert.equal(await ask("Bearer good"), 200);
  pass(1_000);
  assert.equal(await ask("Bearer y"), 401);
});
