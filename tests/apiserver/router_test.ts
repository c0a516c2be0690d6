import assert from "node:assert/strict";
import {
  type ControlPlane,
  eventually,
  type LabNode,
  type LabProcess,
  startCoilPlane,
} from "../lab/mod.ts";
import { patchStatus } from "./patch_status.ts";

const MAIN = new URL("./router_main.ts", import.meta.url).pathname;

/** Neither in a lab's subnet nor reachable. */
const OFF_LINK = "192.0.2.1";

interface Rig {
  readonly plane: ControlPlane;
  /** Where the router runs. */
  readonly node: LabNode;
}

function block(
  name: string,
  node: string,
  addresses: { readonly ipv4?: string; readonly ipv6?: string },
): object {
  const index = Number(name.split("-").at(-1));
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name,
      labels: {
        "coil.cybozu.com/pool": name.slice(0, name.lastIndexOf("-")),
        "coil.cybozu.com/node": node,
      },
    },
    index,
    ...addresses,
  };
}

async function setAddresses(
  plane: ControlPlane,
  node: string,
  addresses: readonly string[],
): Promise<void> {
  await patchStatus(plane, `/api/v1/nodes/${node}`, {
    addresses: addresses.map((address) => ({ type: "InternalIP", address })),
  });
}

async function addBareNode(
  plane: ControlPlane,
  name: string,
  addresses: readonly string[],
): Promise<void> {
  await plane.apply({ apiVersion: "v1", kind: "Node", metadata: { name } });
  await setAddresses(plane, name, addresses);
}

/** The router's routes as `ip` shows them, without what is the same of all. */
async function routes({ node }: Rig): Promise<string[]> {
  const lines: string[] = [];
  for (const family of ["-4", "-6"]) {
    const text = await node.run("ip", family, "route", "show", "proto", "31");
    lines.push(...text.trim().split("\n").filter((line) => line !== ""));
  }
  return lines.map((line) =>
    line.replace(/ dev .*$/, "").replaceAll(/\s+/g, " ").trim()
  ).sort();
}

async function assertRoutes(
  rig: Rig,
  wanted: readonly string[],
): Promise<void> {
  const text = [...wanted].sort().join("\n");
  let seen = "";
  await eventually("the routes", async () => {
    seen = (await routes(rig)).join("\n");
    return seen === text;
  }).catch(() => assert.equal(seen, text));
}

async function metric({ node }: Rig, name: string): Promise<number> {
  const text = await node.run("curl", "-sS", "http://127.0.0.1:9388/metrics");
  const line = text.split("\n").find((l) => l.startsWith(`${name}{`)) ?? "";
  assert.match(line, /\{node="node1"\} /, `no ${name} of node1`);
  return Number(line.split(" ").at(-1));
}

async function startRouter({ plane, node }: Rig): Promise<LabProcess> {
  return await plane.startProcess({
    node,
    serviceAccount: { namespace: "kube-system", name: "coil-router" },
    command: Deno.execPath(),
    args: ["run", "--no-check", "-A", MAIN, "--update-interval=1h"],
    env: { COIL_NODE_NAME: node.name },
  });
}

