import assert from "node:assert/strict";
import type { AddressBlock, AddressPool } from "../../lib/api/mod.ts";
import { FakeClock } from "../../lib/async/testing.ts";
import { IpamLab } from "./testing.ts";

const POOL = "addresspools//default";

function blockOf({ api }: IpamLab, name: string): AddressBlock | undefined {
  return api.get<AddressBlock>(`addressblocks//${name}`);
}

/** Stores a block of the pool "default" as an earlier controller made it. */
function putBlock(
  { api }: IpamLab,
  { index, name = `default-${index}`, node = "n1", labels = {}, ...more }: {
    readonly index: number;
    readonly name?: string;
    readonly node?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly ipv4?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  },
): void {
  const { ipv4 = `10.64.0.${8 * index}/29`, annotations = {} } = more;
  api.put("addressblocks", {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name,
      finalizers: ["coil.cybozu.com"],
      annotations,
      labels: {
        "coil.cybozu.com/pool": "default",
        "coil.cybozu.com/node": node,
        ...labels,
      },
    },
    index,
    ipv4,
  });
}

function conditionOf({ api }: IpamLab, wanted: string): string | undefined {
  const { conditions = [] } = api.get<AddressPool>(POOL)?.status ?? {};
  const found = conditions.find(({ type }) => type === wanted);
  return found && `${found.status} ${found.reason}: ${found.message}`;
}

Deno.test("a request gets the lowest free block, with its node's addresses, and the pool's status counts it", async () => {
  await using lab = new IpamLab();
  putBlock(lab, { index: 0 });
  lab.start();
  await lab.until(() => {
    const pool = lab.api.get<AddressPool>(POOL);
    assert.equal(pool?.status?.blocks?.allocated, 1);
    assert.deepEqual(pool?.metadata.finalizers, ["coil.cybozu.com"]);
  });
  lab.ask("r1", { nodeName: "n2" });
  assert.equal(await lab.answered("r1"), "default-1");
  const { metadata, ipv4, index } = blockOf(lab, "default-1") ?? {};
  assert.deepEqual([index, ipv4], [1, "10.64.0.8/29"]);
  assert.deepEqual(metadata?.finalizers, ["coil.cybozu.com"]);
  assert.equal(metadata?.labels?.["coil.cybozu.com/node"], "n2");
  assert.equal(
    metadata?.annotations?.["coil.cybozu.com/node-addresses"],
    "192.0.2.2",
  );
  const metrics = await lab.registry.metrics();
  assert.match(metrics, /^coil_controller_block_request_seconds_count 1$/m);
});

Deno.test("a pool's status counts the addresses of pods that live on the pod network", async () => {
  await using lab = new IpamLab();
  const pod = (name: string, ip: string, phase: string, more = {}) =>
    lab.api.put("pods", {
      metadata: { namespace: "team", name, uid: `uid-of-${name}` },
      spec: { nodeName: "n1", containers: [], ...more },
      status: { phase, podIPs: [{ ip }] },
    });
  putBlock(lab, { index: 0 });
  pod("runs", "10.64.0.1", "Running");
  pod("starts", "10.64.0.2", "Pending");
  pod("ended", "10.64.0.3", "Succeeded");
  pod("failed", "10.64.0.4", "Failed");
  pod("host", "10.64.0.5", "Running", { hostNetwork: true });
  pod("elsewhere", "192.0.2.9", "Running");
  pod("blockless", "10.64.0.9", "Running");
  lab.start();
  await lab.until(() => {
    const { status } = lab.api.get<AddressPool>(POOL) ?? {};
    assert.equal(status?.usage, "2/32 (6%)");
    assert.equal(status?.ipv4?.used, "2");
  });
});

Deno.test("a request that cannot be met gets the reason", async () => {
  await using lab = new IpamLab();
  const { api } = lab;
  for (const index of [0, 1, 2, 3]) putBlock(lab, { index });
  lab.start();
  lab.ask("full");
  lab.ask("poolless", { poolName: "none" });
  assert.equal(await lab.answered("full"), "out of blocks");
  assert.equal(await lab.answered("poolless"), "pool not found");
  await lab.until(() =>
    assert.deepEqual(lab.uids.values().toArray(), [
      api.get(POOL)?.metadata?.uid,
    ])
  );
  // Freed, it is given again.
  lab.api.remove("addressblocks//default-2");
  await lab.quiet();
  lab.ask("nodeless", { nodeName: "none" });
  assert.match(await lab.answered("nodeless") ?? "", /node/i);
  lab.ask("again");
  assert.equal(await lab.answered("again"), "default-2");
});

