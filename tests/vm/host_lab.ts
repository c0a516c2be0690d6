// On the machine itself, beside the virtual one: the control plane and the
// controller.
import * as path from "node:path";
import { CoilCluster } from "../lab/coil.ts";
import type { Log } from "../lab/mod.ts";
import { createVmNetwork, type VmNetwork } from "../lab/network.ts";

const POLICIES = new URL("../../deploy/policies", import.meta.url).pathname;

/** Name of the control plane's lab. */
export const HOST_LAB = "vm";
/** Variable that tells the tests in the virtual machine where {@link HostAccess} is. */
export const ACCESS_VARIABLE = "COIL_VM_ACCESS";

/** What tests in the virtual machine need to reach the API server. */
export interface HostAccess {
  readonly url: string;
  readonly adminToken: string;
  readonly ca: string;
  readonly caFile: string;
  /** Of the controller, which tests may want to show. */
  readonly controllerLog: string;
}

export interface HostLab extends AsyncDisposable {
  /** Environment for the virtual machine. */
  readonly env: Readonly<Record<string, string>>;
  /** Way of one virtual machine at a time to the control plane. */
  readonly network: VmNetwork;
  readonly cluster: CoilCluster;
}

/** Starts the control plane with all its controllers, and Coil's. */
export async function startHostLab(
  options: {
    readonly executable: string;
    readonly log: Log;
    /** Of the control plane's lab; {@link HOST_LAB} without it. */
    readonly name?: string;
  },
): Promise<HostLab> {
  const { executable, log, name = HOST_LAB } = options;
  log("starting the control plane");
  await using undo = new AsyncDisposableStack();
  const cluster = undo.use(
    await CoilCluster.start({
      name,
      executable,
      nodes: 0,
      controllerManager: true,
      families: ["ipv4", "ipv6"],
      log,
    }),
  );
  // With them comes the right to ask for the tokens that gateways are shown.
  await cluster.plane.kubectl("apply", "-k", POLICIES);
  const controller = await cluster.startController([
    "--egress-image=coil",
    "--node-grace=0s",
    // Gateways that end wait for their flows: longer than a slow machine takes to look at these, and not for ever.
    "--drain-timeout=40s",
  ]);
  const { plane } = cluster;
  const access: HostAccess = {
    url: plane.url,
    adminToken: plane.adminToken,
    ca: plane.ca,
    caFile: plane.caFile,
    controllerLog: controller.logFile,
  };
  const file = path.join(plane.runDir, "access.json");
  await Deno.writeTextFile(file, JSON.stringify(access), { mode: 0o600 });
  const { network, families } = plane;
  const vmNetwork = await createVmNetwork({ network, number: 1, families });
  const disposal = undo.move();
  return {
    network: vmNetwork,
    env: { [ACCESS_VARIABLE]: file },
    cluster,
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}
