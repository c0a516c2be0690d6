// coild from its start to its end, as a node runs it: what its parts do is
// tested beside them, this is about how they are tied to each other.
import assert from "node:assert/strict";
import { awaitedLater, eventually } from "../lab/wait.ts";
import { type Call, WholeCoild } from "./coild_whole.ts";
import { keepFlows, netnsTest, tempNetns } from "./testing.ts";

const POD_TABLE = 116;
const EXPORT_TABLE = 119;
const USED = 'coil_coild_addresses{pool="default",state="used"}';
const FREE = 'coil_coild_addresses{pool="default",state="free"}';
const ANSWERED = 'coil_coild_launcher_calls_total{result="answered"}';
const READ_FROM_API =
  /^rest_client_requests_total\{code="200",host=".*",method="GET"\} [1-9]/m;
const ADDS =
  'grpc_server_started_total{grpc_type="unary",grpc_service="pkg.cnirpc.CNI",grpc_method="Add"}';

/** The first block, as coild has it before a start. */
const BLOCK = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "AddressBlock",
  metadata: {
    name: "default-0",
    finalizers: ["coil.cybozu.com"],
    labels: { "coil.cybozu.com/pool": "default", "coil.cybozu.com/node": "n1" },
  },
  index: 0,
  ipv4: "10.64.0.0/31",
};

/** Pods "a", "b" and "c" as their runtime has them. */
async function threePods(
  stack: AsyncDisposableStack,
): Promise<readonly [Call, Call, Call]> {
  const call = async (pod: string) => ({
    containerId: `c-${pod}`,
    pod,
    netns: stack.use(await tempNetns(pod)),
  });
  return [await call("a"), await call("b"), await call("c")];
}

/** Ends it as a node does; what it logged last says why it could not. */
async function assertStops(coild: WholeCoild): Promise<void> {
  assert.equal(await coild.stop(), 0, (await coild.logged()).slice(-3_000));
}

async function until(what: string, holds: () => Promise<boolean>) {
  await eventually(what, holds);
}

/** Destinations of a route table's routes, sorted. */
async function destinationsOf(
  { host }: WholeCoild,
  table: number,
): Promise<string[]> {
  const args = ["route", "show", "table", `${table}`];
  const { stdout } = await host.tryExec("ip", ...args);
  return stdout.split("\n").filter((line) => line !== "")
    .map((line) => line.split(" ")[0] ?? "").toSorted();
}

/** The connections that the node tracks, as the kernel lists them. */
async function flowsOf({ host }: WholeCoild): Promise<string> {
  return await host.exec("cat", "/proc/net/nf_conntrack");
}

/** Makes the node track a connection to a pod. */
async function connectTo(coild: WholeCoild, address: string): Promise<void> {
  const { host } = coild;
  await keepFlows(host);
  await host.exec(
    "nft",
    "add table inet t; add chain inet t out { type filter hook output priority 0; }; " +
      "add rule inet t out ct state new",
  );
  await host.exec("ping", "-c1", "-w20", address);
  const flows = await flowsOf(coild);
  assert.ok(flows.includes(`dst=${address} `), flows);
}

