// `deno task demo`: Coil at work on a real control plane and three nodes;
// with --egress, the way out through gateways.
import { parseArgs } from "node:util";
import { messageOf } from "../../lib/errors/mod.ts";
import { refuseTask } from "../../lib/flags/mod.ts";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { CoilCluster } from "../lab/coil.ts";
import {
  cleanUp,
  ensureApiServer,
  keepLab,
  removeLabAndExit,
  removeLabOnSignals,
} from "../lab/mod.ts";
import {
  BUILD_PACKAGES,
  CONTROL_PLANE_PACKAGES,
  preparePackages,
} from "../lab/packages.ts";
import { tellCoordinator } from "./coordinator.ts";
import { showEgress } from "./egress.ts";
import { bold, dim, line, red, step, whenAudienceLeaves } from "./stage.ts";
import { tell } from "./story.ts";
import { tellVpc } from "./vpc.ts";

const NAME = "demo";
const USAGE =
  `usage: deno task demo [--egress | --coordinator | --vpc | --keep | --down]

Shows Coil at work: a real etcd and kube-apiserver, three nodes as network
namespaces, pods through the compiled CNI plugin. Needs root and Node; and Go
where official binaries of etcd and kube-apiserver cannot be downloaded, and
for --egress, whose controllers they lack.

  --egress   show pods that reach an outside network through gateways instead;
             where the kernel lacks Foo over UDP, in a virtual machine, whose
             kernel is built once (some minutes) and needs no KVM
  --coordinator
             show pods on a physical network and with several interfaces
             instead
  --vpc      show pods with addresses of a VPC, simulated, instead (two minutes)
  --keep     leave everything up at the end, and say how to look around
  --down     remove what --keep left
  --help     this text`;

const MORE = [
  "Pods that reach outside networks through gateways: npx --yes deno@2.9.6 task demo --egress",
  "Pods on a physical network, with several interfaces: npx --yes deno@2.9.6 task demo --coordinator",
  "Pods with addresses of a VPC: npx --yes deno@2.9.6 task demo --vpc",
];

const PACKAGES = {
  ...CONTROL_PLANE_PACKAGES,
  ...BUILD_PACKAGES,
  "iputils-ping": "ping",
  curl: "curl",
};

interface Options {
  readonly egress: boolean;
  readonly coordinator: boolean;
  readonly vpc: boolean;
  readonly keep: boolean;
  readonly down: boolean;
}

function options(): Options {
  try {
    const { values } = parseArgs({
      args: Deno.args,
      options: {
        egress: { type: "boolean", default: false },
        coordinator: { type: "boolean", default: false },
        vpc: { type: "boolean", default: false },
        keep: { type: "boolean", default: false },
        down: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    });
    if (values.help) {
      line(USAGE);
      Deno.exit(0);
    }
    const { egress, coordinator, vpc, keep, down } = values;
    if ([egress, coordinator, vpc, keep, down].filter(Boolean).length > 1) {
      throw new TypeError(
        "Cannot do more than one of --egress, --coordinator, --vpc, --keep, --down",
      );
    }
    return { egress, coordinator, vpc, keep, down };
  } catch (error) {
    refuseTask("demo", error);
  }
}

async function prepare(
  { title, nodes }: { readonly title: string; readonly nodes: number },
): Promise<CoilCluster> {
  line(bold(title));
  line(dim("Everything below is real: etcd, kube-apiserver, the kernel."));
  line();
  await step("Debian packages", (say) => preparePackages(PACKAGES, say));
  const programs = await step(
    "etcd and kube-apiserver (once: official binaries, else a build of some minutes)",
    (say) => ensureApiServer({ log: say, notice: (text) => line(`\n${text}`) }),
  );
  const executable = await step(
    "the coil executable",
    (say) => buildExecutable({ log: say }),
  );
  return await step(
    `control plane, nodes (${nodes}), CRDs and RBAC`,
    (say) =>
      CoilCluster.start({
        name: NAME,
        executable,
        nodes,
        programs,
        audit: "metadata",
        log: say,
      }),
  );
}

async function remove(): Promise<void> {
  await cleanUp(NAME, { log: line });
}

function lookAround(cluster: CoilCluster): void {
  const { plane, nodes } = cluster;
  const [node] = nodes;
  if (node === undefined) return;
  const { netns } = node;
  line(bold("Left up. To look around:"));
  for (
    const command of [
      `export KUBECONFIG=${plane.kubeconfig} PATH=${plane.programs}:${cluster.binDir}:$PATH`,
      "kubectl get addresspools,addressblocks,blockrequests",
      "kubectl describe addresspool default",
      "coil ipam show addresses",
      `ip netns exec ${netns} ip route show table 116   # pods of node1`,
      `ip netns exec ${netns} ip route show table 119   # blocks of node1`,
      `less ${cluster.daemonOf(node)?.logFile}`,
      "npx --yes deno@2.9.6 task demo --down            # remove it all",
    ]
  ) line(`  ${command}`);
}

async function showAddresses(options: { readonly keep: boolean }) {
  const cluster = await prepare({
    title: "Coil: pods get addresses",
    nodes: 3,
  });
  await tell(cluster, options);
  line();
  if (options.keep) {
    await keepLab(NAME);
    lookAround(cluster);
  }
  for (const text of MORE) line(dim(text));
}

async function showCoordinator() {
  const cluster = await prepare({
    title: "Coil: pods on a physical network, with several interfaces",
    nodes: 1,
  });
  await tellCoordinator(cluster);
}

async function showVpc() {
  const cluster = await prepare({
    title: "Coil: pods with addresses of a VPC",
    nodes: 2,
  });
  await tellVpc(cluster, { name: NAME });
}

const { egress, coordinator, vpc, keep, down } = options();
if (Deno.uid() !== 0) {
  line("The demo makes network namespaces: run it as root");
  Deno.exit(1);
}
if (down) {
  await step("removing the demo", remove);
  Deno.exit(0);
}
let failed = false;
whenAudienceLeaves(() => removeLabAndExit(NAME, 0));
removeLabOnSignals(NAME, (text) => line(`\n${text}`));
try {
  if (egress) await showEgress(NAME);
  else if (coordinator) await showCoordinator();
  else if (vpc) await showVpc();
  else await showAddresses({ keep });
} catch (error) {
  failed = true;
  line(
    red(`The demo failed: ${messageOf(error)}`),
  );
}
if (!keep) await step("cleaning up", remove);
Deno.exit(failed ? 1 : 0);
