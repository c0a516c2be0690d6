import assert from "node:assert/strict";
import {
  ANNOUNCE_PATH,
  announceHandler,
  type AnnounceHandlerOptions,
  type Announcement,
  formatAnnouncement,
  LOSSES_PATH,
  parseAnnouncement,
  parseRefusal,
  SOURCES_PATH,
} from "./mod.ts";

const TEXT = JSON.stringify({
  egress: { namespace: "nat", name: "internet" },
  pod: { namespace: "team", name: "client-0", uid: "8d2a" },
  addresses: ["10.1.1.2"],
});

const OPEN: AnnounceHandlerOptions = {
  authenticate: () => Promise.resolve({ username: "coild", nodeName: "n1" }),
  admit: () => Promise.resolve({ status: 204 }),
  takeLosses: () => ({ status: 204 }),
  takeSources: () => ({ status: 204 }),
};

const PEER = "192.0.2.1";

function request(
  init: RequestInit & { readonly path?: string } = {},
): Request {
  const { path = ANNOUNCE_PATH, ...rest } = init;
  return new Request(`http://gateway${path}`, {
    method: "POST",
    headers: { authorization: "Bearer a.b-c_d==" },
    body: TEXT,
    ...rest,
  });
}

async function refusal(
  response: Response,
): Promise<{ status: number; reason: string }> {
  const text = await response.text();
  return { status: response.status, reason: parseRefusal(text) };
}

Deno.test("announceHandler() hands token, caller and announcement on and answers 204", async () => {
  const seen: { token?: string; caller?: unknown; told?: Announcement } = {};
  const statuses: number[] = [];
  const handle = announceHandler({
    ...OPEN,
    authenticate: (token, peer) => {
      assert.equal(peer, PEER);
      seen.token = token;
      return Promise.resolve({ username: "coild", nodeName: "n1" });
    },
    admit: (told, { caller }) => {
      Object.assign(seen, { told, caller });
      return Promise.resolve({ status: 204 });
    },
    onAnswer: (status) => statuses.push(status),
  });
  const response = await handle(request(), PEER);
  assert.equal(response.status, 204);
  assert.equal(await response.text(), "");
  assert.equal(seen.token, "a.b-c_d==");
  assert.deepEqual(seen.caller, { username: "coild", nodeName: "n1" });
  assert.ok(seen.told);
  assert.equal(formatAnnouncement(seen.told), TEXT);
  assert.deepEqual(seen.told, parseAnnouncement(TEXT));
  assert.deepEqual(statuses, [204]);
});

Deno.test("announceHandler() asks nobody about a request that is none", async () => {
  const handle = announceHandler({
    ...OPEN,
    authenticate: () => assert.fail("asked about the token"),
    admit: () => assert.fail("asked about the client"),
  });
  for (
    const [wrong, status] of [
      [request({ path: "/" }), 404],
      [request({ method: "PUT" }), 405],
      [request({ headers: {} }), 401],
      [request({ headers: { authorization: "Basic YTpi" } }), 401],
      [request({ headers: { authorization: "Bearer " } }), 401],
      [request({ headers: { authorization: "Bearer a b" } }), 401],
    ] as const
  ) {
    assert.equal((await refusal(await handle(wrong, PEER))).status, status);
  }
});

Deno.test("announceHandler() does not read what a stranger sends", async () => {
  const handle = announceHandler({
    ...OPEN,
    authenticate: () => Promise.resolve(undefined),
    admit: () => assert.fail("asked about the client"),
  });
  const wrong = request({ body: "no announcement" });
  assert.equal((await handle(wrong, PEER)).status, 401);
  assert.equal(wrong.bodyUsed, false);
});

Deno.test("announceHandler() answers 400 with the reason, also to a body without end", async () => {
  const handle = announceHandler({
    ...OPEN,
    admit: () => assert.fail("asked about the client"),
  });
  const broken = await refusal(await handle(request({ body: "{}" }), PEER));
  assert.equal(broken.status, 400);
  assert.match(broken.reason, /"egress" must be an object/);
  let pulled = 0;
  const endless = new ReadableStream({
    pull(controller) {
      pulled++;
      controller.enqueue(new Uint8Array(4_096));
    },
  });
  assert.equal((await handle(request({ body: endless }), PEER)).status, 400);
  assert.ok(pulled < 10, `read ${pulled} chunks`);
});

