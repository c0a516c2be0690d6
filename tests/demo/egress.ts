// `deno task demo --egress`: pods reach outside networks through gateways.
import { buildExecutable } from "../../deploy/executable/mod.ts";
import type { CoilCluster } from "../lab/coil.ts";
import { ensureControlPlane } from "../lab/mod.ts";
import {
  BUILD_PACKAGES,
  CONTROL_PLANE_PACKAGES,
  preparePackages,
} from "../lab/packages.ts";
import { ensureVm, type Vm } from "../lab/vm/mod.ts";
import { startHostLab } from "../vm/host_lab.ts";
import { kernelLacks, warmCache, World } from "./egress_lab.ts";
import { tellEgress } from "./egress_story.ts";
import { bold, dim, green, line, red, step } from "./stage.ts";

/** Sets everything up, tells the story and sums it up. @throws {Error} when a part of it failed. */
export async function showEgress(name: string): Promise<void> {
  line(bold("Coil: chosen pods reach outside networks through gateways"));
  line(dim("Everything below is real: etcd, kube-apiserver, the kernel."));
  line();
  const { executable, vm } = await prepare();
  await using lab = await step(
    "control plane and coil-controller",
    (log) => startHostLab({ name, executable, log }),
  );
  await using world = await step(
    `two nodes with coild, and a network outside${
      vm === undefined ? "" : ", in the virtual machine (a minute)"
    }`,
    () => World.start(lab, { executable, ...vm && { vm } }),
  );
  await tellAndSumUp(lab.cluster, world);
}

async function prepare(): Promise<{ executable: string; vm?: Vm }> {
  await step(
    "Debian packages",
    (say) =>
      preparePackages({ ...CONTROL_PLANE_PACKAGES, ...BUILD_PACKAGES }, say),
  );
  await step(
    "etcd, kube-apiserver and kube-controller-manager (built once, from source: some minutes)",
    (log) => ensureControlPlane({ log }),
  );
  const executable = await step(
    "the coil executable",
    (log) => buildExecutable({ log }),
  );
  const lacking = await kernelLacks();
  if (lacking === undefined) {
    line("   This kernel has Foo over UDP: the nodes are namespaces in it.");
    return { executable };
  }
  const [refusal] = lacking.split(";");
  line(dim(`   ${refusal}`));
  line(
    `   ${
      bold("So the nodes are in a virtual machine with a kernel of its own.")
    } Its processes start ten times slower than here.`,
  );
  const vm = await step(
    "the virtual machine (its kernel is built once, from source: some minutes)",
    async (log) => {
      await warmCache();
      return await ensureVm({ log });
    },
  );
  return { executable, vm };
}

async function tellAndSumUp(
  cluster: CoilCluster,
  world: World,
): Promise<void> {
  const facts: string[] = [];
  const saw = (fact: string) => facts.push(fact);
  const failure = await tellEgress({ cluster, world, saw }).then(
    () => undefined,
    (error: Error) => error,
  );
  if (failure !== undefined) {
    const logs = await world.call("logs", {}).catch(() => "");
    for (const row of logs.split("\n")) line(dim(`   ${row.slice(0, 200)}`));
  }
  line();
  line(bold("Seen:"));
  for (const fact of facts) line(`   ${green("✓")} ${fact}`);
  if (failure === undefined) return;
  line(`   ${red("✗")} ${failure.message}`);
  throw failure;
}