Deno.test("a block that another program makes is passed over at once", async () => {
  await using lab = new IpamLab().start();
  await lab.quiet();
  putBlock(lab, { index: 0, node: "n2" });
  lab.ask("r1");
  assert.equal(await lab.answered("r1"), "default-1");
  const made = lab.api.writes.filter((write) => write.startsWith("POST "));
  assert.deepEqual(made, ["POST addressblocks//default-1"]);
});

Deno.test("a block elsewhere than its index says is passed over from the start", async () => {
  await using lab = new IpamLab();
  const labels = { "coil.cybozu.com/pool": "gone" };
  // With its node's addresses already, so that no write makes the watch report it again.
  const annotations = { "coil.cybozu.com/node-addresses": "192.0.2.1" };
  const ipv4 = "10.64.0.8/29";
  putBlock(lab, { name: "v1", index: 7, labels, ipv4, annotations });
  lab.start();
  lab.ask("r1");
  assert.equal(await lab.answered("r1"), "default-0");
  lab.ask("r2");
  assert.equal(await lab.answered("r2"), "default-2");
});

Deno.test("a pool that cannot be read gives no block, and both say why", async () => {
  await using lab = new IpamLab();
  const { api } = lab;
  const subnets = [{ ipv4: "10.64.0.0/33" }];
  const pool = api.get<AddressPool>(POOL);
  api.put("addresspools", { ...pool, spec: { blockSizeBits: 3, subnets } });
  lab.start();
  lab.ask("r1");
  assert.equal(await lab.answered("r1"), "invalid pool");
  await lab.until(() =>
    assert.match(conditionOf(lab, "Ready") ?? "", /^False .*10\.64\.0\.0\/33/)
  );
  assert.ok(lab.events.some((e) => e.includes(" of default: ")), "an Event");
});

Deno.test("a block that the API server refuses for good is the answer, and any other failure is tried again", async () => {
  await using lab = new IpamLab();
  const { api } = lab;
  const statuses = [500, 403, 422, 400];
  api.refuse = (write) =>
    write.startsWith("POST addressblocks/") ? statuses.shift() : undefined;
  lab.start();
  lab.ask("r1");
  assert.equal(await lab.answered("r1"), "block refused");
  lab.ask("r2");
  assert.equal(await lab.answered("r2"), "block refused");
  assert.deepEqual(statuses, []);
  lab.ask("r3");
  assert.equal(await lab.answered("r3"), "default-0");
});

Deno.test("a node that holds enough blocks of a pool gets no more, and Events report it and a Node whose pod count is too large", async () => {
  await using lab = new IpamLab({ nodeAddressFactor: 1 });
  const { api } = lab;
  api.put("addresspools", {
    ...api.get<AddressPool>(POOL),
    spec: { blockSizeBits: 0, subnets: [{ ipv4: "10.64.0.0/24" }] },
  });
  // As many as are enough for 110 pods.
  for (const [n, node] of ["n1", "n2"].entries()) {
    for (let i = 0; i < 114; i++) {
      const index = 114 * n + i;
      putBlock(lab, { index, node, ipv4: `10.64.0.${index}/32` });
    }
  }
  api.put("nodes", {
    metadata: { name: "n2" },
    status: { allocatable: { pods: "5000" } },
  });
  lab.start();
  lab.ask("r1");
  assert.equal(await lab.answered("r1"), "node block limit");
  lab.ask("r2", { nodeName: "n2" });
  assert.equal(await lab.answered("r2"), "default-228");
  assert.match(
    lab.events.join("\n"),
    /^BlockLimitReached of n1: .*\nPodCountTooLarge of n2: /,
  );
  assert.deepEqual(
    [...lab.uids.values()],
    ["n1", "n2"].map((name) => api.get(`nodes//${name}`)?.metadata?.uid),
  );
});

