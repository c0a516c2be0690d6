// A command in the virtual machine of the tests, for work by hand:
//
//   deno run -A tests/lab/vm/main.ts [--share DIR] [--env K=V] [--timeout S] -- COMMAND [ARG...]
import { parseArgs } from "node:util";
import { messageOf } from "../../../lib/errors/mod.ts";
import { ensureVm, runInVm, VmTimeoutError } from "./mod.ts";

const USAGE =
  `usage: main.ts [--share DIR] [--env K=V] [--timeout S] -- COMMAND [ARG...]

Runs a command as root in a throw-away virtual machine with a kernel of its own, on this machine's own files.

  --share DIR     a directory that it may write to; repeatable
  --env K=V       a variable of its environment; repeatable
  --timeout S     ends the machine after so many seconds (default 600)
  --help          shows this

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
        help: { type: "boolean", default: false },
      },
      allowPositionals: true,
    });
    return {
      shares: values.share.map((dir) => Deno.realPathSync(dir)),
      env: Object.fromEntries(values.env.map(parseVariable)),
      timeoutMs: parseSeconds(values.timeout) * 1000,
      help: values.help,
      command: positionals,
    };
  } catch (error) {
    fail(`${messageOf(error)}\n${USAGE}`);
  }
}

function parseVariable(text: string): [name: string, value: string] {
  const [, name, value] = /^([A-Za-z_]\w*)=(.*)$/s.exec(text) ?? [];
  if (name !== undefined && value !== undefined) return [name, value];
  throw new TypeError(`Cannot use --env "${text}": it is not NAME=VALUE`);
}

function parseSeconds(text: string): number {
  const seconds = Number(text);
  if (/^\d+$/.test(text) && seconds > 0 && seconds <= 86_400) return seconds;
  throw new RangeError(
    `Cannot use --timeout "${text}": it is not 1 to 86400 seconds`,
  );
}

function say(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

const { help, command, ...job } = parse(Deno.args);
if (help) {
  await Deno.stdout.write(new TextEncoder().encode(`${USAGE}\n`));
  Deno.exit(0);
}
if (command.length === 0) fail(USAGE);
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
  Deno.addSignalListener(signal, () => Deno.exit(130));
}
try {
  const vm = await ensureVm({ log: say });
  const status = await runInVm(vm, { ...job, command }, { log: say });
  Deno.exit(status);
} catch (error) {
  if (error instanceof VmTimeoutError) {
    say(error.message);
    Deno.exit(124);
  }
  fail(messageOf(error));
}
