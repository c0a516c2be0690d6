// Coil's programs with just what their manifests give them: the capabilities,
// the user, a read-only /proc/sys, and under the policies. Capabilities are
// read from the manifests, so what is written there is what is tried.
import assert from "node:assert/strict";
import { parse } from "yaml";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { CoilCluster } from "../lab/coil.ts";
import {
  type Confinement,
  containedBy,
  holdHostMountPoint,
} from "../lab/host_mount.ts";
import { eventually, type LabNode, type LabProcess } from "../lab/mod.ts";

const DEPLOY = new URL("../../deploy/", import.meta.url).pathname;

interface Container {
  readonly securityContext: {
    readonly capabilities: { readonly add?: readonly string[] };
    readonly runAsUser?: number;
  };
}

interface Workload {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly securityContext: { readonly runAsUser?: number };
        readonly containers: readonly [Container];
      };
    };
  };
}

/** What a manifest leaves its program. */
async function confinementOf(manifest: string): Promise<Confinement> {
  const text = await Deno.readTextFile(`${DEPLOY}${manifest}`);
  const { spec: { template: { spec } } } = parse(text) as Workload;
  const { capabilities, runAsUser } = spec.containers[0].securityContext;
  const user = runAsUser ?? spec.securityContext.runAsUser;
  assert.ok(user !== undefined);
  return { capabilities: capabilities.add ?? [], user };
}

/** Starts a role as its container would be. */
async function startConfined(
  cluster: CoilCluster,
  role: "coild" | "coil-router",
  { manifest, node, args = [] }: {
    readonly manifest: string;
    readonly node: LabNode;
    readonly args?: readonly string[];
  },
): Promise<LabProcess> {
  const { plane, binDir } = cluster;
  const [command = "", ...rest] = containedBy(await confinementOf(manifest));
  return await plane.startProcess({
    id: `${role}-${node.name}`,
    node,
    command,
    args: [...rest, `${binDir}/${role}`, ...args],
    serviceAccount: { namespace: "kube-system", name: role },
    env: { COIL_NODE_NAME: node.name },
  });
}

/** What a process has, as /proc says it. */
async function capabilitiesOf({ pid }: LabProcess): Promise<string> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return /^CapEff:\s*(\w+)$/m.exec(status)?.[1] ?? "";
}

/** NET_ADMIN is bit 12, SYS_ADMIN bit 21: <linux/capability.h>. */
const NET_ADMIN = (1 << 12).toString(16).padStart(16, "0");
const NET_AND_SYS_ADMIN = (1 << 12 | 1 << 21).toString(16).padStart(16, "0");

Deno.test("W48: coild and coil-router do their work with the capabilities of their manifests, under the policies", async (t) => {
  await using _host = await holdHostMountPoint();
  await using cluster = await CoilCluster.start({
    name: "capabilities",
    executable: await buildExecutable(),
    nodes: 2,
  });
  await using programs = new AsyncDisposableStack();
  const { plane, nodes } = cluster;
  await plane.kubectl("apply", "-k", `${DEPLOY}policies`);
  await plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: {
      blockSizeBits: 1,
      subnets: [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }],
    },
  });
  await cluster.startController();
  const [first, second] = nodes;
  assert.ok(first !== undefined && second !== undefined);
  for (const node of [first, second]) {
    const daemon = programs.use(
      await startConfined(cluster, "coild", {
        manifest: "coild/daemonset.yaml",
        node,
        args: [
          `--socket=${cluster.socketOf(node)}`,
          ...["--block-return-delay=1s", "--cooldown=0s"],
          "--block-request-timeout=60s",
        ],
      }),
    );
    await eventually(`coild of ${node.name}`, async () => {
      assert.ok(daemon.isRunning, await daemon.logs());
      return await cluster.status(node);
    });
    assert.equal(await capabilitiesOf(daemon), NET_AND_SYS_ADMIN);
    const router = programs.use(
      await startConfined(cluster, "coil-router", {
        manifest: "coil-router/daemonset.yaml",
        node,
      }),
    );
    await eventually(`coil-router of ${node.name}`, async () => {
      assert.ok(router.isRunning, await router.logs());
      return await capabilitiesOf(router) === NET_ADMIN;
    });
  }

  await t.step("pods of both nodes reach each other", async () => {
    const pods = [];
    for (const [i, node] of [first, first, first, second].entries()) {
      const pod = { namespace: "default", name: `p${i}` };
      pods.push(
        await cluster.add(node, await cluster.createSandbox(node, pod)),
      );
    }
    const [client] = pods;
    const target = pods.at(-1);
    assert.ok(client !== undefined && target !== undefined);
    for (const address of target.addresses) {
      await eventually(
        `a route to ${address}`,
        () =>
          cluster.exec(client.sandbox, "ping", "-c1", "-W1", address)
            .then(() => true, () => false),
      );
    }
    for (const { node, sandbox } of pods) {
      await cluster.del(node, sandbox);
      await cluster.removeSandbox(sandbox);
    }
  });

  await t.step("forwarding was switched on, by the volume", async () => {
    for (const node of [first, second]) {
      assert.match(
        await cluster.exec(
          { ...nowhere(), netns: node.netns },
          "sysctl",
          "net.ipv4.ip_forward",
          "net.ipv6.conf.all.forwarding",
        ),
        /ip_forward = 1[^]*forwarding = 1/,
      );
    }
  });

  await t.step("blocks are given back, which the policies allow", async () => {
    await eventually("no more blocks than one for each node", async () => {
      const names = await plane.kubectl("get", "addressblocks", "-o", "name");
      return names.split("\n").filter(Boolean).length <= 2;
    });
  });
});

/** A sandbox of which only the namespace counts. */
function nowhere() {
  return { containerId: "", namespace: "", pod: "", ifname: "" };
}
