// Prepares the suites that its arguments name, one after the other: see preparation.ts, which reads its output.
import { messageOf } from "../../lib/errors/mod.ts";
import { preparePackages } from "../lab/packages.ts";
import { say } from "./output.ts";
import type { Told } from "./preparation.ts";
import { SUITES } from "./suites.ts";

function tell(told: Told): void {
  say(JSON.stringify(told));
}

const asked = SUITES.filter(({ name }) => Deno.args.includes(name));
for (const { name, packages, prepare } of asked) {
  const log = (line: string) => tell({ name, line });
  try {
    await preparePackages(packages, log);
    await prepare?.(log);
    tell({ name, obstacle: "" });
  } catch (error) {
    const obstacle = messageOf(error);
    tell({ name, obstacle });
  }
}
