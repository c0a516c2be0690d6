// Objects written into etcd as the API server stores them: so many cannot be
// created one by one in a bench's time.
import { newAddressBlock, type Pool } from "../../../lib/api/mod.ts";
import type { ControlPlane } from "../../lab/mod.ts";

const PROGRAM = new URL("./etcd_writer_program.ts", import.meta.url).pathname;

/** Nodes that do not run Coil. */
const ELSEWHERE = Array.from({ length: 100 }, (_, i) => `elsewhere-${i}`);

/** A pod as it is stored. */
export interface StoredPod {
  readonly node: string | undefined;
  readonly address: string;
  /** Default: "elsewhere". */
  readonly namespace?: string;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  readonly labels?: Readonly<Record<string, string>>;
}

/** Stores so many pods of nodes that do not run Coil, or of those that are named, in turn; with annotations, if there are any. */
export async function storePodsElsewhere(
  plane: ControlPlane,
  count: number,
  { nodes = ELSEWHERE, annotationsOf }: {
    readonly nodes?: readonly string[];
    readonly annotationsOf?: (index: number) => StoredPod["annotations"];
  } = {},
): Promise<void> {
  await storePods(plane, count, (index) => ({
    node: nodes[index % nodes.length],
    address: [10, 200 + (index >> 16), (index >> 8) & 255, index & 255]
      .join("."),
    annotations: annotationsOf?.(index),
  }));
}

/** Stores so many pods, each some 6 kB, as pods of Deployments are. */
export async function storePods(
  plane: ControlPlane,
  count: number,
  podOf: (index: number) => StoredPod,
): Promise<void> {
  await storeObjects(plane, count, (index) => {
    const pod = storedPod(index, podOf(index));
    const { namespace, name } = pod.metadata;
    return [`/registry/pods/${namespace}/${name}`, pod];
  });
}

/** A block that is stored. */
export interface StoredBlock {
  readonly index: number;
  readonly node: string;
  readonly nodeAddresses: string;
}

/** Stores so many blocks of a pool. */
export async function storeBlocks(
  plane: ControlPlane,
  count: number,
  { pool, blockOf }: {
    readonly pool: Pool;
    readonly blockOf: (index: number) => StoredBlock;
  },
): Promise<void> {
  await storeObjects(
    plane,
    count,
    (index) => storedBlock(pool, blockOf(index)),
  );
}

/** Writes objects under their keys, by a program beside etcd. */
export async function storeObjects(
  plane: ControlPlane,
  count: number,
  entryOf: (index: number) => readonly [key: string, object: object],
): Promise<void> {
  const child = new Deno.Command("ip", {
    args: [
      ...["netns", "exec", plane.netns, Deno.execPath(), "run", "-A"],
      PROGRAM,
    ],
    stdin: "piped",
    stdout: "null",
    stderr: "inherit",
  }).spawn();
  await ReadableStream.from(transactions(count, entryOf))
    .pipeThrough(new TextEncoderStream())
    .pipeTo(child.stdin);
  const { code } = await child.status;
  if (code !== 0) throw new Error(`Cannot store objects: exit code ${code}`);
}

/**
 * A line for each transaction, of one object: a watch that the API server cuts
 * off goes on after the last revision that it has told, and would miss others
 * of that revision.
 */
function* transactions(
  count: number,
  entryOf: (index: number) => readonly [key: string, object: object],
): Generator<string> {
  for (let index = 0; index < count; index++) {
    const [key, object] = entryOf(index);
    const value = btoa(JSON.stringify(object));
    const success = [{ requestPut: { key: btoa(key), value } }];
    yield `${JSON.stringify({ success })}\n`;
  }
}

function storedBlock(
  pool: Pool,
  options: StoredBlock,
): readonly [string, object] {
  const requestUid = crypto.randomUUID();
  const block = newAddressBlock(pool, { ...options, requestUid });
  if (block === undefined) {
    throw new RangeError(`The pool has no block ${options.index}`);
  }
  const { name = "" } = block.metadata;
  const metadata = {
    ...block.metadata,
    uid: crypto.randomUUID(),
    creationTimestamp: "2026-01-01T00:00:00Z",
    generation: 1,
  };
  return [`/registry/coil.cybozu.com/addressblocks/${name}`, {
    ...block,
    metadata,
  }];
}

function storedPod(
  index: number,
  { node, address, namespace = "elsewhere", annotations, labels }: StoredPod,
) {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: `stored-${index}`,
      namespace,
      uid: crypto.randomUUID(),
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels: { app: "stored", "pod-template-hash": "5d4f8f0", ...labels },
      annotations,
      managedFields: [MANAGED],
    },
    spec: {
      nodeName: node,
      containers: [{
        name: "main",
        image: "registry.example/stored:1.2.3",
        env: ENVIRONMENT,
        terminationMessagePath: "/dev/termination-log",
        terminationMessagePolicy: "File",
        imagePullPolicy: "IfNotPresent",
      }],
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      dnsPolicy: "ClusterFirst",
      schedulerName: "default-scheduler",
      tolerations: [{ operator: "Exists" }],
    },
    status: {
      phase: "Running",
      podIP: address,
      podIPs: [{ ip: address }],
      qosClass: "BestEffort",
    },
  };
}

const ENVIRONMENT = Array.from({ length: 20 }, (_, i) => ({
  name: `SETTING_${i}`,
  value: `the value of the setting with number ${i}`,
}));

/** Half of a pod, often. */
const MANAGED = {
  manager: "kube-controller-manager",
  operation: "Update",
  apiVersion: "v1",
  time: "2026-01-01T00:00:00Z",
  fieldsType: "FieldsV1",
  fieldsV1: {
    "f:spec": {
      "f:containers": Object.fromEntries(
        ENVIRONMENT.map(({ name }) => [
          `k:{"name":"${name}"}`,
          { ".": {}, "f:name": {}, "f:value": {}, "f:resources": {} },
        ]),
      ),
    },
  },
};
