/** What the tests of coil-migrator share: a cluster with Coil v1, and the commands. */
import * as path from "node:path";
import { run } from "../../roles/coil_migrator/mod.ts";
import { type ControlPlane, eventually, type LabProcess } from "../lab/mod.ts";
import { coilCommand, CoildLab } from "./coild_lab.ts";
import { migratorKubeconfig } from "./migrator_rights.ts";
import { LabKubelet } from "./migrator_kubelet.ts";
import {
  V1Etcd,
  V1Network,
  type V1PoolSpec,
  writeV1Pools,
} from "./migrator_v1.ts";

const BASE = new URL("../../deploy/base", import.meta.url).pathname;

/** What a command said. */
export interface Output {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** How a command is run. */
export interface CommandOptions {
  /** The answer to its question; without it nobody is there to be asked. */
  readonly answer?: boolean;
  readonly signal?: AbortSignal;
  /** Called with all that it has said so far. */
  readonly onText?: (text: string) => void;
}

/** Runs `coil migrate` with these arguments in this process. */
export async function migrate(
  plane: Pick<ControlPlane, "kubeconfig">,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<Output> {
  let [out, err] = ["", ""];
  const code = await run([...args, `--kubeconfig=${plane.kubeconfig}`], {
    program: "coil migrate",
    signal: options.signal ?? new AbortController().signal,
    terminal: {
      isInteractive: false,
      now: () => new Date(),
      out: (text) => void (out += text),
      err: (text) => {
        err += text;
        options.onText?.(err);
      },
      ask: (question) => {
        err += `${question}\n`;
        return Promise.resolve(options.answer);
      },
    },
  });
  return { code, out, err };
}

/** Workloads of v1's installation, as its manifests have them. */
export async function installV1(plane: ControlPlane): Promise<void> {
  const namespace = "kube-system";
  const template = (app: string) => ({
    metadata: { labels: { app } },
    spec: {
      hostNetwork: true,
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "main", image: "none" }],
    },
  });
  const workload = (kind: string, name: string) => ({
    apiVersion: "apps/v1",
    kind,
    metadata: { name, namespace },
    spec: {
      selector: { matchLabels: { app: name } },
      template: template(name),
    },
  });
  const rbac = "rbac.authorization.k8s.io/v1";
  const role = (name: string) => [
    { apiVersion: rbac, kind: "ClusterRole", metadata: { name }, rules: [] },
    {
      apiVersion: rbac,
      kind: "ClusterRoleBinding",
      metadata: { name },
      roleRef: {
        apiGroup: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        name,
      },
      subjects: [],
    },
  ];
  const account = (name: string) => ({
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name, namespace },
  });
  await plane.apply(
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "coil-config", namespace },
    },
    account("coil-node"),
    account("coil-controller"),
    ...role("coil-node"),
    ...role("coil-controllers"),
    workload("DaemonSet", "coil-node"),
    workload("Deployment", "coil-controllers"),
  );
}

/** What there is left of v1's installation. */
export async function v1Objects(plane: ControlPlane): Promise<string[]> {
  const text = await plane.kubectl(
    ...["get", "-n", "kube-system", "-o", "name", "--ignore-not-found"],
    ...["ds/coil-node", "deploy/coil-controllers", "cm/coil-config"],
    ...["clusterrole/coil-node", "clusterrole/coil-controllers"],
    ...["clusterrolebinding/coil-node", "clusterrolebinding/coil-controllers"],
    ...["sa/coil-node", "sa/coil-controller"],
  );
  return text.trim().split("\n").filter((line) => line !== "");
}

/** A cluster that runs v1's pods. */
export class MigrationLab implements AsyncDisposable {
  readonly lab: CoildLab;
  readonly etcd: V1Etcd;
  readonly kubelet: LabKubelet;
  readonly manifest: string;
  /** Of a user who may do what a migration needs, and nothing else. */
  readonly kubeconfig: string;
  readonly #undo: AsyncDisposableStack;
  #controller: LabProcess | undefined;
  #processes = 0;

  private constructor(
    parts: {
      readonly lab: CoildLab;
      readonly etcd: V1Etcd;
      readonly kubelet: LabKubelet;
      readonly kubeconfig: string;
    },
    undo: AsyncDisposableStack,
  ) {
    this.lab = parts.lab;
    this.etcd = parts.etcd;
    this.kubelet = parts.kubelet;
    this.kubeconfig = parts.kubeconfig;
    this.manifest = path.join(parts.lab.plane.runDir, "coil-v2.yaml");
    this.#undo = undo;
  }