Deno.test("announceHandler() passes the verdict on with its reason", async () => {
  for (const status of [403, 404, 503] as const) {
    const reason = `because of ${status}`;
    const handle = announceHandler({
      ...OPEN,
      admit: () => Promise.resolve({ status, reason }),
    });
    const answer = await handle(request(), PEER);
    assert.equal(answer.headers.get("content-type"), "application/json");
    assert.deepEqual(await refusal(answer), { status, reason });
  }
});

Deno.test("announceHandler() answers 503 without details when it cannot find out", async () => {
  const fail = () => Promise.reject(new Error("API server at 10.0.0.1 is out"));
  for (const parts of [{ authenticate: fail }, { admit: fail }]) {
    const handle = announceHandler({ ...OPEN, ...parts });
    const { status, reason } = await refusal(await handle(request(), PEER));
    assert.equal(status, 503);
    assert.doesNotMatch(reason, /10\.0\.0\.1/);
  }
});

Deno.test("announceHandler() answers 503 when the decision fails like a parser: the message could be read", async () => {
  const fail = () => Promise.reject(new SyntaxError("not JSON of 10.0.0.1"));
  const handle = announceHandler({ ...OPEN, admit: fail });
  const { status, reason } = await refusal(await handle(request(), PEER));
  assert.equal(status, 503);
  assert.doesNotMatch(reason, /10\.0\.0\.1/);
});

Deno.test("announceHandler() hands a report of lost gateways and its sender on", async () => {
  const report = {
    egress: { namespace: "nat", name: "internet" },
    losses: [{ gateway: "10.1.9.9", seconds: 3, ended: 12 }],
  };
  const seen: unknown[] = [];
  const handle = announceHandler({
    ...OPEN,
    admit: () => assert.fail("taken for an announcement"),
    takeLosses: ({ egress, losses }, { nodeName }) => {
      const texts = losses.map((each) => ({
        ...each,
        gateway: each.gateway.toString(),
      }));
      seen.push({ egress, losses: texts }, nodeName);
      return { status: 403, reason: "not here" };
    },
  });
  const send = (body: unknown) =>
    handle(request({ path: LOSSES_PATH, body: JSON.stringify(body) }), PEER);
  assert.deepEqual(await refusal(await send(report)), {
    status: 403,
    reason: "not here",
  });
  assert.deepEqual(seen, [report, "n1"]);
  // As long as a report can be.
  const [loss] = report.losses;
  const longest = { ...loss, gateway: `2001:db8${":ffff".repeat(6)}` };
  const suspects = Array(64).fill(longest.gateway);
  const long = { ...report, losses: Array(64).fill(longest), suspects };
  assert.ok(JSON.stringify(long).length > 7_000);
  assert.equal((await send({ ...long, more: "x".repeat(1_500) })).status, 403);
  const { status } = await send({ ...report, losses: [{ gateway: "x" }] });
  assert.equal(status, 400);
});

Deno.test("announceHandler() hands a report of translated sources and its sender on", async () => {
  const translated = [{
    source: "10.1.9.9",
    seenAs: "192.0.2.1",
    destination: "203.0.113.9",
  }];
  const report = { egress: { namespace: "nat", name: "internet" }, translated };
  const seen: unknown[] = [];
  const handle = announceHandler({
    ...OPEN,
    admit: () => assert.fail("taken for an announcement"),
    takeLosses: () => assert.fail("taken for a report of lost gateways"),
    takeSources: ({ egress, translated }, { nodeName }) => {
      const texts = translated.map((each) => each.seenAs.toString());
      seen.push(egress, texts, nodeName);
      return { status: 403, reason: "not here" };
    },
  });
  const send = (body: unknown) =>
    handle(request({ path: SOURCES_PATH, body: JSON.stringify(body) }), PEER);
  assert.deepEqual(await refusal(await send(report)), {
    status: 403,
    reason: "not here",
  });
  assert.deepEqual(seen, [report.egress, ["192.0.2.1"], "n1"]);
  const { status } = await send({ ...report, translated: ["x"] });
  assert.equal(status, 400);
});
