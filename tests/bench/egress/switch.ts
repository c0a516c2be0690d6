// From the decision that a gateway is lost to the last client of the node.
import { openLibc } from "../../../lib/linux/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { SwitchLab } from "../../netns/egress_switch_lab.ts";
import type { Samples } from "./samples.ts";

/**
 * `switch.N`: until new connections of N clients, each in a namespace of its
 * own, avoid a lost gateway. `switch.N.ended`: until their connections through
 * it are ended. `switch.N.processor`: what that takes of one processor.
 */
export async function switchTimes(
  { clients, connections, rounds }: {
    readonly clients: number;
    readonly connections: number;
    readonly rounds: number;
  },
): Promise<Samples> {
  configureLogging({ write: () => {} });
  openLibc();
  const times: Record<"" | ".ended" | ".processor", number[]> = {
    "": [],
    ".ended": [],
    ".processor": [],
  };
  for (let round = 0; round < rounds; round++) {
    await using lab = await SwitchLab.open({ clients, connections });
    const { switchedMs, endedMs, processorMs } = await lab.lose();
    times[""].push(switchedMs);
    times[".ended"].push(endedMs);
    times[".processor"].push(processorMs);
  }
  return Object.fromEntries(
    Object.entries(times).map(([name, samples]) => [
      `switch.${clients}${name}`,
      { unit: "ms", samples },
    ]),
  );
}
