/**
 * A gateway in a process of its own. The kernel's half is a set of addresses: the real one needs Foo over UDP.
 *
 *   gateway_main.ts KUBECONFIG
 */
import { Address } from "../../lib/inet/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { createRegistry } from "../../lib/telemetry/mod.ts";
import { configureLogging, runDaemon } from "../../lib/telemetry/mod.ts";
import { parseEgressFlags, runGateway } from "../../roles/coil_egress/mod.ts";
import { ClientsKernel } from "../apiserver/clients_kernel.ts";

const [kubeconfig] = Deno.args;
configureLogging();
await runDaemon("coil-egress", async (signal) => {
  using client = await KubeClient.load({ kubeconfig });
  await runGateway({
    options: parseEgressFlags([], {
      program: "coil-egress",
      version: "test",
      about: "",
    }),
    identity: {
      namespace: "nat",
      egress: "internet",
      pod: "internet-0",
      addresses: { ipv4: Address.parse("10.99.0.1") },
    },
    kernel: new ClientsKernel(),
    client,
    registry: createRegistry(),
    leastDrainMs: 0,
  }, signal);
}, { graceMs: 10_000 });