Deno.test("coil-router keeps direct routes to the blocks of all other nodes", async (t) => {
  await using plane = await startCoilPlane({ name: "router" });
  const [node, node2, node3] = await Promise.all(
    [1, 2, 3].map((number) => plane.addNode(number)),
  );
  assert.ok(node && node2 && node3);
  await using _nodes = new AsyncDisposableStack();
  for (const each of [node, node2, node3]) _nodes.use(each);
  const rig = { plane, node };
  const [dual4 = "", dual6 = ""] = node2.addresses;
  const [only4 = "", only6 = ""] = node3.addresses;
  await addBareNode(plane, "v4-only", [only4]);
  await addBareNode(plane, "v6-only", [only6]);
  await plane.apply(
    block("p-0", "node1", { ipv4: "10.2.0.0/27", ipv6: "fd02::/123" }),
    block("p-1", "missing", { ipv4: "10.2.1.0/27", ipv6: "fd02::100/123" }),
    block("p-2", "v6-only", { ipv4: "10.2.2.0/27", ipv6: "fd02::200/123" }),
    block("p-3", "v4-only", { ipv4: "10.2.3.0/27", ipv6: "fd02::300/123" }),
    block("p-4", "node2", { ipv4: "10.2.4.0/27", ipv6: "fd02::400/123" }),
  );
  await node.run("ip", "route", "add", "10.9.0.0/24", "via", dual4);
  await using router = await startRouter(rig);
  const wanted = [
    `fd02::200/123 via ${only6}`,
    `10.2.3.0/27 via ${only4}`,
    `10.2.4.0/27 via ${dual4}`,
    `fd02::400/123 via ${dual6}`,
  ];

  await t.step(
    "SV-15: no route for the own and unknown nodes, others in their families",
    async () => {
      await eventually("readiness", async () => {
        const url = "http://127.0.0.1:9389/readyz";
        return await node.run("curl", "-sS", url) === "ok";
      });
      await assertRoutes(rig, wanted);
      await eventually(
        "the metric",
        async () => await metric(rig, "coil_router_routes_synced") === 4,
      );
    },
  );

  await t.step(
    "SV-16: blocks of one family join the node's gateway",
    async () => {
      await plane.apply(
        block("q-0", "node2", { ipv4: "10.3.0.0/27" }),
        block("r-0", "node2", { ipv6: "fd03::/123" }),
      );
      wanted.push(`10.3.0.0/27 via ${dual4}`, `fd03::/123 via ${dual6}`);
      await assertRoutes(rig, wanted);
      await eventually(
        "the metrics",
        async () =>
          await metric(rig, "coil_router_routes_synced") === 6 &&
          await metric(rig, "coil_router_syncs_total") >= 2,
      );
    },
  );

  await t.step("an address of the block is reached", async () => {
    for (const address of ["10.2.4.1/32", "fd02::401/128"]) {
      await node2.run("ip", "address", "add", address, "dev", "lo");
      const target = address.split("/")[0] ?? "";
      await eventually(
        `an answer of ${target}`,
        () => node.run("ping", "-c1", "-W2", target).then(() => true),
      );
    }
  });

  await t.step(
    "W44: a block that changes hands is replaced, never deleted first",
    async () => {
      const since = await startMonitor(rig);
      const labels = { "coil.cybozu.com/node": "v4-only" };
      await plane.request(
        "PATCH",
        "/apis/coil.cybozu.com/v2/addressblocks/q-0",
        { metadata: { labels } },
        { contentType: "application/merge-patch+json" },
      );
      wanted.splice(wanted.indexOf(`10.3.0.0/27 via ${dual4}`), 1);
      wanted.push(`10.3.0.0/27 via ${only4}`);
      await assertRoutes(rig, wanted);
      const seen = await since();
      assert.match(seen, new RegExp(`10\\.3\\.0\\.0/27 via ${only4}`));
      assert.doesNotMatch(seen, /Deleted 10\.3\.0\.0/);
    },
  );

  await t.step("W44: a node's new address takes effect at once", async () => {
    const other4 = otherAddress(only4);
    await setAddresses(plane, "v4-only", [other4]);
    for (const [i, line] of wanted.entries()) {
      if (line.endsWith(` ${only4}`)) {
        wanted[i] = line.replace(only4, other4);
      }
    }
    await assertRoutes(rig, wanted);
  });

  await t.step(
    "W44: a gateway out of reach costs only its own route",
    async () => {
      await addBareNode(plane, "far", [OFF_LINK]);
      await plane.apply(block("s-0", "far", { ipv4: "10.4.0.0/27" }));
      await plane.apply(block("s-1", "node2", { ipv4: "10.4.0.32/27" }));
      wanted.push(`10.4.0.32/27 via ${dual4}`);
      await assertRoutes(rig, wanted);
      await eventually(
        "the failure's metric",
        async () => await metric(rig, "coil_router_routes_failed") === 1,
      );
      await eventually(
        "the failure in the log",
        async () => /10\.4\.0\.0\/27.*192\.0\.2\.1/.test(await router.logs()),
      );
      assert.equal(router.isRunning, true);
      await setAddresses(plane, "far", [dual4]);
      wanted.push(`10.4.0.0/27 via ${dual4}`);
      await assertRoutes(rig, wanted);
      await eventually(
        "no failure",
        async () => await metric(rig, "coil_router_routes_failed") === 0,
      );
    },
  );

  await t.step(
    "a route that somebody deletes comes back with the next change",
    async () => {
      await node.run("ip", "route", "del", "10.4.0.0/27", "proto", "31");
      await plane.apply(block("s-2", "node2", { ipv4: "10.4.0.64/27" }));
      wanted.push(`10.4.0.64/27 via ${dual4}`);
      await assertRoutes(rig, wanted);
    },
  );

  await t.step("routes of blocks and nodes that are gone go", async () => {
    await plane.kubectl("delete", "addressblock", "p-4", "s-2");
    await plane.kubectl("delete", "node", "far");
    const gone = [
      "10.2.4.0/27",
      "fd02::400/123",
      "10.4.0.64/27",
      "10.4.0.0/27",
    ];
    await assertRoutes(
      rig,
      wanted.filter((line) =>
        !gone.some((cidr) => line.startsWith(`${cidr} `))
      ),
    );
  });

  await t.step(
    "routes of others stay, and at the end its own too",
    async () => {
      const before = await routes(rig);
      assert.equal(
        (await router.stop({ graceMs: 25_000 })).code,
        0,
        await router.logs(),
      );
      assert.deepEqual(await routes(rig), before);
      assert.match(await node.run("ip", "route"), /10\.9\.0\.0\/24 via/);
    },
  );
});

/** Another address of the same subnet; nobody has to answer there. */
function otherAddress(address: string): string {
  return address.replace(/\d+$/, (last) => String(Number(last) + 100));
}

/** Starts to write down changes of routes; the function returned ends it and returns them. */
async function startMonitor(
  { plane, node }: Rig,
): Promise<() => Promise<string>> {
  const monitor = await plane.startProcess({
    node,
    command: "ip",
    args: ["monitor", "route"],
  });
  /** Waits until it has written down all that has changed by now. */
  const hasSeen = (address: string) =>
    eventually("the monitor", async () => {
      const probe = `${address}/32`;
      await node.run("ip", "route", "replace", probe, "dev", "lo");
      await node.run("ip", "route", "del", probe);
      return (await monitor.logs()).includes(address);
    });
  await hasSeen("10.99.0.0");
  return async () => {
    await hasSeen("10.99.0.1");
    await monitor.stop();
    return await monitor.logs();
  };
}
