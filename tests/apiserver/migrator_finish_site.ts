/**
 * A migration from Coil v1 that has replaced all pods: what is left to do is to
 * remove the reserved blocks, and to restart the coilds that saw them.
 *
 * @module
 */
import assert from "node:assert/strict";
import { RECORD_NAME } from "../../roles/coil_migrator/cluster/record.ts";
import { eventually } from "../lab/mod.ts";
import { coildPod } from "./coild_pod.ts";
import { ControllerLab } from "./controller_testing.ts";
import { migrate, type Output } from "./migrator_testing.ts";
import { patchStatus } from "./patch_status.ts";

const SYSTEM = "/api/v1/namespaces/kube-system";
const RESERVED = ["default-0-v1", "default-1-v1"];
const NODES = ["node1", "node2"];

/** The command's arguments. */
export const REPLACE: readonly string[] = ["replace", "--yes", "--interval=0s"];

/** A pod of coild. */
export interface PodObject {
  readonly metadata: { readonly name: string; readonly uid: string };
}

/** A cluster whose pods are all of v2, with a controller that serves blocks. */
export class FinishSite implements AsyncDisposable {
  readonly lab: ControllerLab;
  readonly #controller: AsyncDisposable;

  private constructor(lab: ControllerLab) {
    this.lab = lab;
    this.#controller = lab.startController();
  }

  /** Starts it. */
  static async start(name: string): Promise<FinishSite> {
    await using undo = new AsyncDisposableStack();
    const site = undo.use(
      new FinishSite(await ControllerLab.start(name, NODES)),
    );
    const { lab } = site;
    const subnets = [{ ipv4: "10.64.0.0/27" }];
    await lab.createPool("default", { blockSizeBits: 3, subnets });
    await eventually("blocks to be served", async () => {
      return (await lab.blocks("default")).length === 0;
    });
    undo.move();
    return site;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller[Symbol.asyncDispose]();
    await this.lab[Symbol.asyncDispose]();
  }

  /** Runs the command in this process. */
  replace(): Promise<Output> {
    return migrate(this.lab.plane, REPLACE);
  }

  /** As it is after the last pod: two reserved blocks, one with the finalizer; a coild on each node. */
  async reset(): Promise<void> {
    const { plane } = this.lab;
    for (const { metadata } of await this.lab.blocks("default")) {
      await this.lab.returnBlock(metadata.name ?? "");
    }
    for (const [index, name] of RESERVED.entries()) {
      await plane.apply({
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressBlock",
        metadata: {
          name,
          labels: {
            "coil.cybozu.com/pool": "default",
            "coil.cybozu.com/node": NODES[index],
            "coil.cybozu.com/reserved": "true",
          },
          ...(index === 1 && { finalizers: ["coil.cybozu.com"] }),
        },
        index,
        ipv4: `10.64.0.${8 * index}/29`,
      });
    }
    for (const { metadata } of await this.coilds()) {
      await plane.request("DELETE", `${SYSTEM}/pods/${metadata.name}`);
    }
    await this.ensureCoilds();
    await plane.kubectl(
      ...["delete", "cm", "-n", "kube-system", RECORD_NAME],
      "--ignore-not-found",
    );
    const at = "2026-01-01T00:00:00Z";
    await plane.request("POST", `${SYSTEM}/configmaps`, {
      metadata: { name: RECORD_NAME },
      data: { dumpedAt: at, v1RemovedAt: at, blocks: `${RESERVED.length}` },
    });
  }

  /** The pods of coild. */
  async coilds(): Promise<readonly PodObject[]> {
    const { items } = await this.lab.plane.request(
      "GET",
      `${SYSTEM}/pods`,
    ) as { readonly items: readonly PodObject[] };
    return items;
  }

  /** As the DaemonSet controller does. */
  async ensureCoilds(): Promise<void> {
    const names = (await this.coilds()).map(({ metadata }) => metadata.name);
    for (const node of NODES) {
      const name = `coild-${node}`;
      if (names.includes(name)) continue;
      const pod = coildPod({ name, node }, {
        terminationGracePeriodSeconds: 0,
      });
      await this.lab.plane.request("POST", `${SYSTEM}/pods`, pod);
      await patchStatus(this.lab.plane, `${SYSTEM}/pods/${name}`, {
        conditions: [{ type: "Ready", status: "True" }],
      });
    }
  }

  /** Indexes of the blocks that are reserved still. */
  async reserved(): Promise<number[]> {
    const blocks = await this.lab.blocks("default");
    return blocks.filter(({ metadata }) =>
      metadata.labels?.["coil.cybozu.com/reserved"] === "true"
    ).map(({ index }) => index);
  }

  /** What the command keeps in the cluster. */
  async record(): Promise<Readonly<Record<string, string>>> {
    const path = `${SYSTEM}/configmaps/${RECORD_NAME}`;
    const map = await this.lab.plane.request("GET", path) as {
      readonly data: Readonly<Record<string, string>>;
    };
    return map.data;
  }

  /** The controller gives the lowest block that nobody has. */
  async assertGranted(): Promise<void> {
    const taken = (await this.lab.blocks("default")).map((b) => b.index);
    const free = [0, 1, 2, 3].find((index) => !taken.includes(index));
    const spec = { poolName: "default", nodeName: "node1" };
    await this.lab.untilGranted(`default-${free}`, spec);
  }

  /** All is removed, and each coild that saw a reserved block has been restarted; `fresh` ones have seen none. */
  async assertDone(
    before: readonly PodObject[],
    fresh: readonly PodObject[],
  ): Promise<void> {
    assert.deepEqual(await this.reserved(), []);
    const { finishedAt, coildToRestart } = await this.record();
    assert.ok(finishedAt);
    assert.equal(coildToRestart, undefined);
    const left = new Set((await this.coilds()).map((pod) => pod.metadata.uid));
    for (const { metadata } of before) {
      assert.ok(!left.has(metadata.uid), `${metadata.name} was not restarted`);
    }
    for (const { metadata } of fresh) {
      assert.ok(left.has(metadata.uid), `${metadata.name} twice`);
    }
    await this.assertGranted();
  }
}
