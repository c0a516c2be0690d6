import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import {
  KubeClient,
  KubeUnreachableError,
  type Transport,
  type TransportRequest,
} from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import { EGRESS_LEASE } from "../../../lib/names/mod.ts";
import { block, pool } from "../../../lib/ipam/audit/testing.ts";
import { Cluster } from "./cluster.ts";
import { Feed } from "./feed.ts";
import type { BlockView, ContactView, StatusView } from "./view.ts";

/** An API server that refuses some paths, or does not answer. */
class Gatekeeper implements Transport {
  readonly host = "gate:6443";
  forbidden: RegExp | undefined;
  /** What a proxy fails to pass on, once. */
  failing: RegExp | undefined;
  isAway = false;
  readonly #api: MemoryApi;

  constructor(api: MemoryApi) {
    this.#api = api;
  }

  async request(request: TransportRequest) {
    if (this.isAway) throw new KubeUnreachableError("Cannot reach it");
    return this.forbidden?.test(request.path)
      ? { status: 403, headers: new Headers(), body: "{}" }
      : await this.#api.request(request);
  }

  async stream(request: TransportRequest) {
    if (this.isAway) throw new KubeUnreachableError("Cannot reach it");
    if (this.failing?.test(request.path)) {
      this.failing = undefined;
      return { status: 520, headers: new Headers(), chunks: nothing() };
    }
    return this.forbidden?.test(request.path)
      ? { status: 403, headers: new Headers(), chunks: nothing() }
      : await this.#api.stream(request);
  }

  refreshCredentials(): Promise<void> {
    return Promise.resolve();
  }

  close(): void {}
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

interface World {
  readonly api: MemoryApi;
  readonly gate: Gatekeeper;
  /** The entry as a reader of the feed has it. */
  view<T>(key: string): T | undefined;
}

async function withCluster(
  prepare: (world: Omit<World, "view">) => void,
  use: (world: World) => Promise<void>,
): Promise<void> {
  const api = new MemoryApi();
  const gate = new Gatekeeper(api);
  prepare({ api, gate });
  using client = new KubeClient(gate);
  const feed = new Feed();
  const entries = new Map<string, unknown>();
  await using tasks = new TaskGroup();
  await Cluster.start(client, { feed, tasks });
  const events = feed.events().getReader();
  const reading = readAll(events, entries);
  await use({ api, gate, view: <T>(key: string) => entries.get(key) as T });
  await events.cancel();
  await reading;
}

async function readAll(
  events: ReadableStreamDefaultReader<Uint8Array>,
  entries: Map<string, unknown>,
): Promise<void> {
  for (;;) {
    const { value } = await events.read();
    if (value === undefined) return;
    const text = new TextDecoder().decode(value);
    const [, data] = /^data: (.*)$/m.exec(text) ?? [];
    const { set, gone } = JSON.parse(data ?? '{"set":{},"gone":[]}');
    for (const [key, view] of Object.entries(set)) entries.set(key, view);
    for (const key of gone) entries.delete(key);
  }
}

const POOL = pool("default", [{ ipv4: "10.2.0.0/24" }]);
const BLOCK = block(["default", 0, "n1"], { ipv4: "10.2.0.0/27" });

function podObject(name: string, ip: string): object {
  return {
    metadata: { namespace: "apps", name },
    spec: { nodeName: "n1", containers: [] },
    status: { podIPs: [{ ip }], phase: "Running" },
  };
}

Deno.test("Cluster publishes what there is, then each change", async () => {
  await withCluster(({ api }) => {
    api.put("addresspools", POOL);
    api.put("addressblocks", BLOCK);
    api.put("pods", podObject("web", "10.2.0.9"));
  }, async ({ api, view }) => {
    const holders = () =>
      view<BlockView>("block/default-0")?.holders.map(({ pod, places }) =>
        `${pod} ${places}`
      );
    await untilPasses(() => assert.deepEqual(holders(), ["web 9"]));
    await untilPasses(() =>
      assert.equal(view<StatusView>("status")?.cluster, "gate:6443")
    );
    api.put("pods", podObject("db", "10.2.0.10"));
    await untilPasses(() => assert.deepEqual(holders(), ["web 9", "db 10"]));
    api.remove("pods/apps/web");
    await untilPasses(() => assert.deepEqual(holders(), ["db 10"]));
    api.remove("addressblocks//default-0");
    await untilPasses(() => assert.equal(view("block/default-0"), undefined));
  });
});

Deno.test("Cluster says what may not be read, and shows the rest", async () => {
  await withCluster(({ api, gate }) => {
    gate.forbidden = /\/(leases|pods|vpcnodes)/;
    api.put("addresspools", POOL);
    api.put("addressblocks", BLOCK);
  }, async ({ view }) => {
    await untilPasses(() => assert.ok(view("block/default-0") !== undefined));
    await untilPasses(() =>
      assert.deepEqual(view<StatusView>("status")?.unseen, [
        { what: "pods", why: "forbidden" },
        { what: "leases", why: "forbidden" },
      ])
    );
  });
});

Deno.test("Cluster does not miss pools in an installation for Egresses alone", async () => {
  await withCluster(({ api, gate }) => {
    gate.forbidden = /\/(address|blockrequests|egressclientslices)/;
    api.put("leases", {
      metadata: { namespace: "kube-system", name: EGRESS_LEASE },
      spec: { holderIdentity: "x", renewTime: "2026-01-01T00:00:00Z" },
    });
  }, async ({ view }) => {
    await untilPasses(() =>
      assert.deepEqual(view<StatusView>("status")?.unseen, [
        { what: "egressclientslices", why: "forbidden" },
      ])
    );
    assert.equal(view<StatusView>("status")?.leases.length, 1);
  });
});

Deno.test("Cluster says what may be listed and not watched", async () => {
  await withCluster(({ gate }) => {
    gate.forbidden = /\/nodes\?.*watch=true/;
  }, async ({ view }) => {
    await untilPasses(() =>
      assert.deepEqual(view<StatusView>("status")?.unseen, [
        { what: "nodes", why: "forbidden" },
      ])
    );
  });
});

Deno.test("Cluster goes on after a proxy failed in place of the API server", async () => {
  await withCluster(({ api, gate }) => {
    gate.failing = /\/addressblocks\?.*watch=true/;
    api.put("addresspools", POOL);
    api.put("addressblocks", BLOCK);
  }, async ({ gate, view }) => {
    await untilPasses(() => assert.ok(view("block/default-0") !== undefined));
    assert.equal(gate.failing, undefined);
  });
});

Deno.test("Cluster says since when the API server is away, and that it is back", async () => {
  await withCluster(() => {}, async ({ gate, view }) => {
    await untilPasses(() => assert.deepEqual(view("contact"), {}));
    gate.isAway = true;
    const since = () => view<ContactView>("contact")?.lostSince;
    await untilPasses(() => assert.ok(since() !== undefined));
    const first = since();
    gate.isAway = false;
    await untilPasses(() => assert.deepEqual(view("contact"), {}));
    assert.ok(Date.parse(first ?? "") <= Date.now());
  });
});

Deno.test("Cluster does not begin without an API server", async () => {
  const gate = new Gatekeeper(new MemoryApi());
  gate.isAway = true;
  using client = new KubeClient(gate);
  await using tasks = new TaskGroup();
  await assert.rejects(
    Cluster.start(client, { feed: new Feed(), tasks }),
    KubeUnreachableError,
  );
});
