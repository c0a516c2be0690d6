// coil ipam check --repair: objects by the admin's own rights, addresses of a
// node by a real coild, also while pods come and go.
import assert from "node:assert/strict";
import { jittered, sleep } from "../../lib/async/mod.ts";
import {
  askRelease,
  type ReleaseResult,
  type TableEntry,
} from "../../lib/cnirpc/inspection/mod.ts";
import { coil, type Output } from "../../roles/cli/testing.ts";
import { testedSessions } from "../arch/pages.ts";
import {
  awaitedLater,
  type ControlPlane,
  eventually,
  startCoilPlane,
} from "../lab/mod.ts";
import { untilAllowed } from "./access.ts";
import {
  addressesAt,
  coilPatiently,
  patiently,
  untilSaid,
} from "./coild_admin.ts";
import { CoildLab, inPod, type Sandbox } from "./coild_lab.ts";
import { addPod, block, pool } from "./ipam_books.ts";
import { addReportedPod, patchStatus } from "./patch_status.ts";

const REQUESTS = "/apis/coil.cybozu.com/v2/blockrequests";

/** Of a request that the controller has refused. */
const FAILED = {
  type: "Failed",
  status: "True",
  reason: "out of blocks",
  message: 'AddressPool "default" has no free block',
  lastProbeTime: "2026-01-01T00:00:00Z",
  lastTransitionTime: "2026-01-01T00:00:00Z",
};

/** A block as coil-controller makes it. */
function finalized(
  of: readonly [string, number, string],
  ipv4: string,
  labels: Readonly<Record<string, string>> = {},
): object {
  const made = block(of, { ipv4 }) as {
    metadata: { labels: Record<string, string> };
  };
  const { metadata } = made;
  return {
    ...made,
    metadata: {
      ...metadata,
      labels: { ...metadata.labels, ...labels },
      finalizers: ["coil.cybozu.com"],
    },
  };
}

function request(name: string, nodeName: string): object {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "BlockRequest",
    metadata: { name },
    spec: { nodeName, poolName: "default" },
  };
}

interface Report {
  readonly repairs: readonly { object: string; message: string }[];
  readonly problems: readonly {
    object: string;
    code: string;
    message: string;
  }[];
}

/** Reasons and objects of the Events of repairs so far; the API server has some of its own. */
async function eventsOf(plane: ControlPlane): Promise<string[]> {
  const text = await plane.kubectl("get", "events", "-A", "-o", "json");
  const { items } = JSON.parse(text) as {
    items: {
      reason: string;
      involvedObject: { kind: string; name: string };
    }[];
  };
  return items.filter(({ involvedObject }) => involvedObject.kind !== "Service")
    .map(({ reason, involvedObject: { kind, name } }) =>
      `${reason} ${kind} ${name}`
    ).toSorted();
}

