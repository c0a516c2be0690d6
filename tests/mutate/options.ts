import { parseArgs } from "node:util";
import { refuseTask } from "../../lib/flags/mod.ts";
import { say } from "../runner/output.ts";
import type { Sample } from "./sample.ts";

const USAGE = `usage: deno task mutate FOLDER [FLAG...]
       deno task mutate --changed [FLAG...]
       deno task mutate --wiring [FOLDER]

  FOLDER      change the production files in it, such as lib/ipam, or one file
  --changed   only lines that differ from origin/main, or from the commit before
  --wiring    the changes of tests/mutate/wiring.ts, each with its own test;
              those whose tests are in FOLDER
  --sample N  only N changes, spread evenly
  --seed N    another sample for each number; 0 without it
  --minutes N begin no change after so long
  --all       run all tests that import the file, not only its unit's
  --unit      run unit tests alone
  --report    survivors, and tests that fail without a change, are no failure

As root, tests of tests/netns run, too: for lib/podnet those called podnet_*.
A comment above that begins with "mutate:" explains why no test can notice a
change. Exit code: 0 when every change is noticed or explained, 1 when some
survived, 2 for a usage error or if tests fail without a change.`;

/** What the command line asks for. */
export interface Options {
  readonly all: boolean;
  readonly changed: boolean;
  readonly wiring: boolean;
  /** Of the files to change, or of the tests; empty when all count, or others do. */
  readonly folder: string;
  readonly sample: Sample;
  readonly minutes: number;
  /** Unit tests alone. */
  readonly unit: boolean;
  /** No finding is a failure. */
  readonly report: boolean;
}

/** Reads the command line; ends the process on `--help` and mistakes. */
export function readOptions(): Options {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        all: { type: "boolean", default: false },
        changed: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
        minutes: { type: "string", default: "" },
        report: { type: "boolean", default: false },
        sample: { type: "string", default: "" },
        seed: { type: "string", default: "0" },
        unit: { type: "boolean", default: false },
        wiring: { type: "boolean", default: false },
      },
    });
    if (values.help) {
      say(USAGE);
      Deno.exit(0);
    }
    const { all, changed, report, unit, wiring } = values;
    const [folder = "", ...more] = positionals;
    const ways = [folder !== "" && !wiring, changed, wiring].filter(Boolean);
    if (ways.length !== 1 || more.length > 0) {
      throw new TypeError("Cannot tell what to change");
    }
    const size = limitOf("number of changes", values.sample);
    const minutes = limitOf("number of minutes", values.minutes);
    if (!/^\d+$/.test(values.seed)) {
      throw new TypeError(`"${values.seed}" is not a number`);
    }
    const sample = { size, seed: Number(values.seed) };
    return { all, changed, report, unit, wiring, folder, sample, minutes };
  } catch (error) {
    refuseTask("mutate", error);
  }
}

/** Without a text there is no limit. */
function limitOf(what: string, text: string): number {
  if (!/^([1-9]\d*)?$/.test(text)) {
    throw new TypeError(`"${text}" is not a ${what}`);
  }
  return text === "" ? Infinity : Number(text);
}
