/**
 * The commands of the documents, run as they stand there: half of their groups each by two files.
 *
 * @module
 */
import { blocksOf, hasCommands, readPages, scriptOf } from "../arch/pages.ts";
import { ControlPlane } from "../lab/mod.ts";
import { NAMED_OBJECTS, workplace } from "./docs_workplace.ts";

/** A pool of v1, with a block that one of its pods has. */
const MANIFEST = `
apiVersion: coil.cybozu.com/v2
kind: AddressPool
metadata: {name: default}
spec: {blockSizeBits: 3, subnets: [{ipv4: 10.64.0.0/24}]}
---
apiVersion: coil.cybozu.com/v2
kind: AddressBlock
metadata:
  name: default-0-v1
  labels:
    coil.cybozu.com/pool: default
    coil.cybozu.com/node: node1
    coil.cybozu.com/reserved: "true"
index: 0
ipv4: 10.64.0.0/29`;

/** A migration that has begun; v1's manifests are ready. */
const OF_V1 = `
    kubectl apply -f coil/crds
    kubectl wait --for=condition=Established crd --all
    kubectl -n kube-system create configmap coil-migration
    mkdir v1-manifests
    kubectl create configmap coil-v1 --dry-run=client -o yaml > v1-manifests/v1.yaml
    kubectl apply -f - <<EOF
${MANIFEST}
EOF`;

/** What a group of commands finds in the cluster. */
const BEFORE: Readonly<Record<string, string>> = {
  look: `
    kubectl apply -f coil/crds
    kubectl apply -f coil/deploy/coordinator/spiderpool.spidernet.io_spidercoordinators.yaml
    kubectl wait --for=condition=Established crd --all
    kubectl create namespace payments
    kubectl create namespace internet
    kubectl apply -f - <<EOF
apiVersion: v1
kind: Node
metadata: {name: worker-1}
---
${NAMED_OBJECTS}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: coil-ipam-leader, namespace: kube-system}
EOF`,
  "node-name": `
    kubectl apply -f - <<EOF
apiVersion: v1
kind: Node
metadata: {name: old-name}
---
apiVersion: v1
kind: Pod
metadata: {name: left, namespace: default}
spec:
  nodeName: old-name
  containers: [{name: main, image: none}]
EOF`,
  crds: "",
  // What `coil migrate dump` writes, in short.
  migrate: `
    cat > coil-v2.yaml <<EOF
${MANIFEST}
EOF`,
  "roll-back-early": OF_V1,
  // coil-controller has run, and a pod of v2 has a block.
  "roll-back": `
    ${OF_V1}
    kubectl apply -k coil/deploy/overlays/default
    kubectl patch addresspool default --type=merge -p '{"metadata":{"finalizers":["coil.cybozu.com"]}}'
    kubectl apply -f - <<EOF
apiVersion: coil.cybozu.com/v2
kind: AddressBlock
metadata:
  name: default-1
  labels: {coil.cybozu.com/pool: default, coil.cybozu.com/node: node1}
index: 1
ipv4: 10.64.0.8/29
EOF
    # A definition that nothing was asked of is not soon deleted.
    kubectl get coil --all-namespaces`,
  // An installation by kubectl.
  takeover:
    "helm template coil deploy/chart -n kube-system | kubectl apply -f -",
};

const BLOCKS = (await readPages()).flatMap(blocksOf).filter(hasCommands);
const GROUPS = [
  ...new Set(BLOCKS.flatMap(({ info }) => info.split(" tested=")[1] ?? [])),
];

/** Registers every other group as a test, from the first one or the second one on: each has a cluster, and they take long. */
export function testGroups(from: "first" | "second"): void {
  for (const [index, group] of GROUPS.entries()) {
    if (index % 2 !== (from === "first" ? 0 : 1)) continue;
    Deno.test(`the documents' commands work: ${group}`, async () => {
      await using plane = await ControlPlane.start({
        name: `guide${index}`,
        controllerManager: true,
      });
      const run = await workplace(plane);
      const all = BLOCKS.filter(({ info }) =>
        info.endsWith(` tested=${group}`)
      );
      for (const script of [BEFORE[group] ?? "", ...all.map(scriptOf)]) {
        await run(script);
      }
    });
  }
}
