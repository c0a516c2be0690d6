import assert from "node:assert/strict";
import { KubeClient } from "./client.ts";
import { KubeApiError, KubeUnreachableError } from "../http/errors.ts";
import type { RequestInfo } from "../http/requester.ts";
import { NODES, PODS } from "../api/resource.ts";
import type { TransportRequest } from "../http/transport.ts";
import { type FakeAnswer, FakeTransport } from "../testing.ts";

function status(code: number, reason: string): FakeAnswer {
  const body = { kind: "Status", code, reason, message: `it is ${reason}` };
  return { status: code, body };
}

/** A client whose requests get these answers, one after the other; an error is thrown. */
function scripted(...answers: (FakeAnswer | Error)[]) {
  const infos: RequestInfo[] = [];
  const transport = new FakeTransport(() => {
    const answer = answers.shift();
    if (answer === undefined) throw new Error("one request too many");
    if (answer instanceof Error) throw answer;
    return answer;
  });
  const onRequest = (info: RequestInfo) => infos.push(info);
  const client = new KubeClient(transport, { onRequest, fieldManager: "me" });
  return { client, transport, infos };
}

const NODE = { metadata: { name: "n" } };

Deno.test("get() tries again what fails for now", async () => {
  const { client, infos } = scripted(
    new KubeUnreachableError("gone"),
    status(503, "ServiceUnavailable"),
    { body: NODE },
  );
  assert.deepEqual(await client.get(NODES, { name: "n" }), NODE);
  assert.deepEqual(infos.map((i) => i.code), ["<error>", "503", "200"]);
});

Deno.test("get() respects Retry-After, but does not wait longer than its timeout", async () => {
  const answer = {
    ...status(429, "TooManyRequests"),
    headers: { "retry-after": "9" },
  };
  const { client, transport } = scripted(answer);
  await assert.rejects(
    client.get(NODES, { name: "n", timeoutMs: 5_000 }),
    (err) => err instanceof KubeApiError && err.retryAfterMs === 9000,
  );
  assert.equal(transport.requests.length, 1);
});

Deno.test("an attempt gets what time is left, in whole milliseconds as messages say them", async () => {
  const given: number[] = [];
  const transport = new FakeTransport(() => status(503, "ServiceUnavailable"));
  const stream = transport.stream.bind(transport);
  Object.assign(transport, {
    request: async (
      request: TransportRequest,
      { timeoutMs }: { readonly timeoutMs: number },
    ) => {
      given.push(timeoutMs);
      return { ...await stream(request), body: "" };
    },
  });
  using client = new KubeClient(transport);
  await assert.rejects(client.get(NODES, { name: "n", timeoutMs: 5_000 }));
  assert.ok(given.length > 1 && given.every(Number.isInteger), `${given}`);
  assert.ok((given.at(-1) ?? Infinity) < 5_000, `${given}`);
});

Deno.test("create() is never sent twice", async () => {
  for (
    const failure of [
      new KubeUnreachableError("x"),
      status(500, "InternalError"),
    ]
  ) {
    const { client, transport } = scripted(failure);
    await assert.rejects(client.create(NODES, NODE));
    assert.equal(transport.requests.length, 1);
  }
});

Deno.test("every verb is sent once more with new credentials after 401", async () => {
  const { client, transport } = scripted(
    status(401, "Unauthorized"),
    { status: 201, body: NODE },
  );
  await client.create(NODES, NODE);
  assert.equal(transport.refreshes, 1);
  const refused = scripted(
    status(401, "Unauthorized"),
    status(401, "Unauthorized"),
  );
  await assert.rejects(
    refused.client.create(NODES, NODE),
    (err) => err instanceof KubeApiError && err.isUnauthorized,
  );
});

Deno.test("tryGet() gives undefined for 404 only", async () => {
  const { client } = scripted(
    status(404, "NotFound"),
    status(403, "Forbidden"),
  );
  assert.equal(await client.tryGet(NODES, { name: "n" }), undefined);
  await assert.rejects(
    client.tryGet(NODES, { name: "n" }),
    (err) => err instanceof KubeApiError && err.isForbidden,
  );
});