Deno.test("an answer that cannot be written is tried again, and is counted when it is", async () => {
  await using lab = new IpamLab();
  const { api } = lab;
  const counted = async (count: number) =>
    assert.equal(
      (await lab.registry.metrics()).includes(
        `block_requests_total{pool="default",result="allocated"} ${count}`,
      ),
      count > 0,
    );
  const statuses = [500, 403];
  api.refuse = (write) => {
    if (!write.endsWith("/status") || write.includes("pool")) return undefined;
    if (!write.includes("gone")) return statuses.shift();
    api.remove("blockrequests//gone");
    return 404;
  };
  lab.start();
  lab.ask("gone");
  await lab.until(() =>
    assert.equal(api.get("blockrequests//gone"), undefined)
  );
  await lab.quiet();
  await counted(0);
  lab.ask("r1");
  // That of the request that is gone has its block.
  assert.equal(await lab.answered("r1"), "default-1");
  assert.deepEqual(statuses, []);
  await counted(1);
});

for (const count of [3, 25]) {
  Deno.test(`${count} requests whose answers a former leader did not write get the blocks that it made`, async () => {
    await using lab = new IpamLab();
    const { api } = lab;
    api.put("addresspools", {
      ...api.get<AddressPool>(POOL),
      spec: { blockSizeBits: 0, subnets: [{ ipv4: "10.64.0.0/24" }] },
    });
    const names = Array.from({ length: count }, (_, n) => `r${n}`);
    for (const [n, name] of names.entries()) {
      lab.ask(name);
      const uid = api.get(`blockrequests//${name}`)?.metadata?.uid ?? "";
      const index = 100 + n;
      const ipv4 = `10.64.0.${index}/32`;
      putBlock(lab, {
        index,
        ipv4,
        labels: { "coil.cybozu.com/request": uid },
      });
    }
    lab.start();
    for (const [n, name] of names.entries()) {
      assert.equal(await lab.answered(name), `default-${100 + n}`);
    }
  });
}

Deno.test("an answer that was wiped is written again, without another block", async () => {
  await using lab = new IpamLab().start();
  const { api } = lab;
  lab.ask("r1");
  assert.equal(await lab.answered("r1"), "default-0");
  await lab.quiet();
  const request = api.get<AddressPool>("blockrequests//r1");
  api.put("blockrequests", { ...request, status: {} });
  assert.equal(await lab.answered("r1"), "default-0");
  assert.equal(blockOf(lab, "default-1"), undefined);
});

Deno.test("an answer that meets another write is tried again; a request that is gone is forgotten", async () => {
  await using lab = new IpamLab();
  const { api } = lab;
  let conflicts = 2;
  api.refuse = (write) =>
    write === "PUT blockrequests//r1/status" && conflicts-- > 0
      ? 409
      : undefined;
  lab.start();
  lab.ask("r1");
  assert.equal(await lab.answered("r1"), "default-0");
  assert.equal(conflicts, -1);
  // Another write came in between: log and metrics do not count that as a failure.
  const metrics = await lab.registry.metrics();
  assert.doesNotMatch(metrics, /^controller_runtime_reconcile_errors.* [1-9]/m);
});

for (
  const [what, status, answer] of [
    ["replaced", {}, "default-1"],
    ["answered by another", { addressBlockName: "default-3" }, "default-3"],
  ] as const
) {
  Deno.test(`a request that is ${what} while its answer is written does not get it`, async () => {
    await using lab = new IpamLab();
    const { api } = lab;
    const spec = { nodeName: "n1", poolName: "default" };
    api.refuse = (write) => {
      if (write !== "PUT blockrequests//r1/status") return undefined;
      api.refuse = () => undefined;
      const conditions = [{ type: "Complete", status: "True" }];
      const isAnswered = Object.keys(status).length > 0;
      const uid = isAnswered ? "uid-of-blockrequests//r1" : "another";
      api.remove("blockrequests//r1");
      api.put("blockrequests", {
        metadata: { name: "r1", uid },
        spec,
        ...(isAnswered && { status: { ...status, conditions } }),
      });
      return 409;
    };
    lab.start();
    lab.ask("r1");
    assert.equal(await lab.answered("r1"), answer);
    await lab.quiet();
    assert.equal(lab.answerOf("r1"), answer);
  });
}