  /** Starts control plane, etcd and nodes; writes v1's state and wires up the nodes. */
  static async start(
    options: {
      readonly name: string;
      readonly nodes: number;
      readonly pools: readonly V1PoolSpec[];
    },
  ): Promise<MigrationLab> {
    await using undo = new AsyncDisposableStack();
    const { name, nodes, pools } = options;
    const lab = undo.use(
      await CoildLab.start({ name, nodes, controllerManager: true }),
    );
    const etcd = undo.use(await V1Etcd.start(lab.plane));
    await writeV1Pools(etcd, pools);
    const v1 = new V1Network(etcd, pools);
    await v1.export(lab.nodes);
    const kubelet = undo.use(new LabKubelet({ lab, v1 }));
    const kubeconfig = await migratorKubeconfig(lab.plane);
    return new MigrationLab({ lab, etcd, kubelet, kubeconfig }, undo.move());
  }

  get plane(): ControlPlane {
    return this.lab.plane;
  }

  /** Runs `coil migrate`; a dump gets the etcd and the manifest's place. */
  async migrate(
    args: readonly string[],
    options: CommandOptions = {},
  ): Promise<Output> {
    const more = args[0] === "dump"
      ? [
        ...[`--etcd-endpoints=${this.etcd.url}`, "--etcd-timeout=20s"],
        `--output=${this.manifest}`,
      ]
      : [];
    return await migrate(this, [...args, ...more], options);
  }

  /** Runs `coil migrate` as a process, which can be killed. */
  async spawn(args: readonly string[]): Promise<LabProcess> {
    const [command, ...first] = coilCommand("migrate");
    return await this.plane.startProcess({
      id: `migrate-${++this.#processes}`,
      command,
      args: [...first, ...args, `--kubeconfig=${this.kubeconfig}`],
    });
  }

  /** A workload whose pods the real controllers make. */
  async workload(
    kind: "Deployment" | "StatefulSet" | "DaemonSet",
    key: string,
    options: { readonly replicas?: number; readonly node?: string } = {},
  ): Promise<void> {
    const [namespace, name = ""] = key.split("/");
    const { replicas, node } = options;
    await this.plane.apply({
      apiVersion: "apps/v1",
      kind,
      metadata: { name, namespace },
      spec: {
        ...(replicas === undefined ? {} : { replicas }),
        ...(kind === "StatefulSet"
          ? { podManagementPolicy: "Parallel", serviceName: name }
          : {}),
        selector: { matchLabels: { app: name } },
        template: {
          metadata: { labels: { app: name } },
          spec: {
            terminationGracePeriodSeconds: 1,
            containers: [{ name: "main", image: "none" }],
            ...(node === undefined
              ? {}
              : { nodeSelector: { "kubernetes.io/hostname": node } }),
          },
        },
      },
    });
  }

  /** A pod that nobody recreates. */
  async pod(key: string, { node }: { readonly node: string }): Promise<void> {
    const [namespace, name] = key.split("/");
    // The namespace's service account may yet have to be made.
    await eventually(`pod ${key}`, async () => {
      await this.plane.apply({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name, namespace },
        spec: {
          nodeName: node,
          terminationGracePeriodSeconds: 1,
          containers: [{ name: "main", image: "none" }],
        },
      });
      return true;
    });
  }

  /** Applies the manifest as the documentation says. */
  async applyManifest(): Promise<void> {
    await this.plane.kubectl(
      ...["apply", "--server-side", "--field-manager=coil-migrator"],
      ...["-f", this.manifest],
    );
  }

  /** Installs v2: the controller, and coild as a DaemonSet whose pods the lab's kubelet runs. */
  async installV2(): Promise<void> {
    // Once more: v1 has a service account of the same name.
    await this.plane.kubectl("apply", "-k", BASE);
    this.#controller = await this.lab.startController();
    this.kubelet.v2 = true;
    const labels = {
      "app.kubernetes.io/name": "coil",
      "app.kubernetes.io/component": "coild",
    };
    await this.plane.apply({
      apiVersion: "apps/v1",
      kind: "DaemonSet",
      metadata: { name: "coild", namespace: "kube-system", labels },
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            hostNetwork: true,
            tolerations: [{ operator: "Exists" }],
            terminationGracePeriodSeconds: 1,
            containers: [{ name: "main", image: "none" }],
          },
        },
      },
    });
    await eventually("coild on all nodes", async () => {
      const ready = await this.plane.kubectl(
        ...["get", "ds", "-n", "kube-system", "coild"],
        ...["-o", "jsonpath={.status.numberReady}"],
      );
      return Number(ready) === this.lab.nodes.length;
    });
  }

  /** Removes v2's workloads; new pods get their network from v1 again. */
  async removeV2(): Promise<void> {
    const coild = ["-n", "kube-system", "ds/coild", "--cascade=foreground"];
    await this.plane.kubectl("delete", ...coild);
    await this.#controller?.stop();
    this.kubelet.v2 = false;
  }

  /** Everything up to the point where pods can be replaced. */
  async dumpAndInstall(): Promise<void> {
    const { code, err } = await this.migrate(["dump", "--yes"]);
    if (code !== 0) throw new Error(`Cannot go on: ${err}`);
    await this.applyManifest();
    await this.installV2();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#undo.disposeAsync();
  }
}