Deno.test("coil ipam check --repair mends objects only with proof", async (t) => {
  await using plane = await startCoilPlane({ name: "repairobjects" });
  const node = (name: string) => ({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
  });
  await plane.apply(
    node("node1"),
    pool("default", [{ ipv4: "10.116.0.0/24" }]),
    finalized(["default", 0, "node1"], "10.116.0.0/27"),
    finalized(["default", 1, "gone"], "10.116.0.32/27"),
    finalized(["lost", 0, "node1"], "10.115.0.0/27"),
  );
  await addPod(plane, ["default", "holder", "node1"], ["10.115.0.5"]);

  // Everything here is an hour old.
  const now = () => new Date(Date.now() + 3_600_000);
  const check = (...args: readonly string[]): Promise<Output> =>
    coil(
      [
        "ipam",
        "check",
        "--repair",
        `--kubeconfig=${plane.kubeconfig}`,
        ...args,
      ],
      { now },
    );
  const report = async (...args: readonly string[]): Promise<Report> =>
    JSON.parse((await check("-o=json", ...args)).out);
  const names = async (plural: string): Promise<string[]> =>
    (await plane.kubectl("get", plural, "-o", "name")).trim().split("\n")
      .filter(Boolean).map((name) => name.split("/")[1] ?? "");

  const sessions = await testedSessions("docs/roles/coil.md", import.meta.url);
  const [session] = sessions;
  await t.step("the document shows a dry run", async () => {
    assert.equal(sessions.length, 1);
    const [, ...args] = session?.command.split(" ") ?? [];
    const { code, out, err } = await coil(
      [...args, `--kubeconfig=${plane.kubeconfig}`],
      { now },
    );
    assert.equal(out + err, session?.output);
    assert.equal(code, 3);
    assert.deepEqual(await names("addressblocks"), [
      "default-0",
      "default-1",
      "lost-0",
    ]);
    assert.deepEqual(await eventsOf(plane), []);
  });

  await t.step("it does what the dry run said, with an Event", async () => {
    const { code, out, err } = await check();
    assert.equal(err, "");
    assert.equal(`${out}Dry run: nothing was changed\n`, session?.output);
    assert.equal(code, 3);
    assert.deepEqual(await names("addressblocks"), ["default-0", "lost-0"]);
    assert.deepEqual(await eventsOf(plane), [
      "OrphanedBlockReleased AddressBlock default-1",
    ]);
  });

  await t.step(
    "blocks that may be in use stay, each with its reason",
    async () => {
      await plane.apply(
        finalized(["default", 2, "off"], "10.116.0.64/27"),
        finalized(["default", 3, "away"], "10.116.0.96/27"),
        finalized(["default", 4, "gone"], "10.116.0.128/27", {
          "coil.cybozu.com/reserved": "true",
        }),
        finalized(["default", 5, ""], "10.116.0.160/27"),
        finalized(["lost", 1, "node1"], "10.115.0.32/27"),
      );
      // Of a host network, ended: still bound to the Node that is missing.
      await addPod(plane, ["default", "proxy", "off"], [], {
        hostNetwork: true,
        phase: "Failed",
      });
      await addPod(plane, ["default", "moved", "node1"], ["10.116.0.97"]);
      const before = await names("addressblocks");
      const { repairs, problems } = await report();
      assert.deepEqual(repairs, []);
      const whys = problems.filter(({ object }) => object.includes("Block"))
        .map(({ object, message }) =>
          `${object.split(" ")[1]}: ${message.split("; not repaired: ")[1]}`
        );
      assert.deepEqual([...new Set(whys)].toSorted(), [
        "default-2: Pod default/proxy is bound to Node off, so the machine may still run",
        "default-3: Pod default/moved has an address of it",
        "default-4: it is reserved for a migration from Coil v1",
        "default-5: which addresses of which node it has is not known; undo the edit",
        "default-5: without a label of its node, any node may use it",
        "lost-0: Pod default/holder has an address of it",
        "lost-1: Node node1 exists, and its coild returns the block when it is empty",
      ]);
      assert.deepEqual(await names("addressblocks"), before);
    },
  );

  await t.step("a block without node and pool is one repair", async () => {
    await plane.apply(finalized(["lost", 2, "gone"], "10.115.0.64/27"));
    const { repairs } = await report();
    assert.deepEqual(repairs.map(({ object }) => object), [
      "AddressBlock lost-2",
    ]);
  });

  await t.step("requests that are old, and refused or of no node", async () => {
    await plane.apply(
      request("refused", "node1"),
      request("waiting", "node1"),
      request("orphan", "gone"),
    );
    await patchStatus(plane, `${REQUESTS}/refused`, { conditions: [FAILED] });
    const young = await report("--min-age=2h");
    assert.deepEqual(young.repairs, []);
    const { repairs, problems } = await report();
    assert.deepEqual(
      repairs.map(({ object }) => object).toSorted(),
      ["BlockRequest orphan", "BlockRequest refused"],
    );
    assert.deepEqual(await names("blockrequests"), ["waiting"]);
    const kept = problems.find(({ object }) =>
      object === "BlockRequest waiting"
    );
    assert.match(kept?.message ?? "", /not repaired: coil-controller may/);
    assert.deepEqual(await eventsOf(plane), [
      "OldRequestDeleted BlockRequest orphan",
      "OldRequestDeleted BlockRequest refused",
      "OrphanedBlockReleased AddressBlock default-1",
      "OrphanedBlockReleased AddressBlock lost-2",
    ]);
  });

  await t.step("what is forbidden is not done, and said", async () => {
    await plane.apply(finalized(["default", 6, "gone"], "10.116.0.192/27"));
    const kinds = ["nodes", "pods", "addressblocks.coil.cybozu.com"];
    await plane.kubectl(
      ...["create", "clusterrole", "reader", "--verb=get,list"],
      `--resource=${kinds.join()}`,
    );
    await plane.kubectl(
      ...["create", "clusterrolebinding", "reader"],
      ...["--clusterrole=reader", "--user=reader"],
    );
    const access = { user: "reader", verb: "list", resource: "nodes" };
    await untilAllowed(plane, access);
    const config = await plane.kubeconfigFor({ user: "reader" });
    const args = ["ipam", "check", "--repair", `--kubeconfig=${config}`];
    const { code, out } = await coil(args, { now });
    assert.equal(code, 3);
    assert.match(out, /AddressBlock default-6: .*not repaired: .*forbidden/);
    assert.ok((await names("addressblocks")).includes("default-6"));
    await plane.kubectl(
      ...["create", "clusterrole", "deleter", "--verb=delete,patch"],
      "--resource=addressblocks.coil.cybozu.com",
    );
    await plane.kubectl(
      ...["create", "clusterrolebinding", "deleter"],
      ...["--clusterrole=deleter", "--user=reader"],
    );
    await eventually("the new right", async () => {
      const { out, err } = await coil(args, { now });
      if (!out.includes("AddressBlock default-6: released")) return false;
      assert.equal(err, "Events not written: 1\n");
      return true;
    });
  });
});

