// coil migrate replace, disturbed in every way: each step of one migration is
// a fault, and what puts it right.
import assert from "node:assert/strict";
import { eventually, sleep } from "../lab/mod.ts";
import { exportedBy } from "./migrator_routes.ts";
import {
  type CommandOptions,
  installV1,
  MigrationLab,
  type Output,
} from "./migrator_testing.ts";

const POOLS = [
  {
    name: "default",
    bits: 3,
    subnets: ["10.64.0.0/24"],
    blocks: { node1: ["10.64.0.0/29"], node2: ["10.64.0.8/29"] },
  },
  {
    name: "web",
    bits: 2,
    subnets: ["10.65.0.0/26"],
    blocks: { node1: ["10.65.0.0/30"], node2: ["10.65.0.4/30"] },
  },
];

async function replace(
  lab: MigrationLab,
  args: readonly string[] = [],
  options: CommandOptions = {},
): Promise<Output> {
  return await lab.migrate(
    ["replace", "--yes", "--interval=0s", ...args],
    options,
  );
}

/** The pods of a workload that have v1's network. */
function ofV1(lab: MigrationLab, prefix: string): string[] {
  return lab.kubelet.running
    .filter(({ network }) => network === "v1")
    .map(({ namespace, name }) => `${namespace}/${name}`)
    .filter((key) => key.startsWith(prefix));
}

async function blocks(lab: MigrationLab): Promise<string[]> {
  const names = await lab.lab.blocks();
  return names.filter((name) => name.endsWith("-v1"));
}

async function phase(lab: MigrationLab): Promise<string> {
  const { code, out, err } = await lab.migrate(["status", "-o", "json"]);
  assert.equal(code, 0, err);
  return JSON.parse(out).phase;
}

async function start(): Promise<MigrationLab> {
  const lab = await MigrationLab.start({
    name: "migrate-replace",
    nodes: 2,
    pools: POOLS,
  });
  const { plane, kubelet } = lab;
  for (const name of ["apps", "web"]) await lab.lab.createNamespace(name);
  await installV1(plane);
  await lab.workload("Deployment", "apps/api", { replicas: 3 });
  await lab.workload("Deployment", "web/front", { replicas: 2 });
  await lab.workload("Deployment", "apps/guarded", {
    replicas: 1,
    node: "node1",
  });
  await lab.pod("apps/lonely", { node: "node1" });
  await plane.apply({
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name: "strict", namespace: "apps" },
    spec: { minAvailable: 1, selector: { matchLabels: { app: "guarded" } } },
  });
  await kubelet.settled(7);
  return lab;
}

