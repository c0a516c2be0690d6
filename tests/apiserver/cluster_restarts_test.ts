// Every daemon of a cluster is ended and started again under traffic: what
// packets of pods need on a node stays as it is, at the end and at the start.
import assert from "node:assert/strict";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { assertReachable } from "../hostile/probe.ts";
import { CoilCluster, type LabPod } from "../lab/coil.ts";
import { eventually, type LabNode, type LabProcess } from "../lab/mod.ts";

const COILD_ARGS = ["--block-return-delay=1h", "--cooldown=0s"];

/** What a daemon takes away shows as one of these; `ip monitor` and `nft monitor` print them. */
const REMOVAL = /^(\[\w+\])?Deleted |^delete /;

/** Writes down what changes in a network namespace. */
class Monitors {
  readonly #processes: readonly LabProcess[];
  readonly #exec: (...args: string[]) => Promise<unknown>;
  #marks = 0;

  private constructor(
    processes: readonly LabProcess[],
    exec: (...args: string[]) => Promise<unknown>,
  ) {
    this.#processes = processes;
    this.#exec = exec;
  }

  static async start(
    cluster: CoilCluster,
    netns: string,
    exec: (...args: string[]) => Promise<unknown>,
  ): Promise<Monitors> {
    const ip = ["monitor", "link", "address", "route", "rule", "neigh"];
    const commands = [["ip", ["-o", ...ip]], ["nft", ["monitor"]]] as const;
    const processes = await Promise.all(
      commands.map(([command, args]) =>
        cluster.plane.startProcess({ netns, command, args })
      ),
    );
    const monitors = new Monitors(processes, exec);
    await monitors.removals();
    return monitors;
  }

  /** All that was removed until now, but for marks and for neighbours that the kernel forgets. */
  async removals(): Promise<readonly string[]> {
    const mark = `10.99.0.${++this.#marks}`;
    const texts = await eventually(
      "the monitors to be up to date",
      async () => {
        await this.#exec("ip", "route", "replace", `${mark}/32`, "dev", "lo");
        await this.#exec("ip", "route", "del", `${mark}/32`);
        await this.#exec("nft", `add table ip mark${this.#marks}`);
        await this.#exec("nft", `delete table ip mark${this.#marks}`);
        const logs = await Promise.all(this.#processes.map((p) => p.logs()));
        const isSeen = logs[0]?.includes(`Deleted ${mark} `) &&
          logs[1]?.includes(`delete table ip mark${this.#marks}\n`);
        return isSeen ? logs : undefined;
      },
    );
    return texts.flatMap((text) => text.split("\n"))
      .filter((line) => REMOVAL.test(line))
      .filter((line) =>
        !/10\.99\.0\.| mark\d+$|lladdr|STALE|FAILED/.test(line)
      );
  }
}

Deno.test("coild, coil-router and coil-controller are restarted: nothing that packets of pods need is taken away for a moment", async (t) => {
  await using cluster = await CoilCluster.start({
    name: "restarts",
    executable: await buildExecutable(),
    nodes: 2,
  });
  const { plane } = cluster;
  const [first, second] = cluster.nodes;
  assert.ok(first !== undefined && second !== undefined);
  await plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: {
      blockSizeBits: 2,
      subnets: [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }],
    },
  });
  await cluster.startController();
  const routers = new Map<LabNode, LabProcess>();
  for (const node of cluster.nodes) {
    await cluster.startCoild(node, COILD_ARGS);
    routers.set(node, await cluster.startRouter(node));
  }
  const run = async (node: LabNode, name: string): Promise<LabPod> => {
    const pod = { namespace: "default", name };
    const made = await cluster.add(
      node,
      await cluster.createSandbox(node, pod),
    );
    await cluster.reportStatus(made);
    return made;
  };
  const [from, to] = [await run(first, "from"), await run(second, "to")];
  for (const address of to.addresses) {
    await eventually(`a route to ${address}`, async () => {
      await cluster.exec(from.sandbox, "ping", "-c1", "-W1", address);
      return true;
    });
  }

  const host = await Monitors.start(
    cluster,
    first.netns,
    (...args) => first.run(...args as [string]),
  );
  const pod = await Monitors.start(
    cluster,
    from.sandbox.netns,
    (...args) => cluster.exec(from.sandbox, ...args as [string]),
  );

  const daemons: Readonly<
    Record<string, {
      readonly running: () => LabProcess | undefined;
      readonly start: () => Promise<unknown>;
    }>
  > = {
    coild: {
      running: () => cluster.daemonOf(first),
      start: () => cluster.startCoild(first, COILD_ARGS),
    },
    "coil-router": {
      running: () => routers.get(first),
      async start() {
        routers.set(first, await cluster.startRouter(first));
        await eventually("its routes to be looked at", async () => {
          const url = "http://127.0.0.1:9389/readyz";
          return await first.run("curl", "-sf", url) === "ok";
        });
      },
    },
    "coil-controller": {
      running: () => cluster.controller,
      start: () => cluster.startController(),
    },
  };
  for (const [name, { running, start }] of Object.entries(daemons)) {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      await t.step(`${name}, by ${signal}`, async () => {
        const before = [await host.removals(), await pod.removals()];
        const ends = { from: from.sandbox, to: to.addresses };
        const gaps = await assertReachable(ends, async () => {
          const daemon = running();
          daemon?.signal(signal);
          await daemon?.exited;
          await start();
        });
        // deno-lint-ignore no-console -- a figure
        console.log(`${name}, ${signal}: gaps ${gaps} ms`);
        assert.deepEqual([await host.removals(), await pod.removals()], before);
      });
    }
  }
  for (const router of routers.values()) await router.stop();
});