Deno.test("coil ipam check --local --repair frees what nothing uses, and nothing else", async (t) => {
  await using lab = await CoildLab.start({ name: "repairnodes" });
  // A range of this test alone: the namespaces of other tests are in /run/netns too.
  await lab.createPool("default", [
    { ipv4: "10.117.0.0/24", ipv6: "fd02::117:0/120" },
  ]);
  lab.granter.start();
  // Its own comparison frees some of these addresses, too; the first comes after half of this time at the earliest.
  await using coild = await lab.startCoild(lab.node(), [
    "--addressblock-gc-interval=2h",
  ]);
  const { socketPath, node } = coild;

  const add = (name: string) => addReportedPod(lab, coild, name);
  const table = async (): Promise<readonly TableEntry[]> => {
    const { table } = await addressesAt(socketPath);
    return table;
  };
  const entryOf = async ({ containerId }: Sandbox): Promise<TableEntry> => {
    const entry = (await table()).find((e) => e.containerId === containerId);
    assert.ok(entry);
    return entry;
  };
  const release = async (
    ...entries: readonly TableEntry[]
  ): Promise<readonly ReleaseResult[]> => {
    const { results } = await patiently(() =>
      askRelease(socketPath, {
        entries,
        dryRun: false,
        signal: AbortSignal.timeout(20_000),
      })
    );
    return results;
  };
  /** What coild says about a pod's addresses, asked to release them. */
  const answerAbout = async (pod: Sandbox): Promise<string> => {
    const [result] = await release(await entryOf(pod));
    return `${result?.outcome}: ${result?.why}`;
  };
  const repair = (...args: readonly string[]): Promise<Output> =>
    coilPatiently([
      ...["ipam", "check", "--local", "--repair", "--min-age=0s"],
      `--socket=${socketPath}`,
      ...args,
    ]);
  /** Deletes a pod's object, and waits until coild no longer has it in its cache. */
  const deletePod = async (pod: Sandbox) => {
    await lab.deletePod(pod);
    await untilSaid(
      `${pod.name} to be unknown`,
      socketPath,
      ({ pods }) => pods?.every(({ name }) => name !== pod.name) === true,
    );
  };
  /** As when the host's end goes, which takes the pod's end along. */
  const loseInterface = async (pod: Sandbox) => {
    const [address = ""] = (await entryOf(pod)).addresses;
    await inPod(pod, "ip", "link", "delete", "eth0");
    await eventually("the loss of the interface", async () => {
      const routes = await node.run("ip", "route", "show", "table", "116");
      return !routes.includes(`${address} `);
    });
  };

  await t.step("an address without interface and pod is freed", async () => {
    const pod = await add("lost");
    const { addresses } = await entryOf(pod);
    await loseInterface(pod);
    await deletePod(pod);
    const dry = await repair("--dry-run");
    assert.equal(
      dry.out,
      `1 repair:
  Address ${addresses[0]} on Node ${node.name}: freed ${
        addresses.join(" and ")
      } of container ${pod.containerId}:eth0: no interface, network namespace or pod of the node has them

No problems found
`,
    );
    assert.deepEqual(
      [dry.code, dry.err],
      [3, "Dry run: nothing was changed\n"],
    );
    await entryOf(pod);
    assert.deepEqual(await repair(), { code: 0, out: dry.out, err: "" });
    assert.deepEqual(await table(), []);
    await eventually(
      "the Event",
      async () =>
        (await eventsOf(lab.plane)).includes(
          `LeakedAddressesFreed Node ${node.name}`,
        ),
    );
    const again = await repair();
    assert.deepEqual([again.code, again.out], [0, "No problems found\n"]);
    await coild.del(pod);
    await lab.deleteNetns(pod);
  });

  await t.step("each of the three alone keeps it", async () => {
    const pod = await add("kept");
    const [address = ""] = (await entryOf(pod)).addresses;
    // A pod without addresses is another finding, which the second look no longer has.
    await untilSaid(
      "the pod's addresses",
      socketPath,
      ({ pods = [] }) => pods.some((each) => each.addresses.includes(address)),
    );
    assert.equal(await answerAbout(pod), "kept: its interface is there");
    await loseInterface(pod);
    assert.equal(
      await answerAbout(pod),
      `kept: ${address}: Pod default/kept has it`,
    );
    const { code, out } = await repair();
    assert.equal(code, 3);
    assert.match(out, /^1 problem:\n/);
    assert.match(out, /not repaired: only a new sandbox gets an interface/);
    await lab.deletePod(pod);
    // As an interface that another program has put in its place.
    const veth = ["type", "veth", "peer", "name", "peer"];
    await inPod(pod, "ip", "link", "add", "eth0", ...veth);
    await inPod(pod, "ip", "addr", "add", `${address}/32`, "dev", "eth0");
    assert.equal(
      await answerAbout(pod),
      `kept: ${address}: network namespace /run/netns/${pod.netns} has it`,
    );
    await inPod(pod, "ip", "link", "delete", "eth0");
    await node.run("ip", "link", "add", "other", ...veth);
    await node.run("ip", "link", "set", "other", "up");
    const route = ["route", "add", address, "dev", "other", "table", "116"];
    await node.run("ip", ...route);
    assert.equal(
      await answerAbout(pod),
      `kept: ${address}: the node has a route to a pod with it`,
    );
    await node.run("ip", "link", "delete", "other");
    const entry = await entryOf(pod);
    const [old] = await release({ ...entry, generation: 0 });
    assert.equal(old?.outcome, "gone");
    assert.equal(await answerAbout(pod), "freed: ");
    await coild.del(pod);
    await lab.deleteNetns(pod);
  });

  await t.step("while 100 pods come and go nothing live is freed", async () => {
    let isOver = false;
    const churn = async (name: string) => {
      for (let i = 0; i < 25 || !isOver; i++) {
        const pod = await add(`${name}-${i}`);
        await coild.check(pod);
        await coild.del(pod);
        await lab.deletePod(pod);
        await lab.deleteNetns(pod);
      }
    };
    const leaked = await add("leaked");
    await loseInterface(leaked);
    await lab.deletePod(leaked);
    const churning = awaitedLater(
      Promise.all(["a", "b", "c", "d"].map((name) => churn(name))),
    );
    const freed: string[] = [];
    let asked = 0;
    for (let look = 0; look < 12; look++) {
      // All entries of the table, whether the check found them or not.
      const results = await release(...await table());
      asked += results.length;
      for (const { outcome, containerId } of results) {
        if (outcome === "freed") freed.push(containerId);
      }
      await sleep(jittered(500));
    }
    isOver = true;
    await churning;
    assert.ok(asked >= 4, `${asked} entries`);
    assert.deepEqual(freed, [leaked.containerId]);
    // A pod that coild still has in its cache would be reported: it has an address, but no interface.
    await untilSaid(
      "the last pods to be unknown",
      socketPath,
      ({ pods }) => pods?.length === 0,
    );
    const { code, out } = await repair();
    assert.deepEqual([code, out], [0, "No problems found\n"]);
    await eventually(
      "the last teardown",
      async () => (await table()).length === 0,
    );
  });

  await t.step("without the API server nothing is freed", async () => {
    const pod = await add("unknown");
    await loseInterface(pod);
    await lab.deletePod(pod);
    await lab.plane.killApiServer();
    assert.match(
      await answerAbout(pod),
      /^kept: the API server did not list the node's pods: /,
    );
    await entryOf(pod);
    await lab.plane.startApiServer();
    await eventually(
      "the API server to answer coild",
      async () => await answerAbout(pod) === "freed: ",
    );
  });
});
