import assert from "node:assert/strict";
import { type BlockRequest, newBlockRequest } from "../../../lib/api/mod.ts";
import { sleep, TaskGroup } from "../../../lib/async/mod.ts";
import { KubeApiError, KubeClient } from "../../../lib/kube/mod.ts";
import { type FakeAnswer, FakeTransport } from "../../../lib/kube/testing.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { NodeSource } from "../cluster/node_source.ts";
import { BlockRequests } from "./requests.ts";

configureLogging({ write: () => {} });

const COMPLETE = {
  type: "Complete",
  status: "True",
  reason: "",
  message: "",
  lastTransitionTime: "2024-01-01T00:00:00Z",
} as const;

const NODE = { metadata: { name: "node1", uid: "node-uid" } };
const GONE = {
  type: "ERROR",
  object: { kind: "Status", code: 410, reason: "Expired", message: "too old" },
};

/** A watch that ends when its events are sent. */
async function* ending(...events: readonly unknown[]) {
  yield* events;
}

const status = (code: number, reason: string): FakeAnswer => ({
  status: code,
  body: { kind: "Status", code, reason },
});

/** An API server with at most one BlockRequest, which each create makes under a UID of its own. */
class Server {
  request: BlockRequest | undefined;
  /** How each watch goes on; the last one for all later ones. */
  readonly watches: (() => AsyncIterable<unknown> | FakeAnswer)[] = [];
  /** Requests about BlockRequests, as `METHOD`, or `WATCH version`. */
  readonly asked: string[] = [];
  /** The number of creates that are refused because of a request that exists, and is gone right after. */
  ghosts = 0;
  /** Whether a finalizer of another program keeps what is deleted. */
  isKept = false;
  /** Status of each refusal of a create. */
  refusal: number | undefined;
  #version = 10;

  readonly transport: FakeTransport = new FakeTransport(
    ({ method = "GET", path, body }) => {
      const { pathname, searchParams } = new URL(path, "http://x");
      if (!pathname.includes("/blockrequests")) return { body: NODE };
      if (searchParams.has("watch")) {
        this.asked.push(`WATCH ${searchParams.get("resourceVersion")}`);
        const selector = searchParams.get("fieldSelector");
        assert.match(selector ?? "", /^metadata\.name=/);
        const next = this.watches.length > 1
          ? this.watches.shift()
          : this.watches[0];
        const answer = next?.() ?? ending();
        return Symbol.asyncIterator in answer ? { lines: answer } : answer;
      }
      this.asked.push(method);
      assert.ok(this.asked.length < 50, "it asks without end");
      if (method === "POST") return this.#create(JSON.parse(`${body}`));
      if (method === "DELETE" && !this.isKept) this.request = undefined;
      return this.request === undefined
        ? status(404, "NotFound")
        : { body: this.request };
    },
  );

  #create(body: BlockRequest): FakeAnswer {
    if (this.refusal !== undefined) return status(this.refusal, "");
    if (this.request !== undefined || this.ghosts-- > 0) {
      return status(409, "AlreadyExists");
    }
    this.request = this.#with(body, { uid: crypto.randomUUID() });
    return { status: 201, body: this.request };
  }

  #with(
    request: BlockRequest,
    { uid = request.metadata.uid ?? "" } = {},
  ): BlockRequest {
    const resourceVersion = `${++this.#version}`;
    const metadata = { ...request.metadata, uid, resourceVersion };
    return { ...request, metadata };
  }

  /** The controller answers; returns the request as it is then. */
  answer(block: string): BlockRequest {
    assert.ok(this.request);
    const answered = { addressBlockName: block, conditions: [COMPLETE] };
    return this.request = { ...this.#with(this.request), status: answered };
  }

  /** Somebody deletes it; returns the request as it was. */
  remove(): BlockRequest {
    const { request } = this;
    assert.ok(request);
    this.request = undefined;
    return this.#with(request);
  }

  /** Somebody deletes it and makes one of its name. */
  replace(): BlockRequest {
    const uid = crypto.randomUUID();
    return this.request = this.#with(this.remove(), { uid });
  }
}

function requestsOf(server: Server): BlockRequests {
  const client = new KubeClient(server.transport);
  const node = new NodeSource(client, "node1");
  return new BlockRequests({ client, node });
}

const { signal } = new AbortController();

Deno.test("requests of before the start are asked for in one page", async () => {
  const transport = new FakeTransport(() => ({ body: { items: [] } }));
  const client = new KubeClient(transport);
  const node = new NodeSource(client, "node1");
  const requests = new BlockRequests({ client, node });
  await using group = new TaskGroup();
  group.runAll(requests.loops);
  await requests.synced({ signal });
  assert.deepEqual(transport.requests.map(({ path }) => path), [
    "/apis/coil.cybozu.com/v2/blockrequests?labelSelector=coil.cybozu.com%2Fnode%3Dnode1",
  ]);
});

Deno.test("ask() asks again when its request is deleted while it waits", async () => {
  const server = new Server();
  server.watches.push(
    () => ending({ type: "DELETED", object: server.remove() }),
    () => ending({ type: "MODIFIED", object: server.answer("b-1") }),
  );
  assert.equal(await requestsOf(server).ask("p", { signal }), "b-1");
  assert.deepEqual(server.asked, ["POST", "WATCH 11", "POST", "WATCH 13"]);
});