netnsTest(
  "coild starts, asks for blocks, connects pods and keeps what it made",
  async () => {
    await using stack = new AsyncDisposableStack();
    const [a, b, c] = await threePods(stack);
    const coild = stack.use(
      await WholeCoild.start(
        ...["--cooldown=0s", "--addressblock-gc-interval=1s"],
        ...["--block-return-delay=0s", "--low-water=0"],
      ),
    );
    const { host } = coild;
    await coild.ready();
    assert.match(await coild.get(9385, "/readyz"), /200$/);
    assert.match(await coild.get(9385, "/healthz"), /200$/);
    assert.match(await coild.get(9385, "/readyz/ping"), /200$/);
    assert.equal(await coild.metric("coil_coild_ready"), 1);
    assert.equal(await coild.metric("coil_coild_source_validation"), 1);
    assert.match(await coild.get(9384, "/metrics"), READ_FROM_API);
    assert.equal(await coild.launch(), 0);
    assert.equal(await coild.metric(ANSWERED), 1);
    assert.equal(await coild.failing(), 1, "another at its socket");
    assert.deepEqual(await coild.add(a), ["10.64.0.0/32"]);
    assert.deepEqual(await coild.add(b), ["10.64.0.1/32"]);
    assert.deepEqual(await coild.add(c), ["10.64.0.2/32"]);
    await coild.call("Check", a);
    const pods = ["10.64.0.0", "10.64.0.1", "10.64.0.2"];
    assert.deepEqual(await destinationsOf(coild, POD_TABLE), pods);
    const blocks = ["10.64.0.0/31", "10.64.0.2/31"];
    assert.deepEqual(await destinationsOf(coild, EXPORT_TABLE), blocks);
    assert.equal(await coild.metric(USED), 3);

    // Another program takes things away.
    await host.ip("rule", "delete", "table", `${POD_TABLE}`);
    await host.ip("route", "flush", "table", `${EXPORT_TABLE}`);
    await host.exec("nft", "delete", "table", "inet", "coil-node");
    await until("them to be back", async () => {
      const rules = await host.ip("rule");
      const exported = await destinationsOf(coild, EXPORT_TABLE);
      const tables = await host.exec("nft", "list", "tables");
      return rules.includes(`lookup ${POD_TABLE}`) && exported.length === 2 &&
        tables.includes("coil-node");
    });
    for (const what of ["rule", "export", "sources"]) {
      const repairs = `coil_coild_repairs_total{what="${what}"}`;
      await until(repairs, async () => (await coild.metric(repairs) ?? 0) > 0);
    }

    // The Node's address changes.
    await host.ip("address", "add", "192.0.2.7/24", "dev", "node0");
    const addresses = [{ type: "InternalIP", address: "192.0.2.7" }];
    const node = { metadata: { name: "n1" }, status: { addresses } };
    await coild.change({ plural: "nodes", object: node });
    await until("routes from the Node's address", async () => {
      const routes = await host.ip("route", "show", "table", `${POD_TABLE}`);
      return routes.split("src 192.0.2.7").length === 1 + pods.length;
    });

    // The block of a pod that goes returns to its pool, and its connections are forgotten.
    await connectTo(coild, "10.64.0.2");
    await coild.call("Del", { containerId: c.containerId, pod: c.pod });
    await until("the block to be returned", async () => {
      const exported = await destinationsOf(coild, EXPORT_TABLE);
      return await coild.metric(USED) === 2 && exported.length === 1;
    });
    await until("its connections to be forgotten", async () => {
      return !(await flowsOf(coild)).includes("dst=10.64.0.2 ");
    });
    const compared = 'coil_coild_reconciliations_total{result="ok"}';
    await until(compared, async () => (await coild.metric(compared) ?? 0) > 0);
    // It was not told to take its routes with it.
    await coild.change({ plural: "nodes", name: "/n1" });
    await assertStops(coild);
    assert.deepEqual(await destinationsOf(coild, EXPORT_TABLE), [
      "10.64.0.0/31",
    ]);
  },
);

netnsTest(
  "coild knows its pods after a restart, and takes its routes with it when the Node is gone",
  async () => {
    await using stack = new AsyncDisposableStack();
    const [a, b, c] = await threePods(stack);
    // All blocks are listed after twelve times the interval, which is too late here.
    const flags = [
      ...["--clear-routes-on-shutdown", "--cooldown=0s"],
      ...["--addressblock-gc-interval=3s", "--low-water=0"],
    ];
    const coild = stack.use(await WholeCoild.start(...flags));
    await coild.ready();
    assert.deepEqual(await coild.add(a), ["10.64.0.0/32"]);
    assert.deepEqual(await coild.add(b), ["10.64.0.1/32"]);
    await assertStops(coild);
    const exported = await destinationsOf(coild, EXPORT_TABLE);
    assert.ok(exported.includes("10.64.0.0/31"), "the Node is there");
    coild.restart(flags, [{ plural: "addressblocks", object: BLOCK }]);
    await coild.ready();
    assert.equal(await coild.metric(USED), 2);
    await coild.call("Check", a);
    assert.deepEqual(await coild.add(b), ["10.64.0.1/32"], "the same one");
    await coild.call("Del", a);
    await until(USED, async () => await coild.metric(USED) === 1);
    // Until its link is gone, the address is neither used nor free.
    await until(FREE, async () => await coild.metric(FREE) === 1);

    // Another client deletes the block, which is seen when it is looked at next.
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    const metadata = { ...BLOCK.metadata, deletionTimestamp };
    const object = { ...BLOCK, metadata };
    await coild.change({ plural: "addressblocks", object });
    await until(FREE, async () => await coild.metric(FREE) === 0);
    assert.deepEqual(await coild.add(c), ["10.64.0.2/32"], "of another block");
    await coild.change({ plural: "nodes", name: "/n1" });
    await assertStops(coild);
    // Others may get the blocks of a Node that is gone.
    assert.deepEqual(await destinationsOf(coild, EXPORT_TABLE), []);
  },
);