Deno.test("the blocks of a Node that goes are released, finalizer included, with an Event", async () => {
  await using lab = new IpamLab();
  const { api } = lab;
  putBlock(lab, { index: 0 });
  putBlock(lab, { index: 1, node: "n2" });
  // Another program changes the finalizers in the meantime.
  let conflicts = 2;
  api.refuse = (write) =>
    write === "PATCH addressblocks//default-0" && conflicts-- > 0
      ? 409 + 13 * conflicts
      : undefined;
  lab.start();
  await lab.quiet();
  api.remove("nodes//n1");
  await lab.until(() => assert.equal(blockOf(lab, "default-0"), undefined));
  await lab.until(() =>
    assert.ok(lab.events.some((e) => e.startsWith("BlocksReleased of n1: ")))
  );
  assert.ok(blockOf(lab, "default-1"));
});

Deno.test("a block that cannot be released has an Event", async () => {
  await using lab = new IpamLab();
  const { api } = lab;
  putBlock(lab, { index: 0, node: "gone" });
  api.refuse = (write) =>
    write === "PATCH addressblocks//default-0" ? 403 : undefined;
  lab.start();
  await lab.until(() =>
    assert.ok(
      lab.events.some((e) => e.startsWith("ReleaseFailed of default-0: ")),
    )
  );
  assert.equal(
    lab.uids.get("ReleaseFailed of default-0"),
    blockOf(lab, "default-0")?.metadata.uid,
  );
  const metrics = await lab.registry.metrics();
  assert.match(metrics, /^coil_controller_gc_released_blocks_total 0$/m);
  assert.ok(blockOf(lab, "default-0"));
});

Deno.test("a block follows the addresses of its node", async () => {
  await using lab = new IpamLab();
  putBlock(lab, { index: 0 });
  putBlock(lab, { index: 1, node: "n2" });
  lab.start();
  const addresses = () =>
    ["default-0", "default-1"].map((name) =>
      blockOf(lab, name)?.metadata
        .annotations?.["coil.cybozu.com/node-addresses"]
    );
  await lab.until(() =>
    assert.deepEqual(addresses(), ["192.0.2.1", "192.0.2.2"])
  );
  lab.api.put("nodes", {
    metadata: { name: "n1" },
    status: { addresses: [{ type: "InternalIP", address: "192.0.2.9" }] },
  });
  await lab.until(() =>
    assert.deepEqual(addresses(), ["192.0.2.9", "192.0.2.2"])
  );
});

Deno.test("a pool over addresses that the cluster uses says so", async () => {
  for (
    const [more, expected] of [
      [
        {
          status: { addresses: [{ type: "InternalIP", address: "10.64.0.5" }] },
        },
        /^True AddressesInUse: 10\.64\.0\.5\/32 is the address of Node "n3"/,
      ],
      [
        {
          status: { addresses: [{ type: "ExternalIP", address: "10.64.0.5" }] },
        },
        /^True AddressesInUse: 10\.64\.0\.5\/32 is the address of Node "n3"/,
      ],
      [
        { spec: { podCIDRs: ["10.64.0.0/24"] } },
        /^True InPodCIDR: 10\.64\.0\.0\/24 is the podCIDR of Node "n3"/,
      ],
    ] as const
  ) {
    await using lab = new IpamLab();
    lab.api.put("nodes", { metadata: { name: "n3" }, ...more });
    lab.start();
    await lab.until(() =>
      assert.match(conditionOf(lab, "ClusterAddresses") ?? "", expected)
    );
  }
  await using lab = new IpamLab();
  lab.api.put("servicecidrs", {
    metadata: { name: "kubernetes" },
    spec: { cidrs: ["10.64.0.0/16"] },
  });
  const address = { type: "Hostname", address: "10.64.0.5" };
  lab.api.put("nodes", {
    metadata: { name: "n3" },
    status: { addresses: [address] },
  });
  lab.start();
  await lab.until(() =>
    assert.match(
      conditionOf(lab, "ClusterAddresses") ?? "",
      /^True AddressesInUse: 10\.64\.0\.0\/16 is the ServiceCIDR "kubernetes"\. /,
    )
  );
  // Not without it first, as if the cluster had changed.
  const { writes } = lab.api;
  const statuses = writes.filter((write) => write.endsWith(`${POOL}/status`));
  assert.equal(statuses.length, 1, writes.join());
});

