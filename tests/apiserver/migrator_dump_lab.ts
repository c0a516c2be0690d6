/** A cluster with Coil v1 for the tests of `coil migrate dump`: a real etcd, API server and garbage collector. */
import { ControlPlane } from "../lab/mod.ts";
import {
  type CommandOptions,
  installV1,
  migrate,
  type Output,
} from "./migrator_testing.ts";
import { V1Etcd, writeV1Pools } from "./migrator_v1.ts";

const POOLS = [
  {
    name: "default",
    bits: 3,
    subnets: ["10.64.0.0/26"],
    blocks: {
      node1: ["10.64.0.0/29", "10.64.0.16/29"],
      gone: ["10.64.0.8/29"],
    },
  },
  {
    name: "web",
    bits: 0,
    subnets: ["10.65.0.0/30"],
    blocks: { node1: ["10.65.0.2/32"] },
  },
];
/** How many objects v1's installation has. */
export const ALL_OF_V1 = 9;
const CRDS = new URL("../../crds", import.meta.url).pathname;

/** A control plane for all tests of a file: each begins with what dump looks at, v1's etcd and workloads, and with neither record nor CRDs. */
export async function startPlane(name: string): Promise<ControlPlane> {
  return await ControlPlane.start({ name, controllerManager: true });
}

/** A cluster with v1 and one node that runs nothing. */
export class DumpLab implements AsyncDisposable {
  static #started = 0;
  readonly plane: ControlPlane;
  readonly etcd: V1Etcd;
  readonly manifest: string;

  private constructor(plane: ControlPlane, etcd: V1Etcd) {
    this.plane = plane;
    this.etcd = etcd;
    this.manifest = `${plane.runDir}/coil-v2-${++DumpLab.#started}.yaml`;
  }

  static async start(plane: ControlPlane): Promise<DumpLab> {
    await using undo = new AsyncDisposableStack();
    const etcd = undo.use(await V1Etcd.start(plane));
    await writeV1Pools(etcd, POOLS);
    await plane.kubectl("delete", "--ignore-not-found", "-f", CRDS);
    await plane.kubectl(
      ...["delete", "cm", "-n", "kube-system", "coil-migration"],
      "--ignore-not-found",
    );
    await plane.apply({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "node1" },
    }, {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: {
        name: "web",
        labels: { team: "a" },
        annotations: { note: "b" },
      },
    });
    await installUnscheduled(plane);
    undo.move();
    return new DumpLab(plane, etcd);
  }

  /** The command's arguments for this etcd and manifest. */
  dumpArgs(...args: readonly string[]): string[] {
    return [
      ...["dump", `--etcd-endpoints=${this.etcd.url}`, "--etcd-timeout=20s"],
      ...[`--output=${this.manifest}`, ...args],
    ];
  }

  async dump(
    args: readonly string[] = [],
    options: CommandOptions = {},
  ): Promise<Output> {
    return await migrate(this.plane, this.dumpArgs(...args), options);
  }

  async text(): Promise<string> {
    return await Deno.readTextFile(this.manifest);
  }

  async hasManifest(): Promise<boolean> {
    return await Deno.stat(this.manifest).then(() => true, () => false);
  }

  async record(): Promise<Record<string, string>> {
    const text = await this.plane.kubectl(
      ...["get", "cm", "-n", "kube-system", "coil-migration"],
      ...["--ignore-not-found", "-o", "jsonpath={.data}"],
    );
    return text === "" ? {} : JSON.parse(text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.etcd[Symbol.asyncDispose]();
  }
}

/** v1 without pods: the DaemonSet controller makes none, which nobody would end. */
export async function installUnscheduled(
  plane: ControlPlane,
): Promise<void> {
  await installV1(plane);
  await plane.kubectl(
    ...["patch", "-n", "kube-system", "ds/coil-node", "-p"],
    '{"spec":{"template":{"spec":{"nodeSelector":{"none":"such"}}}}}',
  );
}
