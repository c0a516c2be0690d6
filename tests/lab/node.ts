import type { ControlPlane } from "./control_plane.ts";
import { createNodeNetwork, deleteNetns, inNetns } from "./network.ts";

/** A node: a network namespace with eth0 on the lab's bridge. */
export class LabNode implements AsyncDisposable {
  readonly #plane: ControlPlane;
  readonly number: number;
  /** Name of the Node object. */
  readonly name: string;
  /** Name of the network namespace. */
  readonly netns: string;
  /** Its addresses, of the lab's families. */
  readonly addresses: readonly string[];

  private constructor(
    plane: ControlPlane,
    options: { number: number; name: string },
  ) {
    this.#plane = plane;
    this.number = options.number;
    this.name = options.name;
    this.netns = `coil-${plane.name}-node${options.number}`;
    this.addresses = plane.families.map((family) =>
      plane.subnet.address(family, 10 + options.number)
    );
  }

  /** Makes the namespace `coil-<lab>-node<number>` and, unless `register` is false, the Node object. */
  static async create(
    plane: ControlPlane,
    options: { number: number; name?: string; register?: boolean },
  ): Promise<LabNode> {
    const { number } = options;
    if (!Number.isInteger(number) || number < 1 || number > 200) {
      throw new RangeError(`Cannot make node ${number}: not from 1 to 200`);
    }
    const name = options.name ?? `node${number}`;
    const node = new LabNode(plane, { number, name });
    await createNodeNetwork({
      netns: node.netns,
      network: plane.network,
      number,
      families: plane.families,
    });
    if (options.register !== false) await node.register();
    return node;
  }

  /** Creates or updates the Node object with this node's addresses and makes it Ready. */
  async register(
    options: { labels?: Record<string, string> } = {},
  ): Promise<void> {
    await this.#plane.apply({
      apiVersion: "v1",
      kind: "Node",
      metadata: {
        name: this.name,
        labels: { "kubernetes.io/hostname": this.name, ...options.labels },
      },
    });
    const status = {
      addresses: [
        ...this.addresses.map((address) => ({ type: "InternalIP", address })),
        { type: "Hostname", address: this.name },
      ],
      conditions: [{ type: "Ready", status: "True", reason: "Lab" }],
    };
    await this.#plane.request(
      "PATCH",
      `/api/v1/nodes/${this.name}/status`,
      { status },
      { contentType: "application/merge-patch+json" },
    );
  }

  /** Runs a command in the node's network namespace and returns its stdout. */
  async run(command: string, ...args: string[]): Promise<string> {
    return await inNetns(this.netns, command, args);
  }

  /** Removes the network namespace; the Node object stays. */
  async [Symbol.asyncDispose](): Promise<void> {
    await deleteNetns(this.netns);
  }
}
