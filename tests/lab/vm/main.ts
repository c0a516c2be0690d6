// A command in the virtual machine of the tests, for work by hand:
//
//   deno run -A tests/lab/vm/main.ts [--share DIR] [--env K=V] [--timeout S] -- COMMAND [ARG...]
import { parseArgs } from "node:util";
import { ensureVm, runInVm, VmError, VmTimeoutError } from "./mod.ts";

const USAGE =
  `usage: main.ts [--share DIR] [--env K=V] [--timeout S] -- COMMAND [ARG...]

Runs a command as root in a throw-away virtual machine with a Debian kernel, on this machine's own files.

  --share DIR     a directory that it may write to; repeatable
  --env K=V       a variable of its environment; repeatable
  --timeout S     ends the machine after so many seconds (default 600)

Exit status: the command's; 124 when the time is over; 125 when the machine failed.`;

function fail(text: string): never {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
  Deno.exit(125);
}

function parse(args: readonly string[]) {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: {
        share: { type: "string", multiple: true, default: [] },
        env: { type: "string", multiple: true, default: [] },
        timeout: { type: "string", default: "600" },
      },
      allowPositionals: true,
    });
    return { ...values, command: positionals };
  } catch (error) {
    fail(`${error instanceof Error ? error.message : error}\n${USAGE}`);
  }
}

function say(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

const { share, env, timeout, command } = parse(Deno.args);
if (command.length === 0) fail(USAGE);
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
  Deno.addSignalListener(signal, () => Deno.exit(130));
}
try {
  const vm = await ensureVm({ log: say });
  const status = await runInVm(vm, {
    command,
    shares: share.map((dir) => Deno.realPathSync(dir)),
    env: Object.fromEntries(env.map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), pair.slice(at + 1)];
    })),
    timeoutMs: Number(timeout) * 1000,
  }, { log: say });
  Deno.exit(status);
} catch (error) {
  if (error instanceof VmTimeoutError) {
    say(error.message);
    Deno.exit(124);
  }
  fail(error instanceof VmError ? error.message : `${error}`);
}
