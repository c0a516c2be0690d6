import assert from "node:assert/strict";
import { sleep } from "../../../lib/async/mod.ts";
import { FakeClock } from "../../../lib/async/testing.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { EgressTokens } from "./announce_tokens.ts";

const signal = new AbortController().signal;
const POD_EXTRA = {
  "authentication.kubernetes.io/pod-name": ["coild-x"],
  "authentication.kubernetes.io/pod-uid": ["u1"],
};
const INTERNET = { namespace: "nat", name: "internet" };
const MINUTE_MS = 60_000;

function fixture(
  { extra = POD_EXTRA, expirationSeconds = 3_600 }: {
    readonly extra?: Record<string, string[]>;
    readonly expirationSeconds?: number;
  } = {},
) {
  const clock = new FakeClock();
  const state = {
    status: 201,
    /** What the API server waits for before it answers. */
    gate: Promise.resolve(),
  };
  const asked: { path: string; spec: Record<string, unknown> }[] = [];
  const transport = new FakeTransport(async ({ path, body }) => {
    if (path.endsWith("selfsubjectreviews")) {
      const username = "system:serviceaccount:kube-system:coild";
      return {
        status: 201,
        body: { status: { userInfo: { username, extra } } },
      };
    }
    const { spec } = JSON.parse(String(body));
    asked.push({ path, spec });
    const number = asked.length;
    await state.gate;
    if (state.status !== 201) {
      return { status: state.status, body: { kind: "Status" } };
    }
    return {
      status: 201,
      body: {
        spec: { ...spec, expirationSeconds },
        status: { token: `t${number}.${spec.audiences[0]}` },
      },
    };
  });
  const tokens = new EgressTokens({
    client: new KubeClient(transport),
    clock,
    random: () => 0,
  });
  return {
    tokens,
    asked,
    state,
    pass: (ms: number) => clock.advance(ms),
    token: (egress = INTERNET) => tokens.token(egress, { signal }),
  };
}

Deno.test("EgressTokens asks for a token of its own pod, for one Egress, and keeps it", async () => {
  const { token, asked } = fixture();
  const [first, second] = await Promise.all([token(), token()]);
  assert.equal(first, "t1.coil-egress/nat/internet");
  assert.equal(second, first);
  assert.equal(await token(), first);
  assert.deepEqual(asked, [{
    path: "/api/v1/namespaces/kube-system/serviceaccounts/coild/token",
    spec: {
      audiences: ["coil-egress/nat/internet"],
      expirationSeconds: 3_600,
      boundObjectRef: {
        apiVersion: "v1",
        kind: "Pod",
        name: "coild-x",
        uid: "u1",
      },
    },
  }]);
  assert.equal(
    await token({ namespace: "nat", name: "dmz" }),
    "t2.coil-egress/nat/dmz",
  );
});

Deno.test("EgressTokens renews a token in use apart from those who need it, and forgets the others", async () => {
  const { tokens, token, asked, pass } = fixture();
  await token();
  await pass(29 * MINUTE_MS);
  await tokens.renew(signal);
  assert.equal(asked.length, 1);
  await pass(MINUTE_MS);
  await tokens.renew(signal);
  assert.equal(asked.length, 2);
  assert.match(await token() ?? "", /^t2/);
  for (let i = 0; i < 5; i++) {
    await pass(29.5 * MINUTE_MS);
    await tokens.renew(signal);
  }
  // Used at 30 min: renewed at 60 min, and not after 90.
  assert.ok(asked.length <= 4, `${asked.length}`);
  const before = asked.length;
  await token();
  assert.equal(asked.length, before + 1);
});

Deno.test("EgressTokens keeps tokens of 1,024 Egresses, those used last", async () => {
  const { token, asked } = fixture();
  const egress = (n: number) => ({ namespace: "nat", name: `e${n}` });
  for (let n = 0; n < 1_024; n++) await token(egress(n));
  await token(egress(0));
  await token(egress(1_024));
  assert.equal(asked.length, 1_025);
  await token(egress(0));
  assert.equal(asked.length, 1_025, "used lately");
  await token(egress(1));
  assert.equal(asked.length, 1_026, "the oldest went");
});

Deno.test("EgressTokens stops renewing at its signal", async () => {
  const { tokens, token, asked, pass } = fixture();
  await token();
  await token({ namespace: "nat", name: "dmz" });
  await pass(40 * MINUTE_MS);
  await tokens.renew(AbortSignal.abort());
  assert.equal(asked.length, 2);
});

Deno.test("EgressTokens shows no token that is about to end, with any lifetime from the API server", async () => {
  const { token, asked, pass } = fixture({ expirationSeconds: 600 });
  await token();
  await pass(9 * MINUTE_MS);
  await token();
  assert.equal(asked.length, 1);
  await pass(MINUTE_MS / 2);
  assert.match(await token() ?? "", /^t2/);
});

Deno.test("EgressTokens asks once in ten seconds while it is refused, and keeps what it has", async () => {
  const { tokens, token, asked, state, pass } = fixture();
  state.status = 403;
  for (let i = 0; i < 5; i++) assert.equal(await token(), undefined);
  assert.equal(asked.length, 1);
  state.status = 201;
  await pass(10_000);
  assert.match(await token() ?? "", /^t2/);
  state.status = 500;
  await pass(40 * MINUTE_MS);
  await tokens.renew(signal);
  assert.equal(asked.length, 3);
  assert.match(await token() ?? "", /^t2/);
});

Deno.test("EgressTokens replaces a refused token, but not for a gateway that refuses new ones too", async () => {
  const { tokens, token, asked, pass } = fixture();
  const first = await token() ?? "";
  tokens.refused(INTERNET, first);
  assert.equal(await token(), first);
  await pass(MINUTE_MS);
  tokens.refused(INTERNET, "another");
  assert.equal(await token(), first);
  tokens.refused(INTERNET, first);
  assert.match(await token() ?? "", /^t2/);
  assert.equal(asked.length, 2);
});

Deno.test("EgressTokens asks for nothing with a token that is of no pod", async () => {
  const { token, asked } = fixture({ extra: {} });
  assert.equal(await token(), undefined);
  assert.equal(asked.length, 0);
});

Deno.test("EgressTokens costs one caller its time limit while the API server hangs, not each", async () => {
  const { tokens, token, asked, state } = fixture();
  const answer = Promise.withResolvers<void>();
  state.gate = answer.promise;
  await assert.rejects(
    tokens.token(INTERNET, { signal: AbortSignal.timeout(20) }),
    { name: "TimeoutError" },
  );
  // Would wait for ever: the API server has not answered.
  assert.equal(await token(), undefined);
  assert.equal(asked.length, 1);
  answer.resolve();
  await sleep(0);
  assert.match(await token() ?? "", /^t1/);
  assert.equal(asked.length, 1);
});

Deno.test("EgressTokens renews by itself until its signal", async () => {
  const { tokens, token, asked, pass } = fixture();
  const stop = new AbortController();
  const running = tokens.run(stop.signal);
  await token();
  // From half of its life on it is due, and looked at every half minute.
  await pass(31 * MINUTE_MS);
  assert.equal(asked.length, 2);
  stop.abort();
  await assert.rejects(running, { name: "AbortError" });
});
