// Pods written into etcd as the API server stores them: so many cannot be
// created one by one in a bench's time.
import { type ControlPlane, inNetns } from "../../lab/mod.ts";

/** etcd takes no more changes in one transaction. */
const AT_ONCE = 100;
/** etcd's JSON gateway (etcd documentation, "gRPC gateway"). */
const TRANSACTIONS = "http://127.0.0.1:2379/v3/kv/txn";

/** Nodes that do not run Coil. */
const ELSEWHERE = Array.from({ length: 100 }, (_, i) => `elsewhere-${i}`);

/** Stores so many pods, each some 6 kB, as pods of Deployments are; of nodes that do not run Coil, or of those that are named, in turn. */
export async function storePodsElsewhere(
  plane: ControlPlane,
  count: number,
  { nodes = ELSEWHERE }: { readonly nodes?: readonly string[] } = {},
): Promise<void> {
  const file = await Deno.makeTempFile();
  try {
    for (let first = 0; first < count; first += AT_ONCE) {
      const length = Math.min(AT_ONCE, count - first);
      const success = Array.from(
        { length },
        (_, i) => putOf(first + i, nodes),
      );
      await Deno.writeTextFile(file, JSON.stringify({ success }));
      const answer = await inNetns(plane.netns, "curl", [
        ...["--silent", "--show-error", "--fail", "--data-binary", `@${file}`],
        TRANSACTIONS,
      ]);
      if (!answer.includes('"succeeded":true')) {
        throw new Error(`Cannot store pods: etcd answered ${answer}`);
      }
    }
  } finally {
    await Deno.remove(file);
  }
}

function putOf(index: number, nodes: readonly string[]) {
  const pod = storedPod(index, nodes);
  const key = `/registry/pods/elsewhere/${pod.metadata.name}`;
  return {
    requestPut: { key: btoa(key), value: btoa(JSON.stringify(pod)) },
  };
}

function storedPod(index: number, nodes: readonly string[]) {
  const address = [10, 200 + (index >> 16), (index >> 8) & 255, index & 255]
    .join(".");
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: `stored-${index}`,
      namespace: "elsewhere",
      uid: crypto.randomUUID(),
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels: { app: "stored", "pod-template-hash": "5d4f8f0" },
      managedFields: [MANAGED],
    },
    spec: {
      nodeName: nodes[index % nodes.length],
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