Deno.test("migrate replace: refuses, stops, waits, is interrupted, and comes to its end", async (t) => {
  await using lab = await start();
  const { plane, kubelet } = lab;

  await t.step("v1 is at work", async () => {
    const { code, err } = await replace(lab);
    assert.equal(code, 1);
    assert.match(
      err,
      /v1 is still running: DaemonSet kube-system\/coil-node[^]*coil migrate dump/,
    );
  });

  await t.step("coild is not there", async () => {
    const dumped = await lab.migrate(["dump", "--yes"]);
    assert.equal(dumped.code, 0, dumped.err);
    await lab.applyManifest();
    assert.equal((await blocks(lab)).length, 4);
    const { code, err } = await replace(lab);
    assert.equal(code, 1);
    assert.match(err, /no pod of coild is ready/);
    assert.equal(await phase(lab), "waiting for v2");
    await lab.installV2();
    assert.equal(await phase(lab), "replacing pods");
  });

  await t.step("a block was edited", async () => {
    const labels = {
      "coil.cybozu.com/pool": "web",
      "coil.cybozu.com/node": "node1",
      "coil.cybozu.com/reserved": "true",
    };
    await plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressBlock",
      metadata: { name: "web-9-v1", labels },
      index: 9,
      ipv4: "10.65.0.8/30",
    });
    const { code, err } = await replace(lab);
    assert.equal(code, 1);
    assert.match(
      err,
      /web-9-v1 is 10.65.0.8\/30, but index 9 of pool web is 10.65.0.36\/30/,
    );
    await plane.kubectl("delete", "addressblock", "web-9-v1");

    // Where it is stays as it was; whose it is does not.
    await plane.kubectl(
      ...["label", "addressblock", "web-0-v1", "--overwrite"],
      "coil.cybozu.com/node=node2",
    );
    const edited =
      /AddressBlock web-0-v1 is not as coil migrate dump wrote it: index 0, 10.65.0.0\/30, pool web, node node2/;
    assert.match((await lab.migrate(["status"])).out, edited);
    const refused = await replace(lab);
    assert.equal(refused.code, 1);
    assert.match(refused.err, edited);
    assert.match(refused.err, /Apply the manifest again/);
    await plane.kubectl(
      ...["apply", "--server-side", "--field-manager=coil-migrator"],
      ...["--force-conflicts", "-f", lab.manifest],
    );
    assert.doesNotMatch((await lab.migrate(["status"])).out, edited);
  });

  await t.step("nothing is done without a yes, nor in a dry run", async () => {
    const dry = await lab.migrate(["replace", "--dry-run"]);
    assert.equal(dry.code, 0, dry.err);
    assert.match(
      dry.err,
      /6 pods of v1 to replace, on 2 nodes; 4 reserved blocks/,
    );
    assert.match(dry.err, /apps\/lonely on node node1: kept: no controller/);
    const nobody = await lab.migrate(["replace"]);
    assert.equal(nobody.code, 1);
    assert.match(nobody.err, /Use --yes/);
    const declined = await lab.migrate(["replace"], { answer: false });
    assert.match(declined.err, /Aborted/);
    assert.equal(ofV1(lab, "").length, 7);
  });

  await t.step("a PodDisruptionBudget never allows it", async () => {
    const args = ["--namespace=apps", "--node=node1", "--eviction-timeout=3s"];
    const { code, err } = await replace(lab, args);
    assert.equal(code, 1, err);
    assert.match(
      err,
      /Cannot evict pod apps\/guarded-[^]*disruption budget strict[^]*pods of v1 left[^]*run the same command again/,
    );
    assert.equal(ofV1(lab, "apps/guarded").length, 1);
    await plane.kubectl("delete", "pdb", "-n", "apps", "strict");
  });

  await t.step("a pod does not come back", async () => {
    kubelet.stuck = ({ metadata }) =>
      metadata?.labels?.["app"] === "front" ? "CrashLoopBackOff" : undefined;
    // Long enough for the pod to be there and to say why it is not ready.
    const args = ["--namespace=web", "--pod-timeout=40s"];
    const { code, err } = await replace(lab, args);
    assert.equal(code, 1, err);
    assert.match(
      err,
      /pod web\/front-\S+ of ReplicaSet web\/front-\S+ does not come back/,
    );
    assert.match(err, /container main: CrashLoopBackOff: as the test wants it/);
    assert.equal(
      ofV1(lab, "web/front").length,
      1,
      "the other one is left alone",
    );
    kubelet.stuck = () => undefined;
  });

  await t.step("it is killed in the middle", async () => {
    const before = ofV1(lab, "").length;
    const { promise: killed, resolve: goOn } = Promise.withResolvers<void>();
    await using stack = new AsyncDisposableStack();
    stack.defer(() => {
      kubelet.beforeEnd = () => Promise.resolve();
      goOn();
    });
    // It cannot come to its end before the kill: only the first pod ends.
    let ended = 0;
    kubelet.beforeEnd = () => ended++ === 0 ? Promise.resolve() : killed;
    const process = stack.use(
      await lab.spawn(["replace", "--yes", "--interval=0s"]),
    );
    await eventually("the first pod", async () => {
      const text = await process.logs();
      assert.ok(process.isRunning, text);
      return text.includes(": replaced");
    });
    await process.kill9();
    assert.ok(ofV1(lab, "").length < before);
    assert.equal(await phase(lab), "replacing pods");
  });

  await t.step("the API server is away in the middle", async () => {
    let outage: Promise<void> | undefined;
    const { code, err } = await replace(lab, ["--namespace=web,apps"], {
      onText: (text) => {
        if (!text.includes("] ")) return;
        outage ??= (async () => {
          await plane.killApiServer();
          await sleep(2_000);
          await plane.startApiServer();
        })();
      },
    }).finally(() => outage);
    assert.notEqual(outage, undefined);
    assert.equal(code, 3, err);
    assert.deepEqual(ofV1(lab, ""), ["apps/lonely"]);
    assert.match(err, /Kept, with 1 reserved block/);
    assert.deepEqual(await blocks(lab), ["default-0-v1"]);
  });

  await t.step(
    "a pod without a controller is kept, with its block and its network",
    async () => {
      const [lonely] = kubelet.running.filter(({ name }) => name === "lonely");
      assert.ok(lonely);
      const node = lab.lab.node(1);
      await node.run("ping", "-nqc1", "-w20", lonely.address);
      assert.ok((await exportedBy(node)).includes("10.64.0.0/29"));
      const { code, err } = await replace(lab);
      assert.equal(code, 3, err);
      assert.match(err, /apps\/lonely on node node1: no controller/);
      await node.run("ping", "-nqc1", "-w20", lonely.address);
    },
  );

  await t.step(
    "interrupted after the last pod, while a block is removed, while coild restarts",
    async () => {
      const finalizers = ["coil.cybozu.com", "example.com/hold"];
      await plane.kubectl(
        ...["patch", "addressblock", "default-0-v1", "--type=merge", "-p"],
        JSON.stringify({ metadata: { finalizers } }),
      );
      const interrupted = async (isMoment: (text: string) => boolean) => {
        const stop = new AbortController();
        await assert.rejects(
          replace(lab, ["--force"], {
            signal: stop.signal,
            onText: (text) => {
              if (isMoment(text)) stop.abort(new Error("Ctrl-C"));
            },
          }),
          /Ctrl-C/,
        );
      };
      await interrupted((text) =>
        text.includes("lonely on node node1: deleted")
      );
      assert.equal(await phase(lab), "releasing blocks");
      const stop = new AbortController();
      const waiting = assert.rejects(
        replace(lab, ["--force"], { signal: stop.signal }),
        /Ctrl-C/,
      );
      await eventually("the block to be deleted", async () => {
        const text = await plane.kubectl(
          ...["get", "addressblock", "default-0-v1", "-o"],
          "jsonpath={.metadata.deletionTimestamp}",
        );
        return text !== "";
      });
      stop.abort(new Error("Ctrl-C"));
      await waiting;
      // Ours was taken off; another's is waited for.
      await plane.kubectl(
        ...["patch", "addressblock", "default-0-v1", "--type=merge", "-p"],
        '{"metadata":{"finalizers":null}}',
      );
      await interrupted((text) => text.includes(": restarted"));
      assert.equal(await phase(lab), "restarting coild");
    },
  );

  await t.step("it comes to its end, and again does nothing", async () => {
    const { code, err } = await replace(lab);
    assert.equal(code, 0, err);
    assert.match(err, /Done: no pod has an address of v1/);
    assert.equal(await phase(lab), "done");
    assert.deepEqual(await blocks(lab), []);
    assert.deepEqual(kubelet.violations, []);
    const again = await replace(lab);
    assert.equal(again.code, 0, again.err);
    assert.match(again.err, /Nothing to do/);
    for (const { node, address } of kubelet.running) {
      await node.run("ping", "-nqc1", "-w20", address);
    }
  });

  const reserve = async (index: number, node: string, ipv4: string) => {
    const name = `default-${index}-v1`;
    const labels = {
      "coil.cybozu.com/pool": "default",
      "coil.cybozu.com/node": node,
      "coil.cybozu.com/reserved": "true",
    };
    await plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressBlock",
      metadata: { name, labels },
      index,
      ipv4,
    });
  };

  await t.step(
    "a block that is reserved afterwards is removed, and interrupted then it is not done",
    async () => {
      await reserve(30, "node1", "10.64.0.240/29");
      const stop = new AbortController();
      const interrupted = replace(lab, [], {
        signal: stop.signal,
        onText: (text) => {
          if (text.includes("default-30-v1 of node node1 removed")) {
            stop.abort(new Error("Ctrl-C"));
          }
        },
      });
      await assert.rejects(interrupted, /Ctrl-C/);
      assert.deepEqual(await blocks(lab), []);
      assert.equal(await phase(lab), "restarting coild");
      const { code, err } = await replace(lab);
      assert.equal(code, 0, err);
      assert.match(err, /on node node1: restarted/);
      assert.equal(await phase(lab), "done");
    },
  );

  await t.step(
    "killed while a block is removed, then without API server there, it comes to its end",
    async () => {
      const held = "default-28-v1";
      await reserve(28, "node1", "10.64.0.224/29");
      await reserve(29, "node2", "10.64.0.232/29");
      const setFinalizers = async (finalizers: readonly string[] | null) => {
        await plane.kubectl(
          ...["patch", "addressblock", held, "--type=merge", "-p"],
          JSON.stringify({ metadata: { finalizers } }),
        );
      };
      await setFinalizers(["example.com/hold"]);
      await using process = await lab.spawn(
        ["replace", "--yes", "--interval=0s"],
      );
      await eventually("the block to be deleted", async () => {
        assert.ok(process.isRunning, await process.logs());
        const text = await plane.kubectl(
          ...["get", "addressblock", held, "-o"],
          "jsonpath={.metadata.deletionTimestamp}",
        );
        return text !== "";
      });
      await process.kill9();
      assert.deepEqual(await blocks(lab), [held, "default-29-v1"]);
      assert.equal(await phase(lab), "releasing blocks");

      const recordVersion = () =>
        plane.kubectl(
          ...["get", "cm", "-n", "kube-system", "coil-migration", "-o"],
          "jsonpath={.metadata.resourceVersion}",
        );
      const before = await recordVersion();
      // The record has times in whole seconds.
      await sleep(1_100);
      const replacing = replace(lab);
      // It notes that it removes blocks, and waits for this one then.
      await eventually(
        "blocks to be removed again",
        async () => await recordVersion() !== before,
      );
      await plane.killApiServer();
      await sleep(2_000);
      await plane.startApiServer();
      await setFinalizers(null);
      const { code, err } = await replacing;
      assert.equal(code, 0, err);
      for (const node of ["node1", "node2"]) {
        assert.match(err, new RegExp(`on node ${node}: restarted`));
      }
      assert.deepEqual(await blocks(lab), []);
      assert.equal(await phase(lab), "done");
    },
  );

  await t.step("a block of a node without coild is kept", async () => {
    await plane.apply({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "node9" },
    });
    await reserve(31, "node9", "10.64.0.248/29");
    const { code, err } = await replace(lab);
    assert.equal(code, 3, err);
    assert.match(
      err,
      /Kept 1 reserved block without pods, because coild is not ready on node9/,
    );
    assert.deepEqual(await blocks(lab), ["default-31-v1"]);
    assert.equal(await phase(lab), "releasing blocks");
  });
});
