/**
 * `coil probe`: what `coil connectivity test` runs in its pods and on nodes.
 *
 * @module
 */
import {
  defineFlags,
  parseFlags,
  printAll,
  refuseCommandLine,
} from "../../lib/flags/mod.ts";
import { PROBE_PORT, type Questions } from "../../lib/connectivity/mod.ts";
import { POD_NAME_ENV, VERSION } from "../../lib/names/mod.ts";
import { configureLogging, runDaemon } from "../../lib/telemetry/mod.ts";
import { ask } from "./ask.ts";
import { look } from "./look.ts";
import { serve } from "./serve.ts";

const GRACE_MS = 2_000;

const FLAGS = defineFlags({
  "port": {
    type: "int",
    default: PROBE_PORT,
    min: 1,
    max: 65_535,
    help: "With serve: TCP and UDP port",
  },
});

/** Runs one of the commands and ends the process. */
export async function main(args: readonly string[]): Promise<void> {
  const { values, positionals: [command] } = parseFlags(FLAGS, args, {
    program: "coil probe",
    version: VERSION,
    about:
      `The other half of "coil connectivity test", which runs it. serve answers by TCP and
UDP with the address that it sees; ask tries the destinations that stdin has, as
JSON; look says what the kernel knows of the addresses there.`,
    positionals: "serve|ask|look",
  });
  switch (command) {
    case "serve":
      return await runServer(values.port);
    case "ask":
      return answer(await ask(await readInput() as Questions));
    case "look":
      return answer(await look(await readInput() as string[]));
    default:
      refuseCommandLine("needs one of: serve, ask, look", {
        program: "coil probe",
      });
  }
}

async function runServer(port: number): Promise<void> {
  configureLogging();
  const name = Deno.env.get(POD_NAME_ENV) ?? Deno.hostname();
  await runDaemon("coil probe", async (signal) => {
    const { finished } = await serve({ port, name, signal });
    await finished;
  }, { graceMs: GRACE_MS });
}

/** What the command that runs this asks for. */
async function readInput(): Promise<unknown> {
  return await new Response(Deno.stdin.readable).json();
}

function answer(value: unknown): never {
  printAll(Deno.stdout, `${JSON.stringify(value)}\n`);
  Deno.exit(0);
}
