import assert from "node:assert/strict";
import type {
  VpcNode,
  VpcNodeEni,
  VpcNodeStatus,
} from "../../../lib/api/mod.ts";
import { FakeClock, untilStopped } from "../../../lib/async/testing.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { VpcNodeKeeper } from "./vpc_node_keeper.ts";

/** Longer than the jittered time between two looks. */
const LOOK_MS = 20_000;

const ENI: VpcNodeEni = {
  id: "eni-1",
  device: 0,
  subnet: "subnet-1",
  blocks: ["10.0.1.5/32"],
  used: 0,
  cooling: 0,
  free: 1,
};

/** An API server that has one VPCNode at the most. */
class Server {
  object: VpcNode | undefined;
  isRefusing = false;
  /** Methods, and what is applied. */
  readonly calls: string[] = [];
  readonly client = new KubeClient(
    new FakeTransport(({ method, path, body }) => {
      if (this.isRefusing) return { status: 403 };
      const sent: VpcNode = JSON.parse(body ?? "{}");
      this.calls.push(method);
      if (method === "POST") {
        this.object = sent;
        return { status: 201, body: sent };
      }
      if (this.object === undefined) return { status: 404 };
      if (method === "PATCH") {
        assert.match(path, /\/vpcnodes\/node1\/status\?/);
        this.object = { ...this.object, status: sent.status ?? {} };
      }
      return { body: this.object };
    }),
  );

  /** Loses the object. */
  lose(): void {
    this.object = undefined;
  }
}

async function keeping(
  test: (fixture: {
    readonly server: Server;
    readonly clock: FakeClock;
    set(
      enis: readonly VpcNodeEni[],
      conditions?: VpcNodeStatus["conditions"],
    ): void;
    replaceNode(uid: string | undefined): void;
    /** Calls since the last time, after another look or more. */
    calls(ms?: number): Promise<string>;
  }) => Promise<void>,
): Promise<void> {
  const [server, clock] = [new Server(), new FakeClock()];
  let uid: string | undefined = "uid-1";
  let status: VpcNodeStatus = { enis: [ENI], conditions: [] };
  const keeper = new VpcNodeKeeper({
    client: server.client,
    node: () => uid === undefined ? undefined : { name: "node1", uid },
    status: () => status,
    clock,
  });
  const stop = new AbortController();
  const running = keeper.run(stop.signal);
  try {
    await test({
      server,
      clock,
      set: (enis, conditions = []) => status = { enis, conditions },
      replaceNode: (next) => uid = next,
      async calls(ms = LOOK_MS) {
        await clock.advance(ms);
        return server.calls.splice(0).join(" ");
      },
    });
  } finally {
    stop.abort();
    await untilStopped(running, stop.signal);
  }
}

Deno.test("VpcNodeKeeper makes the object, owned by the Node, and writes what differs", async () => {
  await keeping(async ({ server, set, calls }) => {
    assert.equal(await calls(0), "GET POST PATCH");
    assert.deepEqual(server.object?.status?.enis, [ENI]);
    const [owner] = server.object?.metadata.ownerReferences ?? [];
    assert.deepEqual([owner?.kind, owner?.uid], ["Node", "uid-1"]);
    assert.equal(await calls(), "");
    set([ENI, { ...ENI, id: "eni-2" }]);
    assert.equal(await calls(), "PATCH");
    assert.equal(server.object?.status?.enis?.length, 2);
  });
});

Deno.test("VpcNodeKeeper writes counts alone once a minute, however often they change", async () => {
  await keeping(async ({ clock, set, calls }) => {
    await calls(0);
    let written = 0;
    for (let used = 1; used <= 600; used++) {
      set([{ ...ENI, used }]);
      const made = await calls(1_000);
      assert.ok(made === "" || made === "PATCH", made);
      if (made !== "") written++;
    }
    assert.equal(clock.nowMs(), 600_000);
    assert.ok(written >= 7 && written <= 10, `${written}`);
  });
});

Deno.test("VpcNodeKeeper writes a condition that turns at once", async () => {
  await keeping(async ({ set, calls }) => {
    await calls(0);
    set([ENI], [{
      type: "Throttled",
      status: "True",
      reason: "RequestLimitExceeded",
      message: "m",
      lastTransitionTime: "2026-01-01T00:00:00Z",
    }]);
    assert.equal(await calls(), "PATCH");
  });
});

Deno.test("VpcNodeKeeper makes an object again that was deleted, with the next change or within some time", async () => {
  await keeping(async ({ server, set, calls }) => {
    await calls(0);
    server.lose();
    set([]);
    assert.equal(await calls(2 * LOOK_MS), "PATCH GET POST PATCH");
    server.lose();
    assert.equal(await calls(), "");
    assert.equal(await calls(700_000), "GET POST PATCH");
  });
});

Deno.test("VpcNodeKeeper waits until what an earlier Node of the name owned is gone", async () => {
  await keeping(async ({ server, replaceNode, calls }) => {
    await calls(0);
    replaceNode(undefined);
    assert.equal(await calls(), "");
    replaceNode("uid-2");
    assert.match(await calls(), /^GET( GET)*$/);
    server.lose();
    assert.match(await calls(), /^GET POST PATCH$/);
    assert.equal(
      server.object?.metadata.ownerReferences?.[0]?.uid,
      "uid-2",
    );
  });
});

Deno.test("VpcNodeKeeper goes on when it may write again", async () => {
  await keeping(async ({ server, set, calls }) => {
    await calls(0);
    server.isRefusing = true;
    set([]);
    await calls(60_000);
    server.isRefusing = false;
    assert.equal(await calls(), "GET PATCH");
  });
});
