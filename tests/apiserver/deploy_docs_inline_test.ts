// The commands in sentences of the documents, each run as it stands there. They
// find what the documents speak of, with the names that a reader puts in.
import assert from "node:assert/strict";
import { inlineCommands, readPages } from "../arch/pages.ts";
import { ControlPlane, eventually } from "../lab/mod.ts";
import { NAMED_OBJECTS, workplace } from "./docs_workplace.ts";
import { MONITORING_CRDS } from "./monitoring_crds.ts";

/** What a reader puts in. */
const NAMES: readonly (readonly [RegExp, string])[] = [
  [/<namespace>|\bNAMESPACE\b/g, "internet"],
  [/\bNAME\b|\bPOOL\b/g, "default"],
  [/\bPOD\b/g, "main"],
  [/\bNODE\b/g, "worker"],
  [/\bN\b/g, "2"],
];

/** Commands of which a part is left out: only their names are meant. */
const NAMES_ONLY = [
  "kubectl apply -k",
  "kubectl create token",
  "kubectl delete pod --force",
  "kubectl rollout restart",
];

/** What a command finds. */
const OBJECTS = `
kubectl apply -k coil/deploy/overlays/default
kubectl wait --for=condition=Established --timeout=140s crd --all
kubectl create namespace internet
kubectl -n kube-system create configmap coil-migration
kubectl apply -f - <<EOF
${NAMED_OBJECTS}
---
apiVersion: v1
kind: Node
metadata: {name: worker}
---
apiVersion: coil.cybozu.com/v2
kind: VPCNode
metadata: {name: worker}
---
apiVersion: coil.cybozu.com/v2
kind: Egress
metadata: {name: default, namespace: internet}
spec: {destinations: [0.0.0.0/0]}
EOF
for namespace in default internet kube-system; do
kubectl -n $namespace wait --for=create --timeout=140s serviceaccount/default
kubectl -n $namespace apply -f - <<EOF
apiVersion: v1
kind: Pod
metadata: {name: main}
spec: {containers: [{name: coild, image: none}]}
EOF
done`;

Deno.test("the commands in sentences of the documents work", async (t) => {
  await using plane = await ControlPlane.start({
    name: "inline",
    controllerManager: true,
  });
  await plane.apply(...MONITORING_CRDS);
  const run = await workplace(plane);
  await run(OBJECTS);
  const pages = await readPages();
  const found = new Set(
    pages.flatMap((page) => inlineCommands(page, "kubectl")).filter((command) =>
      !/^kubectl (?:coil\b|[a-z]+$)/.test(command)
    ),
  );
  for (const name of NAMES_ONLY) {
    assert.ok(found.delete(name), `no document has "${name}"`);
  }
  assert.ok(found.size > 20, `${found.size} commands`);
  const isLast = (command: string) => Number(command.includes("delete "));
  const commands = [...found].sort((a, b) => isLast(a) - isLast(b));
  for (const command of commands) {
    await t.step(command, async () => {
      const script = NAMES.reduce(
        (text, [placeholder, name]) => text.replaceAll(placeholder, name),
        command,
      );
      // The first versions of a DaemonSet are there a moment later.
      await eventually(command, async () => {
        await run(script).catch(refuseUnlessOfPod);
        return true;
      });
    });
  }
});

/** A pod without a node has no logs: that it was found is enough. */
function refuseUnlessOfPod(error: Error): void {
  if (!/pod main does not have a host assigned/.test(error.message)) {
    throw error;
  }
}
