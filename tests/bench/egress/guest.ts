// What runs in the virtual machine: one part of the bench, whose samples it
// writes into a file that the machine shares.
//
//   guest.ts PART FILE ROUNDS
import { openAccess } from "../../vm/e2e_access.ts";
import { createTopology } from "../../vm/topology.ts";
import { addTimes } from "./client_add.ts";
import { applyTimes } from "./client_apply.ts";
import { failover } from "./failover.ts";
import { gatewaySamples, type Spare } from "./gateway.ts";
import { guestSite } from "./guest_site.ts";
import { SPARE } from "./objects.ts";
import type { Samples } from "./samples.ts";
import { throughput } from "./throughput.ts";

const SECONDS_PER_STREAM = 2;

const [part = "", file = "", count = "1"] = Deno.args;
const rounds = Number(count);

const encoder = new TextEncoder();
function say(text: string): void {
  Deno.stderr.writeSync(encoder.encode(`${text}\n`));
}

async function write(samples: Samples): Promise<void> {
  await Deno.writeTextFile(file, JSON.stringify(samples));
}

async function gateways(spare?: Spare): Promise<Samples> {
  const executable = Deno.env.get("COIL_EXECUTABLE") ?? "";
  await using access = await openAccess();
  await using _topology = await createTopology();
  const site = guestSite(access, executable);
  return await gatewaySamples(site, {
    starts: rounds,
    ...(spare === undefined ? {} : { spare }),
  });
}

switch (part) {
  case "apply":
    await write(await applyTimes({ rounds, tunnels: true }));
    break;
  case "add":
    await write(await addTimes(rounds));
    break;
  case "gateway":
    await write(await gateways(SPARE.guest));
    break;
  case "crowded":
    await write(await gateways());
    break;
  case "failover":
    await failover({ rounds, say, report: write });
    break;
  case "throughput": {
    const seconds = SECONDS_PER_STREAM;
    await throughput({ rounds, seconds, report: write });
    break;
  }
  default:
    throw new TypeError(`No part "${part}"`);
}
Deno.exit(0);
