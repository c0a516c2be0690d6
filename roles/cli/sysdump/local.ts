import { askMetrics } from "../../../lib/cnirpc/inspection/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import { VERSION } from "../../../lib/names/mod.ts";
import { formatProblems } from "../base/problem.ts";
import { MIN_AGE_MS } from "../../../lib/ipam/audit/mod.ts";
import { checkHere } from "../check/check.ts";
import { askHere, callsHere } from "../check/here.ts";
import type { Missing } from "../archive/summary.ts";
import { NETWORK_FILES } from "./network.ts";

/** Diagnostics of one of Coil's pods and its node. */
export interface LocalReport {
  readonly version: string;
  /** Texts by the name of their file. */
  readonly files: Readonly<Record<string, string>>;
  readonly missing: readonly Missing[];
}

/** Which pod this is. */
export interface LocalOptions {
  /** Value of the label of the pod's component. */
  readonly component: string;
  /** Where the daemon has its metrics; 0 if nowhere. */
  readonly metricsPort: number;
  /** Of coild; empty for the one that is there. */
  readonly socket: string;
}

/** How long the daemon may take to answer. */
const ASK_MS = 10_000;

/** Texts by the name of their file, each as it is read. */
type Readers = Readonly<Record<string, () => Promise<string>>>;

/** Reads all that there is; a part that fails does not keep it from the others. */
export async function readLocal(options: LocalOptions): Promise<LocalReport> {
  const files: Record<string, string> = {};
  const missing: Missing[] = [];
  const results = await Promise.all(
    groupsOf(options).map((readers) => readAll(readers)),
  );
  for (const { name, text, why } of results.flat()) {
    if (why === undefined) files[name] = text;
    else missing.push({ what: name, why });
  }
  return { version: VERSION, files, missing };
}

interface Read {
  readonly name: string;
  readonly text: string;
  /** Why it could not be read. */
  readonly why?: string;
}

/** Reads one after the other. */
async function readAll(readers: Readers): Promise<Read[]> {
  const results: Read[] = [];
  for (const [name, read] of Object.entries(readers)) {
    try {
      results.push({ name, text: await read() });
    } catch (error) {
      results.push({ name, text: "", why: messageOf(error) });
    }
  }
  return results;
}

/**
 * What is read, in groups that do not wait for each other: of a daemon that
 * hangs, each question takes {@linkcode ASK_MS}. The kernel's dumps are one
 * group, since coild's container has to hold the largest of them.
 */
function groupsOf(
  { component, metricsPort, socket }: LocalOptions,
): readonly Readers[] {
  return [
    ...(component.endsWith("coild") ? coildGroups(socket) : []),
    // A controller has nothing to do with the network it is in.
    ...(component.endsWith("controller") ? [] : [NETWORK_FILES]),
    ...(metricsPort === 0 ? [] : [{
      "metrics.txt": () =>
        askMetrics(metricsPort, { signal: AbortSignal.timeout(ASK_MS) }),
    }]),
  ];
}

function coildGroups(socket: string): readonly Readers[] {
  return [
    {
      "addresses.json": async () =>
        `${JSON.stringify(await askHere(socket))}\n`,
    },
    {
      "calls.json": async () => `${JSON.stringify(await callsHere(socket))}\n`,
    },
    {
      "ipam_check.txt": async () => {
        const { problems, unseen } = await checkHere({
          socket,
          minAgeMs: MIN_AGE_MS,
        });
        return formatProblems(problems, unseen);
      },
    },
  ];
}

/** Reads what {@linkcode readLocal} wrote, on a node that may be hostile. @throws {SyntaxError} when it is something else */
export function parseLocal(text: string): LocalReport {
  const answer: unknown = JSON.parse(text);
  const { version, files, missing } = (answer ?? {}) as Partial<LocalReport>;
  const isReport = typeof version === "string" && Array.isArray(missing) &&
    typeof files === "object" && files !== null &&
    Object.entries(files).every(([name, content]) =>
      /^\w+\.(?:txt|json)$/.test(name) && typeof content === "string"
    ) &&
    missing.every((entry: Partial<Missing> | null) =>
      typeof entry?.what === "string" && typeof entry.why === "string"
    );
  if (!isReport) throw new SyntaxError("its answer is not a report");
  return { version, files, missing };
}
