/** Helpers of the tests of coil-controller: run it against a real API server, make its objects, wait for what it does. */
import type {
  AddressBlock,
  AddressPool,
  BlockRequest,
  SubnetSpec,
} from "../../lib/api/mod.ts";
import { openLibc } from "../../lib/linux/mod.ts";
import {
  parseControllerFlags,
  runController,
} from "../../roles/coil_controller/mod.ts";
import {
  type AuditPolicy,
  type ControlPlane,
  eventually,
  sleep,
  startCoilPlane,
} from "../lab/mod.ts";
import { COIL_API } from "./crds.ts";

// The controller loads the C library when it first gives memory back; within a test that would count as a leak.
openLibc();

/** What a list of the API server looks like. */
interface List<T> {
  readonly items: readonly T[];
}

/** An Event, as far as the tests look into it. */
export interface EventObject {
  readonly reason: string;
  readonly type: string;
  readonly message: string;
  readonly involvedObject: { readonly kind: string; readonly name: string };
}

/** A running controller; disposing of it stops it as SIGTERM does. */
export interface RunningController extends AsyncDisposable {
  /** Settles when the controller has ended. */
  readonly ended: Promise<void>;
}

/** Starts a controller in this process, with ports of its own. */
export function controllerWith(
  args: readonly string[],
  options: Partial<Parameters<typeof runController>[0]>,
): RunningController {
  const parsed = parseControllerFlags(
    ["--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0", ...args],
    { program: "coil-controller", version: "test", about: "" },
  );
  const stop = new AbortController();
  const ended = runController({ ...parsed, ...options }, stop.signal)
    .catch((error: unknown) => {
      if (!stop.signal.aborted) throw error;
    });
  return {
    ended,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}

/** A control plane with Coil's resources and rights, for tests of the controller. */
export class ControllerLab implements AsyncDisposable {
  readonly plane: ControlPlane;

  private constructor(plane: ControlPlane) {
    this.plane = plane;
  }

  /** Starts the control plane, with Node objects of the names. */
  static async start(
    name: string,
    nodes: readonly string[],
    options: { readonly audit?: AuditPolicy } = {},
  ): Promise<ControllerLab> {
    const plane = await startCoilPlane({ name, ...options });
    await using undo = new AsyncDisposableStack();
    undo.use(plane);
    const lab = new ControllerLab(plane);
    for (const node of nodes) await lab.createNode(node);
    undo.move();
    return lab;
  }

  /** Runs controllers on a control plane that has Coil's resources. The plane stays its owner's. */
  static on(plane: ControlPlane): ControllerLab {
    return new ControllerLab(plane);
  }

  /** Starts a controller in this process. */
  startController(...args: readonly string[]): RunningController {
    return controllerWith(["--node-grace=0s", ...args], {
      kubeconfig: this.plane.kubeconfig,
    });
  }

  /** Kills the API server, leaves it dead for a while, and returns when it serves Coil's resources again. */
  async restartApiServer(downMs = 0): Promise<void> {
    await this.plane.killApiServer();
    await sleep(downMs);
    await this.plane.startApiServer();
    await eventually("the storage of blocks", async () => {
      try {
        return (await this.blocks()).length >= 0;
      } catch (error) {
        // 429: "storage is (re)initializing".
        if (error instanceof Error && /status 429/.test(error.message)) {
          return false;
        }
        throw error;
      }
    });
  }

  async createNode(name: string): Promise<void> {
    await this.plane.request("POST", "/api/v1/nodes", {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name },
    });
  }

  async deleteNode(name: string): Promise<void> {
    await this.plane.request("DELETE", `/api/v1/nodes/${name}`);
  }

  async createPool(
    name: string,
    spec: { blockSizeBits?: number; subnets: readonly SubnetSpec[] },
  ): Promise<void> {
    await this.#create("addresspools", "AddressPool", name, { spec });
  }

  async createRequest(
    name: string,
    poolName: string,
    nodeName: string,
  ): Promise<BlockRequest> {
    return await this.#create("blockrequests", "BlockRequest", name, {
      spec: { poolName, nodeName },
    }) as BlockRequest;
  }

  /** Creates a request and returns its status once it has one. */
  async ask(
    poolName: string,
    nodeName: string,
    name = `req-${crypto.randomUUID()}`,
  ): Promise<string> {
    await this.createRequest(name, poolName, nodeName);
    return await this.answer(name);
  }

  /** Asks until it is given this block. The controller learns by another watch that it is free: any other block that it gives before goes back. */
  async untilGranted(
    block: string,
    { poolName, nodeName }: BlockRequest["spec"],
  ): Promise<void> {
    await eventually(`block ${block}`, async () => {
      const answer = await this.ask(poolName, nodeName);
      if (answer === `block ${block}`) return true;
      const [, other] = /^block (.*)$/.exec(answer) ?? [];
      if (other !== undefined) await this.returnBlock(other);
      return false;
    });
  }

  /** The answer to a request in one line: "block NAME" or "failed REASON: MESSAGE". */
  async answer(name: string): Promise<string> {
    let text = "";
    await eventually(`the answer to ${name}`, async () => {
      const { status } = await this.request(name);
      const conditions = status?.conditions ?? [];
      const failed = conditions.find((c) => c.type === "Failed");
      const complete = conditions.find((c) => c.type === "Complete");
      if (complete === undefined) return false;
      text = failed === undefined
        ? `block ${status?.addressBlockName}`
        : `failed ${failed.reason}: ${failed.message}`;
      return true;
    });
    return text;
  }

  async request(name: string): Promise<BlockRequest> {
    return await this.plane.request(
      "GET",
      `${COIL_API}/blockrequests/${name}`,
    ) as BlockRequest;
  }

  async pool(name: string): Promise<AddressPool> {
    return await this.plane.request(
      "GET",
      `${COIL_API}/addresspools/${name}`,
    ) as AddressPool;
  }

  async pools(): Promise<readonly AddressPool[]> {
    return await this.#list<AddressPool>(`${COIL_API}/addresspools`);
  }

  /** All blocks, or those of a pool, by index. */
  async blocks(pool?: string): Promise<AddressBlock[]> {
    const query = pool === undefined
      ? ""
      : `?labelSelector=coil.cybozu.com/pool=${pool}`;
    const items = await this.#list<AddressBlock>(
      `${COIL_API}/addressblocks${query}`,
    );
    return items.toSorted((a, b) => a.index - b.index);
  }

  async events(name: string): Promise<readonly EventObject[]> {
    const items = await this.#list<EventObject>("/api/v1/events");
    return items.filter((event) => event.involvedObject.name === name);
  }

  /** Creates a block as an earlier controller would have. */
  async createBlock(block: {
    pool: string;
    index: number;
    node: string;
    ipv4: string;
    request?: string;
    finalizers?: readonly string[];
  }): Promise<void> {
    const {
      pool,
      index,
      node,
      ipv4,
      request,
      finalizers = ["coil.cybozu.com"],
    } = block;
    await this.plane.request("POST", `${COIL_API}/addressblocks`, {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressBlock",
      metadata: {
        name: `${pool}-${index}`,
        finalizers,
        labels: {
          "coil.cybozu.com/pool": pool,
          ...(node === "" ? {} : { "coil.cybozu.com/node": node }),
          ...(request === undefined
            ? {}
            : { "coil.cybozu.com/request": request }),
        },
      },
      index,
      ipv4,
    });
  }

  /** Gives a block back as coild does. */
  async returnBlock(name: string): Promise<void> {
    await this.merge(`addressblocks/${name}`, {
      metadata: { finalizers: null },
    });
    await this.plane.request("DELETE", `${COIL_API}/addressblocks/${name}`);
  }

  /** Merges a change into an object of Coil's. */
  async merge(path: string, patch: unknown): Promise<void> {
    await this.plane.request("PATCH", `${COIL_API}/${path}`, patch, {
      contentType: "application/merge-patch+json",
    });
  }

  async delete(path: string): Promise<void> {
    await this.plane.request("DELETE", `${COIL_API}/${path}`);
  }

  async #create(
    plural: string,
    kind: string,
    name: string,
    rest: object,
  ): Promise<unknown> {
    return await this.plane.request("POST", `${COIL_API}/${plural}`, {
      apiVersion: "coil.cybozu.com/v2",
      kind,
      metadata: { name },
      ...rest,
    });
  }

  async #list<T>(path: string): Promise<readonly T[]> {
    return (await this.plane.request("GET", path) as List<T>).items;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.plane[Symbol.asyncDispose]();
  }
}
