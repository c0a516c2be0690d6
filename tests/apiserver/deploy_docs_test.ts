// The commands of the documents, run as they stand there. Blocks that no test
// can run have to say so.
import assert from "node:assert/strict";
import * as path from "node:path";
import { ensureHelm } from "../lab/helm.ts";
import { binDir, ControlPlane, run } from "../lab/mod.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** Past decisions have no commands for readers of today. */
const PAGES = ["README.md", "docs", "deploy"];
const PASSED_OVER = /\/decisions\//;

/** A block of commands. */
interface Block {
  readonly page: string;
  readonly info: string;
  readonly text: string;
}

const NOT_TESTED = /^# not tested here: \S/;
const FENCE = /^```(.*)\n([^]*?)^```$/gm;
/** What is typed: behind a prompt if there is one, before a remark. */
const PROMPT = /^[$#] (.*?)(?: {2,}#.*)?$/gm;

async function pages(root: string): Promise<string[]> {
  const { isFile } = await Deno.stat(`${ROOT}${root}`);
  if (isFile) return [root];
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(`${ROOT}${root}`)) {
    const page = `${root}/${name}`;
    if (isDirectory) found.push(...await pages(page));
    else if (name.endsWith(".md") && !PASSED_OVER.test(page)) found.push(page);
  }
  return found.sort();
}

async function blocks(): Promise<Block[]> {
  const found: Block[] = [];
  for (const page of (await Promise.all(PAGES.map(pages))).flat()) {
    const text = await Deno.readTextFile(ROOT + page);
    for (const [, info = "", body = ""] of text.matchAll(FENCE)) {
      if (/^(sh|console|bash)\b/.test(info)) {
        found.push({ page, info, text: body });
      }
    }
  }
  return found;
}

/** Whether something runs the block, or it says why nothing does. */
async function isAccountedFor({ info, text }: Block): Promise<boolean> {
  if (/^(sh|console) tested=[a-z-]+$/.test(info)) return true;
  if (info === "sh" && NOT_TESTED.test(text)) return true;
  if (/^console not-tested=[a-z-]+$/.test(info)) return true;
  const [, test] = /^console tested-by=(\S+_test\.ts)$/.exec(info) ?? [];
  if (test === undefined) return false;
  return (await Deno.stat(ROOT + test)).isFile;
}

Deno.test("a block of commands in a document is run by a test, or says that it is not", async () => {
  const all = await blocks();
  assert.ok(all.length > 20);
  for (const block of all) {
    const { page, info, text } = block;
    assert.ok(await isAccountedFor(block), `${page}: ${info}\n${text}`);
  }
});

/** The commands of a block as a script. */
function scriptOf({ info, text }: Block): string {
  if (!info.startsWith("console")) return text;
  const typed = [...text.matchAll(PROMPT)].map(([, command]) => command);
  return typed.length > 0 ? typed.join("\n") : text;
}

/** A directory with what the guide takes for granted: the repository as "coil", and the programs. */
async function workplace(plane: ControlPlane): Promise<string> {
  const directory = path.join(plane.runDir, "guide");
  await Deno.mkdir(path.join(directory, "bin"), { recursive: true });
  await Deno.symlink(ROOT, path.join(directory, "coil"));
  await Deno.symlink(`${ROOT}deploy`, path.join(directory, "deploy"));
  const programs = {
    kubectl: path.join(binDir(), "kubectl"),
    helm: await ensureHelm(),
  };
  for (const [name, file] of Object.entries(programs)) {
    await Deno.symlink(file, path.join(directory, "bin", name));
  }
  await Deno.writeTextFile(
    path.join(directory, "bin", "coil"),
    `#!/bin/sh\nexec "${Deno.execPath()}" run -A --no-check "${ROOT}main.ts" "$@"\n`,
    { mode: 0o755 },
  );
  return directory;
}

/** What a group of commands finds in the cluster. */
const BEFORE: Readonly<Record<string, string>> = {
  look: `
    kubectl apply -f coil/crds
    kubectl wait --for=condition=Established crd --all
    kubectl create namespace payments
    kubectl create namespace internet
    kubectl apply -f - <<EOF
apiVersion: v1
kind: Node
metadata: {name: worker-1}
---
apiVersion: coil.cybozu.com/v2
kind: AddressPool
metadata: {name: default}
spec: {subnets: [{ipv4: 10.100.0.0/24}]}
---
apiVersion: coil.cybozu.com/v2
kind: Egress
metadata: {name: nat, namespace: internet}
spec: {destinations: [0.0.0.0/0]}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: coil-ipam-leader, namespace: kube-system}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: coil-egress-leader, namespace: kube-system}
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
  // An installation by kubectl.
  takeover:
    "helm template coil deploy/chart -n kube-system | kubectl apply -f -",
};

const groups = new Set(
  (await blocks()).flatMap(({ info }) => info.split(" tested=")[1] ?? []),
);

for (const group of groups) {
  Deno.test(`the documents' commands work: ${group}`, async () => {
    await using plane = await ControlPlane.start({
      name: `guide-${group}`.slice(0, 12).replace(/-$/, ""),
      controllerManager: true,
    });
    const directory = await workplace(plane);
    const env = {
      PATH: `${directory}/bin:${Deno.env.get("PATH")}`,
      KUBECONFIG: plane.kubeconfig,
      KUBECACHEDIR: path.join(directory, "kubectl-cache"),
      HELM_CACHE_HOME: path.join(directory, "helm"),
      HELM_CONFIG_HOME: path.join(directory, "helm"),
      HELM_DATA_HOME: path.join(directory, "helm"),
    };
    const all = (await blocks())
      .filter(({ info }) => info.endsWith(` tested=${group}`));
    for (const script of [BEFORE[group] ?? "", ...all.map(scriptOf)]) {
      await run("bash", ["-euo", "pipefail", "-c", script], {
        cwd: directory,
        env,
      });
    }
  });
}
