import assert from "node:assert/strict";
import {
  KubeApiError,
  KubeClient,
  TooManyTokensError,
} from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { TokenReviews } from "./token_reviews.ts";

const NODE = "10.0.0.1";
const AUDIENCE = "coil-egress/nat/internet";
const NODE_NAME = "authentication.kubernetes.io/node-name";
const GOOD = {
  authenticated: true,
  audiences: [AUDIENCE],
  user: { username: "coild", extra: { [NODE_NAME]: ["node1"] } },
};

function fixture(status: unknown = GOOD, httpStatus = 201) {
  let nowMs = 0;
  const world = { status };
  const transport = new FakeTransport(() => ({
    status: httpStatus,
    body: { status: world.status },
  }));
  const reviews = new TokenReviews(new KubeClient(transport), {
    audience: AUDIENCE,
    user: "coild",
    nowMs: () => nowMs,
  });
  return {
    reviews,
    world,
    requests: transport.requests,
    pass: (ms: number) => nowMs += ms,
  };
}

Deno.test("TokenReviews asks with the audience and returns user and node", async () => {
  const { reviews, requests } = fixture();
  assert.deepEqual(await reviews.callerOf("t1", NODE), {
    username: "coild",
    nodeName: "node1",
  });
  const [request] = requests;
  assert.equal(request?.path, "/apis/authentication.k8s.io/v1/tokenreviews");
  assert.deepEqual(JSON.parse(String(request?.body)).spec, {
    token: "t1",
    audiences: [AUDIENCE],
  });
});

for (
  const [what, status] of [
    ["nobody's", { authenticated: false }],
    ["for the API server itself", { ...GOOD, audiences: [] }],
    ["for another audience", { ...GOOD, audiences: ["vault"] }],
    ["for another Egress", {
      ...GOOD,
      audiences: ["coil-egress/other/internet"],
    }],
    ["answered without a user", { ...GOOD, user: {} }],
    ["answered without a status", undefined],
  ] as const
) {
  Deno.test(`TokenReviews takes no token that is ${what}`, async () => {
    const { reviews } = fixture(status ?? null);
    assert.equal(await reviews.callerOf("t1", NODE), undefined);
  });
}

Deno.test("TokenReviews remembers a good answer for a minute, a bad one for ten seconds", async () => {
  for (const [status, lifeMs] of [[GOOD, 60_000], [{}, 10_000]] as const) {
    const { reviews, requests, pass } = fixture(status);
    await Promise.all([
      reviews.callerOf("t1", NODE),
      reviews.callerOf("t1", NODE),
    ]);
    assert.equal(requests.length, 1, "asked once for both");
    pass(lifeMs - 1);
    await reviews.callerOf("t1", NODE);
    assert.equal(requests.length, 1);
    await reviews.callerOf("t2", NODE);
    assert.equal(requests.length, 2, "another token is another question");
    pass(1);
    await reviews.callerOf("t1", NODE);
    assert.equal(requests.length, 3);
  }
});

Deno.test("TokenReviews does not remember that the API server failed", async () => {
  const { reviews, requests } = fixture(GOOD, 403);
  for (let n = 1; n <= 2; n++) {
    await assert.rejects(reviews.callerOf("t1", NODE), KubeApiError);
    assert.equal(requests.length, n);
  }
});

Deno.test("TokenReviews limits valid tokens of others, and keeps coild's", async () => {
  const { reviews, requests, pass, world } = fixture();
  await reviews.callerOf("ours", NODE);
  world.status = { ...GOOD, user: { username: "stranger" } };
  for (let n = 0; n < 500; n++) {
    await reviews.callerOf(`t${n}`, "192.0.2.66").catch(() => {});
  }
  assert.equal(requests.length, 1 + 20);
  pass(60_000);
  for (let n = 0; n < 500; n++) {
    await reviews.callerOf(`t${n}`, "192.0.2.66").catch(() => {});
  }
  assert.equal(requests.length, 1 + 20 + 20);
  world.status = GOOD;
  assert.equal((await reviews.callerOf("ours", NODE))?.username, "coild");
});

Deno.test("TokenReviews spares the API server when strangers send token after token", async () => {
  const { reviews, requests, pass } = fixture();
  await reviews.callerOf("ours", NODE);
  const flood = Array.from(
    { length: 500 },
    (_, n) =>
      reviews.callerOf(`t${n}`, `192.0.2.${n}`).then(
        () => "asked",
        (err) => err,
      ),
  );
  const outcomes = await Promise.all(flood);
  assert.equal(requests.length, 100);
  // Which of them is a matter of chance: digests are made by several threads.
  const refused = outcomes.filter((o) => o instanceof TooManyTokensError);
  assert.equal(refused.length, 401);
  assert.equal((await reviews.callerOf("ours", NODE))?.username, "coild");
  pass(50);
  await reviews.callerOf("later", NODE);
  assert.equal(requests.length, 101);
});