netnsTest(
  "coild lets a freed address rest, shows administrators who has which, and names the pod that it cannot mend",
  async () => {
    await using stack = new AsyncDisposableStack();
    const [a, b, c] = await threePods(stack);
    const coild = stack.use(
      await WholeCoild.start("--cooldown=1h", "--low-water=0"),
    );
    await coild.ready();
    for (const call of [a, b, c]) await coild.add(call);
    await coild.call("Del", a);
    await until(USED, async () => await coild.metric(USED) === 2);
    assert.deepEqual(await coild.add(a), ["10.64.0.3/32"], "it rests");
    assert.deepEqual(await coild.shown(), {
      "c-a": ["10.64.0.3"],
      "c-b": ["10.64.0.1"],
      "c-c": ["10.64.0.2"],
    });

    // Another program has a route to a pod's address.
    const route = ["10.64.0.1/32", "dev", "node0", "table", `${POD_TABLE}`];
    await coild.host.ip("route", "replace", ...route, "proto", "static");
    const check = "/readyz/pod-network";
    await until(`${check} to name it`, async () => {
      const answer = await coild.get(9385, check);
      return /of 10\.64\.0\.1: .*500$/s.test(answer);
    });
    assert.match(await coild.get(9385, "/readyz"), /pod-network failed/);
    await coild.host.ip("route", "delete", ...route);
    await until(`${check} to pass`, async () => {
      return /200$/.test(await coild.get(9385, check));
    });
  },
);

netnsTest(
  "coild writes an Event on a pod that it has no pool for",
  async () => {
    await using stack = new AsyncDisposableStack();
    const [a] = await threePods(stack);
    const coild = stack.use(await WholeCoild.start());
    await coild.change({ plural: "addresspools", name: "/default" });
    await coild.ready();
    await assert.rejects(coild.add(a), /pool "default"/);
    await until("the Event", async () => {
      return (await coild.eventReasons()).includes("AddressPoolNotFound");
    });
  },
);

netnsTest(
  "coild waits for a block as long as it is told to, and ends when calls under way have their answers",
  async () => {
    await using stack = new AsyncDisposableStack();
    const [a, b] = await threePods(stack);
    const coild = stack.use(
      await WholeCoild.start("--block-request-timeout=300ms", "--low-water=0"),
    );
    await coild.ready();
    await coild.delayAnswers(2_000);
    await assert.rejects(coild.add(a), /no block came within 0.3 s/);

    // The API server is asked for a pod that is not known.
    const call = awaitedLater(
      assert.rejects(coild.add({ ...b, pod: "x" }), /it does not exist/),
    );
    await until(ADDS, async () => await coild.metric(ADDS) === 2);
    await assertStops(coild);
    await call;
  },
);

netnsTest("coild ends when scrapers have their answers", async () => {
  await using coild = await WholeCoild.start("--metrics-auth");
  await coild.ready();
  await coild.delayAnswers(300);
  const ask = async () =>
    await coild.host.exec(
      ...["curl", "-so/dev/null", "-w%{http_code}"],
      ...["-HAuthorization: Bearer t", "http://127.0.0.1:9384/metrics"],
    );
  let status: Promise<string> | undefined;
  const asked = await eventually("the question whose token it is", async () => {
    // On a busy machine the one before may have been answered unseen.
    const asked = status ??= awaitedLater(
      ask().finally(() => status = undefined),
    );
    const waiting = await coild.delayed();
    return waiting.some((path) => path.endsWith("/tokenreviews")) &&
      { status: asked };
  });
  await assertStops(coild);
  assert.match(await asked.status, /^[245]\d\d$/);
});

netnsTest(
  "coild begins to look for inconsistencies only when its start is over",
  async () => {
    const flags = ["--addressblock-gc-interval=1s"];
    await using coild = await WholeCoild.start(...flags);
    await coild.ready();
    await coild.stop();
    coild.restart(flags, [{ delayMs: 3_000 }]);
    await coild.ready();
    const leaks = 'coil_coild_audit_findings{code="address-leaked"}';
    await until(leaks, async () => await coild.metric(leaks) === 0);
    assert.doesNotMatch(await coild.logged(), /check for inconsistencies/);
  },
);

netnsTest(
  "coild without addresses starts, and leaves the kernel as it was",
  async () => {
    await using coild = await WholeCoild.start("--enable-ipam=false");
    await coild.ready();
    assert.match(await coild.get(9385, "/readyz"), /200$/);
    assert.equal(await coild.metric("coil_coild_ready"), 1);
    assert.equal(await coild.metric("coil_coild_source_validation"), undefined);
    assert.doesNotMatch(await coild.host.ip("rule"), /lookup 116/);
    await assertStops(coild);
    assert.equal(await coild.failing({ COIL_NODE_NAME: "" }), 1, "no name");
  },
);

netnsTest(
  "coild whose socket or lock is removed or replaced says so, so that it is started again",
  async () => {
    for (const suffix of [".cni", ".lock"]) {
      await using coild = await WholeCoild.start();
      await coild.ready();
      assert.match(await coild.get(9385, "/healthz"), /200$/);
      const path = coild.socketPath + suffix;
      await Deno.remove(path);
      const gone = await coild.get(9385, "/healthz");
      assert.match(gone, /sockets failed: ".*" was removed or replaced/);
      await Deno.writeTextFile(path, "");
      assert.match(await coild.get(9385, "/healthz"), /500$/);
      await assertStops(coild);
      await Deno.remove(path);
      coild.restart([]);
      await coild.ready();
      assert.match(await coild.get(9385, "/healthz"), /200$/);
    }
  },
);
