import assert from "node:assert/strict";
import { untilAborted } from "../../lib/async/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { FakeTransport } from "../../lib/kube/testing.ts";
import { createRegistry } from "../../lib/telemetry/mod.ts";
import { parseEgressFlags, runGateway } from "../../roles/coil_egress/mod.ts";
import { ClientsKernel } from "./clients_kernel.ts";

Deno.test("coil-egress keeps itself small until it ends, also while the API server is away", async () => {
  const options = parseEgressFlags([
    "--metrics-addr=0",
    "--health-addr=0",
    "--announce-addr=127.0.0.1:0",
  ], { program: "coil-egress", version: "test", about: "" });
  using client = new KubeClient(new FakeTransport(() => ({ status: 503 })));
  const end = new AbortController();
  const steps: string[] = [];
  const running = runGateway({
    options,
    identity: {
      namespace: "nat",
      egress: "internet",
      pod: "internet-0",
      addresses: { ipv4: Address.parse("127.0.0.1") },
    },
    kernel: new ClientsKernel(),
    client,
    registry: createRegistry(),
    leastDrainMs: 0,
    heap: {
      async run(signal): Promise<never> {
        steps.push("begins");
        await untilAborted(signal);
        steps.push("ends");
        throw signal.reason;
      },
    },
  }, end.signal);
  end.abort();
  await running;
  assert.deepEqual(steps, ["begins", "ends"]);
});
