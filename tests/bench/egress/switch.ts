// From the decision that a gateway is lost to the last client of the node.
import { openLibc } from "../../../lib/linux/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { SwitchLab } from "../../netns/egress_switch_lab.ts";
import type { Samples } from "./samples.ts";

/**
 * `switch.N`: until new connections of N clients, each in a namespace of its
 * own, avoid a lost gateway. `switch.N.ended`: until their connections through
 * it are ended. `….processor`: what that takes of processors.
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
  const times: Record<string, number[]> = {};
  const note = (name: string, ms: number) => (times[name] ??= []).push(ms);
  for (let round = 0; round < rounds; round++) {
    await using lab = await SwitchLab.open({ clients, connections });
    const { switched, ended } = await lab.lose();
    note("", switched.ms);
    note(".processor", switched.processorMs);
    note(".ended", ended.ms);
    note(".ended.processor", ended.processorMs);
  }
  return Object.fromEntries(
    Object.entries(times).map(([name, samples]) => [
      `switch.${clients}${name}`,
      { unit: "ms", samples },
    ]),
  );
}