Deno.test("ask() takes a request that was deleted and made again as one that it finds", async () => {
  const server = new Server();
  server.watches.push(
    () => {
      server.replace();
      return ending({ type: "MODIFIED", object: server.answer("b-1") });
    },
    () => ending(),
  );
  assert.equal(await requestsOf(server).ask("p", { signal }), "b-1");
  assert.deepEqual(server.asked, ["POST", "WATCH 11", "POST", "GET"]);
});

Deno.test("ask() makes its request when the one in its way is gone", async () => {
  const server = new Server();
  server.ghosts = 1;
  const bookmark = {
    type: "BOOKMARK",
    object: { metadata: { resourceVersion: "12" } },
  };
  server.watches.push(
    () => ending(bookmark, { type: "MODIFIED", object: server.answer("b-1") }),
  );
  assert.equal(await requestsOf(server).ask("p", { signal }), "b-1");
  assert.deepEqual(server.asked, ["POST", "GET", "POST", "WATCH 11"]);
});

Deno.test("ask() is not busy while a finalizer keeps a deleted request, and makes its own when that is gone", async () => {
  const server = new Server();
  server.watches.push(
    () => ending({ type: "MODIFIED", object: server.answer("b-1") }),
  );
  const earlier = { name: "node1", uid: "an-earlier-node" };
  const left = newBlockRequest("default", earlier);
  server.request = { ...left, metadata: { ...left.metadata, uid: "left" } };
  server.isKept = true;
  const asking = requestsOf(server).ask("default", { signal });
  asking.catch(() => {});
  await sleep(500);
  assert.ok(server.asked.length <= 30, `${server.asked}`);
  server.request = undefined;
  assert.equal(await asking, "b-1");
  assert.deepEqual(
    server.asked.slice(0, 6),
    ["POST", "GET", "DELETE", "POST", "GET", "DELETE"],
  );
});

Deno.test("ask() fails when its request is refused", async () => {
  const server = new Server();
  server.refusal = 403;
  await assert.rejects(
    requestsOf(server).ask("p", { signal }),
    KubeApiError,
  );
  assert.deepEqual(server.asked, ["POST"]);
});

Deno.test("ask() deletes a request that was made again by somebody else for another Node of its name", async () => {
  const server = new Server();
  server.watches.push(
    () => {
      const { metadata, ...rest } = server.replace();
      const owner = { ...metadata.ownerReferences?.[0], uid: "earlier" };
      const ownerReferences = [owner] as typeof metadata.ownerReferences;
      server.request = {
        ...rest,
        metadata: {
          ...metadata,
          ...(ownerReferences !== undefined && { ownerReferences }),
        },
      };
      return ending({ type: "ADDED", object: server.request });
    },
    () => ending({ type: "MODIFIED", object: server.answer("b-2") }),
  );
  assert.equal(await requestsOf(server).ask("p", { signal }), "b-2");
  assert.deepEqual(
    server.asked.map((what) => what.split(" ")[0]),
    ["POST", "WATCH", "POST", "GET", "DELETE", "POST", "WATCH"],
  );
});

Deno.test("ask() reads the answer, and is not busy, when its watch brings none", async () => {
  const cases: Record<string, () => AsyncIterable<unknown> | FakeAnswer> = {
    "says in its middle that its version is too old": () => ending(GONE),
    "is answered with 410": () => status(410, "Expired"),
    "is refused": () => status(403, "Forbidden"),
    "ends at once": () => ending(),
    "sends half an object": () => ending('{"type":"MODIFIED","obj'),
  };
  const all = Object.entries(cases).map(async ([what, watch]) => {
    const server = new Server();
    server.watches.push(watch);
    const asking = requestsOf(server).ask("p", { signal });
    await sleep(500);
    assert.deepEqual(server.asked, ["POST", "WATCH 11"], what);
    server.answer("b-1");
    assert.equal(await asking, "b-1", what);
    assert.deepEqual(server.asked, ["POST", "WATCH 11", "GET"], what);
  });
  await Promise.all(all);
});

Deno.test("ask() notices by what it reads that its request was deleted and made again", async () => {
  const server = new Server();
  server.watches.push(
    () => {
      server.replace();
      return ending();
    },
    () => ending({ type: "MODIFIED", object: server.answer("b-1") }),
  );
  assert.equal(await requestsOf(server).ask("p", { signal }), "b-1");
  assert.deepEqual(
    server.asked,
    ["POST", "WATCH 11", "GET", "POST", "GET", "WATCH 13"],
  );
});

Deno.test("ask() goes on from what it read when its watch was too old, and ends by its signal", async () => {
  const server = new Server();
  server.watches.push(
    () => ending(GONE),
    () => ending({ type: "MODIFIED", object: server.answer("b-1") }),
  );
  const stop = new AbortController();
  const asking = requestsOf(server).ask("p", { signal: stop.signal });
  await sleep(100);
  // Its version is that of something that happened in between.
  assert.ok(server.request);
  const { metadata } = server.request;
  server.request = {
    ...server.request,
    metadata: { ...metadata, resourceVersion: "40" },
  };
  assert.equal(await asking, "b-1");
  assert.deepEqual(server.asked, ["POST", "WATCH 11", "GET", "WATCH 40"]);
  const second = requestsOf(new Server()).ask("p", { signal: stop.signal });
  stop.abort();
  await assert.rejects(second, { name: "AbortError" });
});
