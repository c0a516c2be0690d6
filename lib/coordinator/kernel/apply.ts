import { writeSysctl } from "../../linux/mod.ts";
import type { NetlinkError } from "../../netlink/mod.ts";
import { holds } from "../state/compare.ts";
import type { Kernel } from "./ports.ts";
import { REPLY_TABLE } from "../plan/reply_table.ts";
import { doRequest, undoRequest } from "./requests.ts";
import { lacksConntrack, needsConntrack } from "./needs_conntrack.ts";
import { type Place, type State, sysctlKey } from "../state/state.ts";
import {
  isNetlinkStep,
  type NetlinkStep,
  type Step,
  type StepOf,
} from "../state/steps.ts";

/** Where the undo of each step is kept. */
export interface Undo {
  defer(undo: () => Promise<void>): void;
}

/**
 * Makes the kernel as the steps say; steps that are done already are left out. What each step
 * changed is registered with `undo` before the next send.
 *
 * @throws {NetlinkError} for the first step that the kernel refuses
 */
export async function applySteps(
  kernel: Kernel,
  steps: readonly Step[],
  { state, undo }: { readonly state: State; readonly undo: Undo },
): Promise<void> {
  const pending = steps.filter((step) => !holds(step, state));
  let batch: NetlinkStep[] = [];
  const flush = async () => {
    const sent = batch;
    batch = [];
    await send(kernel, sent, { state, undo });
  };
  for (const step of pending) {
    const isNetlink = isNetlinkStep(step);
    const [last] = batch;
    if (!isNetlink || last !== undefined && placeOf(last) !== placeOf(step)) {
      await flush();
    }
    if (isNetlink) batch.push(step);
    else if (step.kind === "sysctl") setSysctl(kernel, step, { state, undo });
    else await markReplies(kernel, undo);
  }
  await flush();
}

/** All of one side in one send. The kernel goes on after a step that it refuses, so more than those before it may have to be undone. */
async function send(
  kernel: Kernel,
  steps: readonly NetlinkStep[],
  { state, undo }: { readonly state: State; readonly undo: Undo },
): Promise<void> {
  const [first] = steps;
  if (first === undefined) return;
  const socket = kernel[placeOf(first)];
  const errors = await socket.tryExecute(
    steps.map((step) => doRequest(step, state)),
  );
  for (const [i, step] of steps.entries()) {
    const error = errors[i];
    if (error !== undefined) continue;
    const request = undoRequest(step, state);
    undo.defer(() => socket.execute([request]));
  }
  const refused = errors.find((error, i) =>
    error !== undefined && !isGone(steps[i], error)
  );
  if (refused !== undefined) throw refused;
}

function setSysctl(
  { netns, hostNetns }: Kernel,
  step: StepOf<"sysctl">,
  { state, undo }: { readonly state: State; readonly undo: Undo },
): void {
  const options = { netns: step.place === "pod" ? netns : hostNetns };
  const before = state.sysctls.get(sysctlKey(step));
  writeSysctl(step.name, step.value, options);
  if (before === undefined) return;
  undo.defer(async () => writeSysctl(step.name, before, options));
}

async function markReplies({ filters }: Kernel, undo: Undo): Promise<void> {
  const existed = await filters.tableExists(REPLY_TABLE.name);
  try {
    await filters.replaceTable(REPLY_TABLE);
  } catch (cause) {
    throw lacksConntrack(cause) ? needsConntrack(cause) : cause;
  }
  if (existed) return;
  undo.defer(async () => {
    await filters.deleteTable(REPLY_TABLE.name);
  });
}

function placeOf(step: Step): Place {
  return "place" in step ? step.place : "pod";
}

/** What was to be removed is gone already. */
function isGone(step: Step | undefined, error: NetlinkError): boolean {
  const removes = step?.kind === "noRule" || step?.kind === "noRoute" ||
    step?.kind === "noNeighbour";
  return removes && error.isAbsent;
}
