// Requests between two nodes that must not fail while other things are done.
import assert from "node:assert/strict";
import { hostPort } from "../../lib/inet/mod.ts";
import { SERVICES } from "../../lib/kube/mod.ts";
import { readDrops } from "../lab/drops.ts";
import { eventually } from "../lab/mod.ts";
import type { Installation } from "./installation.ts";
import { HTTP_PORT, type RunningPod } from "./pods.ts";

/** Its pods compete with Coil's, which take all of the processor as they start. */
const CPU = "200m";

/** Requests to a URL so far. One fails that is refused, or for which packets were lost for 5 s: not one that a slow machine answers late. */
export interface TrafficCount {
  readonly url: string;
  readonly done: number;
  readonly failed: number;
  /** The longest that one took. */
  readonly longestMs: number;
  /** Of the last one that failed: when, whether it was connected, and whether the client had a processor. */
  readonly last?: string;
}

/** A pod that asks a pod of the other node, directly and by a Service, without a pause. */
export class Traffic implements AsyncDisposable {
  readonly client: RunningPod;
  readonly server: RunningPod;
  readonly #site: Installation;

  private constructor(
    site: Installation,
    { client, server }: Pick<Traffic, "client" | "server">,
  ) {
    this.#site = site;
    this.client = client;
    this.server = server;
  }

  /** From node1 to node2, in all families; returns when all ways work. */
  static async start(site: Installation, name: string): Promise<Traffic> {
    const labels = { service: name };
    const server = await site.pods.run({
      name: `${name}-server`,
      node: "node2",
      labels,
      cpu: CPU,
    });
    const service = await site.client.create(SERVICES, {
      metadata: { name, namespace: "default" },
      spec: {
        selector: labels,
        ipFamilyPolicy: "RequireDualStack",
        ports: [{ port: HTTP_PORT }],
      },
    });
    const urls = [...server.addresses, ...service.spec?.clusterIPs ?? []]
      .map((address) => `http://${hostPort(address, HTTP_PORT)}/`);
    const client = await site.pods.run({
      name: `${name}-client`,
      node: "node1",
      args: ["traffic", ...urls],
      cpu: CPU,
    });
    const traffic = new Traffic(site, { client, server });
    // kube-proxy needs a moment: what counts are failures from now on.
    await eventually("traffic on every way", async () => {
      const counts = await traffic.counts();
      return counts.every(({ done }) => done > 10);
    });
    return traffic;
  }

  /** What was asked, and what failed, by URL. */
  async counts(): Promise<readonly TrafficCount[]> {
    const own = `http://127.0.0.1:${HTTP_PORT}/`;
    const text = await eventually(
      "the client's counts",
      () => this.#site.pods.exec(this.client, "get", own),
    );
    return JSON.parse(text);
  }

  /** Counts that have the end of each request that is under way now. */
  async #countsOfLast(): Promise<readonly TrafficCount[]> {
    const ended = (count: TrafficCount | undefined) =>
      count === undefined ? 0 : count.done + count.failed;
    const now = await this.counts();
    return await eventually("the end of each request", async () => {
      const later = await this.counts();
      return later.every((count, i) => ended(count) > ended(now[i])) && later;
    });
  }

  /** Does something, and lets no request fail in the meantime. */
  async during(work: () => Promise<void>): Promise<void> {
    const before = await this.counts();
    const drops = await readDrops();
    await work();
    const after = await this.#countsOfLast();
    const failures = (counts: readonly TrafficCount[]) =>
      counts.map(({ url, failed }) => ({ url, failed }));
    const notes = [
      `load ${Deno.loadavg().join(" ")}`,
      `dropped before ${JSON.stringify(drops)}, after ${
        JSON.stringify(await readDrops())
      }`,
      ...after.map(({ url, longestMs, last = "" }) =>
        `${url}: ${longestMs} ms at most; ${last}`
      ),
    ].join("\n");
    assert.deepEqual(failures(after), failures(before), notes);
    for (const [index, { url, done }] of after.entries()) {
      assert.ok(done > (before[index]?.done ?? 0), `${url}: nothing was asked`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const name = this.server.name.replace(/-server$/, "");
    await this.#site.client.delete(SERVICES, { name, namespace: "default" });
    await this.#site.pods.remove(this.client, this.server);
  }
}