Deno.test("errors tell the action, the object and the server's words", async () => {
  const { client } = scripted(status(404, "NotFound"));
  await assert.rejects(
    client.get(PODS, { namespace: "a", name: "p" }),
    /Cannot get Pod "a\/p": API server answered 404: it is NotFound/,
  );
});

Deno.test("KubeApiError tells conflicts from objects that exist", async () => {
  const { client } = scripted(
    status(409, "Conflict"),
    status(409, "AlreadyExists"),
  );
  const kinds: [boolean, boolean][] = [];
  for (let n = 0; n < 2; n++) {
    await client.create(NODES, NODE).catch((err) => {
      assert.ok(err instanceof KubeApiError);
      kinds.push([err.isConflict, err.isAlreadyExists]);
    });
  }
  assert.deepEqual(kinds, [[true, false], [false, true]]);
});

Deno.test("listAll() follows pages and starts again when they expire", async () => {
  const page = (name: string, next: string) => ({
    body: {
      metadata: { resourceVersion: "5", continue: next },
      items: [{ metadata: { name } }],
    },
  });
  const { client, transport } = scripted(
    page("a", "t1"),
    page("b", "t2"),
    status(410, "Expired"),
    page("c", ""),
  );
  const { items } = await client.listAll(NODES, { limit: 1 });
  assert.deepEqual(items.map((i) => i.metadata?.name), ["c"]);
  assert.deepEqual(transport.requests.map((r) => r.path), [
    "/api/v1/nodes?limit=1",
    "/api/v1/nodes?limit=1&continue=t1",
    "/api/v1/nodes?limit=1&continue=t2",
    "/api/v1/nodes?limit=1",
  ]);
});

Deno.test("patch() sends each kind under its content type", async () => {
  const { client, transport } = scripted({ body: NODE }, { body: NODE }, {
    body: NODE,
  });
  const target = { name: "n" };
  await client.patch(NODES, target, { a: 1 }, { kind: "merge" });
  await client.patch(NODES, target, [], { kind: "json" });
  await client.patch(NODES, target, { spec: {} }, {
    kind: "apply",
    force: true,
  });
  assert.deepEqual(
    transport.requests.map((r) => [r.path, r.headers["content-type"], r.body]),
    [
      [
        "/api/v1/nodes/n?fieldManager=me",
        "application/merge-patch+json",
        '{"a":1}',
      ],
      ["/api/v1/nodes/n?fieldManager=me", "application/json-patch+json", "[]"],
      [
        "/api/v1/nodes/n?fieldManager=me&force=true",
        "application/apply-patch+yaml",
        '{"spec":{},"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}',
      ],
    ],
  );
});

Deno.test("a call ends with the signal's reason", async () => {
  const { client } = scripted(new KubeUnreachableError("x"));
  const controller = new AbortController();
  const call = client.get(NODES, { name: "n", signal: controller.signal });
  const reason = new Error("enough");
  setTimeout(() => controller.abort(reason), 10);
  await assert.rejects(call, reason);
});

Deno.test("what is not an API server's answer is none, neither an object nor an empty list", async () => {
  for (const body of ["<html>", "", '{"items":[{', "null", "5", "{}"]) {
    const list = scripted({ body });
    await assert.rejects(list.client.list(NODES), (error) => {
      assert.ok(error instanceof KubeUnreachableError);
      assert.match(error.message, /^Cannot read nodes: what answered is not/);
      return true;
    });
    if (body === "{}") continue;
    const { client } = scripted({ body });
    await assert.rejects(
      client.get(NODES, { name: "n" }),
      KubeUnreachableError,
    );
  }
  const { client } = scripted({ body: { items: [] } });
  assert.deepEqual((await client.list(NODES)).items, []);
});
