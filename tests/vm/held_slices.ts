// EndpointSlices that stay as they are, while the pods behind them come and go.
import { ENDPOINT_SLICES } from "../../lib/kube/mod.ts";
import { eventually } from "../lab/wait.ts";
import type { EgressCluster } from "./e2e_cluster.ts";
import type { Gateway } from "./e2e_kubelet.ts";
import { GATEWAYS } from "./e2e_objects.ts";

const NAME = "held-slices";
const MESSAGE = "EndpointSlices are held back";
const POLICIES = "/apis/admissionregistration.k8s.io/v1";
const SLICES =
  `/apis/discovery.k8s.io/v1/namespaces/${GATEWAYS}/endpointslices`;

/** A policy that refuses all changes of the gateways' EndpointSlices, and what puts it into force. */
const OBJECTS = {
  validatingadmissionpolicies: {
    kind: "ValidatingAdmissionPolicy",
    spec: {
      failurePolicy: "Fail",
      matchConstraints: {
        namespaceSelector: {
          matchLabels: { "kubernetes.io/metadata.name": GATEWAYS },
        },
        resourceRules: [{
          apiGroups: ["discovery.k8s.io"],
          apiVersions: ["v1"],
          operations: ["CREATE", "UPDATE", "DELETE"],
          resources: ["endpointslices"],
        }],
      },
      validations: [{ expression: "false", message: MESSAGE }],
    },
  },
  validatingadmissionpolicybindings: {
    kind: "ValidatingAdmissionPolicyBinding",
    spec: { policyName: NAME, validationActions: ["Deny"] },
  },
};

/** Keeps the endpoint controller from the gateways' EndpointSlices until what it returns is disposed of. */
export async function holdEndpointSlices(
  { access: { admin } }: EgressCluster,
): Promise<AsyncDisposable> {
  await using undo = new AsyncDisposableStack();
  for (const [plural, object] of Object.entries(OBJECTS)) {
    const path = `${POLICIES}/${plural}`;
    const metadata = { name: NAME };
    await admin.request("POST", path, { ...object, metadata });
    undo.defer(async () =>
      void await admin.request("DELETE", `${path}/${NAME}`)
    );
  }
  const isRefused = () =>
    admin.request("POST", `${SLICES}?dryRun=All`, {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name: NAME },
      addressType: "IPv4",
      endpoints: [],
    }).then(() => false, (error) => `${error}`.includes(MESSAGE));
  await eventually("EndpointSlices to be held back", isRefused);
  return undo.move();
}

/** Whether a gateway is ready in its Egress' EndpointSlices, with all its addresses. */
export async function isReadyEndpoint(
  { access }: EgressCluster,
  { egress, gateway: { pod } }: {
    readonly egress: string;
    readonly gateway: Gateway;
  },
): Promise<boolean> {
  const { items } = await access.client.list(ENDPOINT_SLICES, {
    namespace: GATEWAYS,
    labelSelector: `kubernetes.io/service-name=${egress}`,
  });
  const ready = items.flatMap(({ endpoints }) => endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready === true)
    .flatMap(({ addresses }) => addresses);
  return pod.addresses.every((address) => ready.includes(address));
}
