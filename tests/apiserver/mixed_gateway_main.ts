/**
 * A gateway of the version whose sources it is copied into, with a kernel that
 * is a set of addresses, written to a file whenever it changes.
 *
 *   mixed_gateway_main.ts CLIENTS_FILE HOST
 */
import { Address } from "../../lib/inet/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import {
  configureLogging,
  createRegistry,
  runDaemon,
} from "../../lib/telemetry/mod.ts";
import { parseEgressFlags, runGateway } from "../../roles/coil_egress/mod.ts";
import { ClientsKernel } from "./clients_kernel.ts";

const [file = "", host = ""] = Deno.args;

class FiledKernel extends ClientsKernel {
  override async setClients(all: readonly Address[]): Promise<void> {
    await super.setClients(all);
    await this.#write();
  }

  override async changeClients(
    change: Parameters<ClientsKernel["changeClients"]>[0],
  ): Promise<void> {
    await super.changeClients(change);
    await this.#write();
  }

  async #write(): Promise<void> {
    await Deno.writeTextFile(`${file}.new`, [...this.clients].sort().join(" "));
    await Deno.rename(`${file}.new`, file);
  }
}

configureLogging();
await runDaemon("coil-egress", async (signal) => {
  using client = await KubeClient.load();
  await runGateway({
    options: parseEgressFlags([
      `--health-addr=${host}:9387`,
      "--metrics-addr=0",
      `--announce-addr=${host}:9385`,
    ], { program: "coil-egress", version: "test", about: "" }),
    identity: {
      namespace: "nat",
      egress: "internet",
      pod: "internet-9",
      addresses: { ipv4: Address.parse("10.99.0.9") },
    },
    kernel: new FiledKernel(),
    client,
    registry: createRegistry(),
    leastDrainMs: 0,
  }, signal);
}, { graceMs: 10_000 });
