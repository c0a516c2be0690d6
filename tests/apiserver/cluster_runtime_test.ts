// STATUS, ADD, CHECK, DEL and GC as container runtimes call them, by their own
// libraries: go-cni of containerd 2, and for GC, which CRI-O calls, libcni. The
// plugin is the compiled one, and so are coild and coil-controller behind it.
import assert from "node:assert/strict";
import * as path from "node:path";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { withCniCache } from "../lab/cni_cache.ts";
import { CoilCluster } from "../lab/coil.ts";
import { ensureContainerd2 } from "../lab/containerd.ts";
import {
  CommandError,
  eventually,
  inNetns,
  type LabNode,
  run,
} from "../lab/mod.ts";

/** What a runtime has on a node: its configuration, plugins, and pods' namespaces. */
class Runtime {
  readonly cluster: CoilCluster;
  readonly node: LabNode;
  readonly #cnicall: string;
  readonly #directory: string;
  readonly #cache: string;

  constructor(cluster: CoilCluster, node: LabNode, cnicall: string) {
    [this.cluster, this.node, this.#cnicall] = [cluster, node, cnicall];
    this.#directory = path.join(cluster.plane.runDir, "cni");
    this.#cache = path.join(cluster.plane.runDir, "cni-cache");
  }

  /** Writes the configuration as the manifests have it, and more plugins behind. */
  async configure(behind: readonly string[] = []): Promise<void> {
    await Deno.mkdir(this.#directory, { recursive: true });
    await Deno.mkdir(this.#cache, { recursive: true });
    await Deno.writeTextFile(
      path.join(this.#directory, "10-coil.conflist"),
      JSON.stringify({
        cniVersion: "1.0.0",
        cniVersions: ["1.0.0", "1.1.0"],
        name: "k8s-pod-network",
        plugins: [{
          type: "coil",
          socket: this.cluster.socketOf(this.node),
          capabilities: { "io.kubernetes.cri.pod-annotations": true },
        }, ...behind.map((type) => ({ type }))],
      }),
    );
  }

  /** Makes a call in the node's network. @throws {CommandError} when a plugin refuses. */
  async call(...args: readonly string[]): Promise<string> {
    const plugins = this.cluster.pluginDir(this.node);
    const [program, ...rest] = withCniCache(this.#cache, [
      ...[this.#cnicall, this.#directory, plugins, ...args],
    ]);
    return await inNetns(this.node.netns, program, rest);
  }

  netnsOf(pod: string): string {
    return `coil-${this.cluster.plane.name}-pod-${pod}`;
  }

  /** A pod's object and namespace, and its ADD. */
  async start(pod: string): Promise<void> {
    const uri = "/api/v1/namespaces/default/pods";
    await this.cluster.plane.request("POST", uri, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: pod },
      spec: {
        nodeName: this.node.name,
        containers: [{ name: "main", image: "none" }],
      },
    });
    await run("ip", ["netns", "add", this.netnsOf(pod)]);
    await this.attach("setup", pod);
  }

  async attach(verb: "setup" | "check" | "remove", pod: string) {
    return await this.call(verb, pod, `/run/netns/${this.netnsOf(pod)}`);
  }

  /** Containers that the kernel has links of, by coild's names for them. */
  async linked(): Promise<readonly string[]> {
    const text = await this.node.run("ip", "-j", "link", "show");
    return (JSON.parse(text) as { ifalias?: string }[])
      .flatMap(({ ifalias = "" }) => {
        const [prefix, , container] = ifalias.split(":");
        return prefix === "COIL" && container !== undefined ? [container] : [];
      }).sort();
  }
}

async function refusal(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (error) {
    if (error instanceof CommandError) return error.message;
    throw error;
  }
  return assert.fail("the plugin did not refuse");
}

Deno.test("a runtime's libraries get STATUS, ADD, CHECK, DEL and GC from the plugin and coild", async (t) => {
  const { cnicall } = await ensureContainerd2();
  await using cluster = await CoilCluster.start({
    name: "runtimelib",
    executable: await buildExecutable(),
    nodes: 1,
    controllerManager: true,
  });
  const [node] = cluster.nodes;
  assert.ok(node !== undefined);
  await cluster.plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: {
      blockSizeBits: 2,
      subnets: [{ ipv4: "10.3.0.0/24", ipv6: "fd03::/120" }],
    },
  });
  const runtime = new Runtime(cluster, node, cnicall);
  await runtime.configure();

  await t.step("STATUS says why while there is no coild", async () => {
    assert.match(await refusal(runtime.call("status")), /coild is not running/);
  });

  await cluster.startController();
  await cluster.startCoild(node, ["--cooldown=0s"]);

  await t.step("STATUS, then pods come: each passes CHECK", async () => {
    await runtime.call("status");
    for (const pod of ["a", "b", "c"]) {
      await runtime.start(pod);
      await runtime.attach("check", pod);
    }
    assert.deepEqual(await runtime.linked(), ["a", "b", "c"]);
  });

  await t.step("CHECK finds a pod that lost its address", async () => {
    const netns = runtime.netnsOf("c");
    await run("ip", ["-n", netns, "address", "flush", "dev", "eth0"]);
    await refusal(runtime.attach("check", "c"));
    await runtime.attach("remove", "c");
    await runtime.attach("remove", "c");
  });

  await t.step(
    "GC takes what the runtime does not name, and nothing else",
    async () => {
      await runtime.call("gc", "a");
      await eventually(
        "b's link to be gone",
        async () => (await runtime.linked()).join() === "a",
      );
      await runtime.attach("check", "a");
      await refusal(runtime.attach("check", "b"));
      await runtime.call("gc", "a");
    },
  );

  await t.step("GC of a runtime without pods takes all", async () => {
    await runtime.call("gc");
    await eventually(
      "no link",
      async () => (await runtime.linked()).length === 0,
    );
  });

  await t.step(
    "chain-abort (containerd#12130): a plugin behind that is missing leaves one address for each sandbox, which GC frees",
    async () => {
      await runtime.configure(["absent"]);
      // The pool's blocks have four addresses: a leak of each attempt would show.
      for (let attempt = 0; attempt < 6; attempt++) {
        const verb = attempt === 0
          ? runtime.start("half")
          : runtime.attach("setup", "half");
        assert.match(await refusal(verb), /absent/);
        // The runtime's libraries begin with the last plugin, and give up.
        await refusal(runtime.attach("remove", "half"));
        assert.deepEqual(await runtime.linked(), ["half"]);
      }
      await runtime.configure();
      await runtime.call("gc");
      await eventually(
        "no link",
        async () => (await runtime.linked()).length === 0,
      );
    },
  );

  await t.step(
    "the addresses are free: as many pods as before come",
    async () => {
      for (const pod of ["d", "e", "f", "g"]) await runtime.start(pod);
      for (const pod of ["d", "e", "f", "g"]) {
        await runtime.attach(
          "check",
          pod,
        );
      }
    },
  );
});