Deno.test("a pool that is being deleted goes with its last block, and gives none", async () => {
  await using lab = new IpamLab().start();
  const { api } = lab;
  lab.ask("r1");
  assert.equal(await lab.answered("r1"), "default-0");
  await lab.quiet();
  const pool = api.get<AddressPool>(POOL);
  const deletionTimestamp = "2026-01-01T00:00:00Z";
  api.put("addresspools", {
    ...pool,
    metadata: { ...pool?.metadata, deletionTimestamp },
  });
  await lab.until(() =>
    assert.match(conditionOf(lab, "Ready") ?? "", /^False Deleting: /)
  );
  assert.ok(api.get(POOL));
  lab.ask("r2");
  assert.equal(await lab.answered("r2"), "out of blocks");
  api.remove("addressblocks//default-0");
  await lab.until(() => assert.equal(api.get(POOL), undefined));
});

Deno.test("a controller that does not lead any longer counts no pools", async () => {
  const lab = new IpamLab();
  const counted = async () =>
    (await lab.registry.metrics()).includes('{pool="default"}');
  {
    await using _leading = lab.start();
    lab.ask("r1");
    await lab.answered("r1");
    assert.ok(await counted());
  }
  assert.ok(!await counted());
});

Deno.test("a new leader looks at the memory while it goes through all blocks, and when it has counted a pool's", async () => {
  let noted = 0;
  const together = new Set<number>();
  await using lab = new IpamLab({
    heap: {
      note(objects = 1) {
        if (objects === 1) noted++;
        else together.add(objects);
      },
    },
  });
  // As the controller writes it, so that none is written again.
  const annotations = { "coil.cybozu.com/node-addresses": "192.0.2.1" };
  for (const index of [0, 1, 2]) putBlock(lab, { index, annotations });
  lab.start();
  await lab.until(() =>
    assert.equal(
      lab.api.get<AddressPool>(POOL)?.status?.blocks?.allocated,
      3,
    )
  );
  // Two nodes and three blocks are read; then the blocks are gone through.
  assert.ok(noted >= 2 + 3 + 3, `${noted}`);
  assert.deepEqual([...together], [3]);
});

Deno.test("a pool says which pods' addresses do not fit, as long as they do not", async () => {
  const clock = new FakeClock();
  await using lab = new IpamLab({ clock });
  const { api } = lab;
  const put = (name: string, ip: string, metadata = {}) =>
    api.put("pods", {
      metadata: { namespace: "team", name, uid: `uid-of-${name}`, ...metadata },
      spec: { nodeName: "n1", containers: [] },
      status: { phase: "Running", podIPs: [{ ip }] },
    });
  putBlock(lab, { index: 0 });
  put("well", "10.64.0.1");
  put("other-cni", "10.99.0.1");
  put("twin-a", "10.64.0.2");
  put("twin-b", "10.64.0.2");
  put("ending", "10.64.0.1", { deletionTimestamp: "2026-06-01T00:00:00Z" });
  put("outside", "10.64.0.9");
  const findings = async () => {
    const text = await lab.registry.metrics();
    return [...text.matchAll(/_audit_findings\{code="([^"]+)"\} ([1-9])/g)]
      .map(([, code, count]) => `${code} ${count}`);
  };
  const inconsistent = () => conditionOf(lab, "Inconsistent");
  lab.start();
  await lab.until(() => assert.match(conditionOf(lab, "Ready") ?? "", /True/));
  assert.equal(inconsistent(), undefined);
  await lab.until(async () => {
    await clock.advance(1_000);
    assert.ok(inconsistent());
  });
  assert.equal(
    inconsistent(),
    "True AddressesDoNotFit: Pod team/twin-a: has 10.64.0.2 on Node n1, and so has team/twin-b on Node n1; " +
      "Pod team/twin-b: has 10.64.0.2 on Node n1, and so has team/twin-a on Node n1; " +
      "Pod team/outside: has 10.64.0.9 on Node n1, in no AddressBlock: another pod may get it. What to do: coil ipam check",
  );
  assert.deepEqual(await findings(), [
    "duplicate-address 2",
    "address-outside-of-blocks 1",
  ]);
  assert.ok(
    lab.events.some((text) => text.startsWith("Inconsistent of default:")),
  );
  api.remove("pods/team/twin-b");
  putBlock(lab, { index: 1 });
  await lab.until(async () => {
    await clock.advance(60_000);
    assert.equal(inconsistent(), undefined);
  });
  assert.deepEqual(await findings(), []);
  assert.ok(
    lab.events.some((text) =>
      text.startsWith("InconsistencyEnded of default:")
    ),
  );
});
