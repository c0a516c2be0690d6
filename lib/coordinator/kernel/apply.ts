import { settled } from "../../async/mod.ts";
import {
  linkGet,
  NetlinkError,
  type Request,
  type Route,
} from "../../netlink/mod.ts";
import { holds, isInPlace } from "../state/compare.ts";
import type { Kernel, Routes } from "./ports.ts";
import { NEW_REPLY_TABLE, REPLY_TABLE } from "../plan/reply_table.ts";
import { type Ends, raiseProblem, raiseRequests } from "./ends.ts";
import { lacksConntrack, needsConntrack } from "./needs_conntrack.ts";
import { addRequest, doRequest, silent, undoRequests } from "./requests.ts";
import { throwRefusal } from "./remove.ts";
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

/** What steps are applied to. */
export interface Application {
  readonly state: State;
  readonly undo: Undo;
  /** A new pair is set up by the same sends. */
  readonly ends: Ends;
}

/**
 * Makes the kernel as the steps say; steps that are done already are left out.
 * First the sysctls, which need nothing of the others. These go to each side by
 * one send, to the pod's first: the host's routes lead to what they make. What
 * each send changed is registered with `undo` before the next one.
 *
 * @throws {NetlinkError} for the first step that the kernel refuses
 */
export async function applySteps(
  kernel: Kernel,
  steps: readonly Step[],
  { ends, ...application }: Application,
): Promise<void> {
  const left = steps.filter((step) => !holds(step, application.state));
  for (const step of left) {
    if (step.kind === "sysctl") setSysctl(kernel, step, application);
  }
  const sent = left.filter(isNetlinkStep);
  const of = (place: Place) => sent.filter((step) => placeOf(step) === place);
  const made = ends.isNew ? ends : undefined;
  await settled([
    send(kernel.pod, of("pod"), {
      ...application,
      before: made && raiseRequests({ index: made.inner.index }),
    }),
    left.some(({ kind }) => kind === "replies")
      ? markReplies(kernel, application.undo)
      : undefined,
  ]);
  await send(kernel.host, of("host"), {
    ...application,
    // The last end to be set up can send at once, the other one when the kernel acts on its carrier, or is asked.
    after: made && [linkGet({ index: made.outer.index })],
  });
}

/** All of one side in one send. The kernel goes on after a step that it refuses, so more than those before it may have to be undone. */
async function send(
  socket: Routes,
  steps: readonly NetlinkStep[],
  { state, undo, before = [], after = [] }: Omit<Application, "ends"> & {
    readonly before?: readonly Request[] | undefined;
    readonly after?: readonly Request[] | undefined;
  },
): Promise<void> {
  const requests = steps.map((step) => addRequest(step, state));
  const answers = await socket.tryExecute(
    [...before, ...requests, ...after].map(silent),
  );
  await judge(socket, answers.slice(before.length), {
    steps,
    state,
    undo,
    problem: raiseProblem(answers.slice(0, before.length)),
  });
}

/** Registers what undoes the steps that the kernel took, or may have taken. @throws {NetlinkError} for what was refused before them, or the first one that is */
async function judge(
  socket: Routes,
  errors: readonly (NetlinkError | undefined)[],
  { steps, state, undo, problem }: Omit<Application, "ends"> & {
    readonly steps: readonly NetlinkStep[];
    readonly problem: NetlinkError | undefined;
  },
): Promise<void> {
  const taken: StepOf<"route">[] = [];
  let first = problem;
  for (const [i, step] of steps.entries()) {
    const error = errors[i];
    if (error === undefined || error.lost === "answer") {
      undo.defer(() => putBack(socket, undoRequests(step, state)));
    }
    if (error === undefined) continue;
    if (step.kind === "route" && error.code === "EEXIST") taken.push(step);
    else if (!isGone(step, error)) first ??= error;
  }
  if (first !== undefined) throw first;
  for (const step of taken) await takePlace(socket, step, { state, undo });
}

/** Puts a route in place of another link's, which was not read: a node has routes of many pods. */
async function takePlace(
  socket: Routes,
  step: StepOf<"route">,
  { state, undo }: Omit<Application, "ends">,
): Promise<void> {
  const { table, family } = step.route;
  const keep = (route: Route) => isInPlace(step.route, route);
  const routes = await socket.listRoutes({ table, family, keep });
  const read = { ...state, [step.place]: { ...state[step.place], routes } };
  undo.defer(() => putBack(socket, undoRequests(step, read)));
  await socket.execute([doRequest(step, read)]);
}

/** What is as before already is no failure: the step may not have been carried out. */
async function putBack(
  socket: Routes,
  requests: readonly Request[],
): Promise<void> {
  throwRefusal(await socket.tryExecute(requests), { allowed: AS_BEFORE });
}

/** Of a rule or route that is still there, and of an address that was not added. */
const AS_BEFORE = ["EEXIST", "EADDRNOTAVAIL"];

function setSysctl(
  { netns, hostNetns, writeSysctl }: Kernel,
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
  const deleteLater = () =>
    undo.defer(async () => {
      await filters.deleteTable(REPLY_TABLE.name);
    });
  try {
    if (await filters.createTable(NEW_REPLY_TABLE)) deleteLater();
    else await filters.replaceTable(REPLY_TABLE);
  } catch (cause) {
    if (cause instanceof NetlinkError && cause.lost === "answer") deleteLater();
    throw lacksConntrack(cause) ? needsConntrack(cause) : cause;
  }
}

function placeOf(step: NetlinkStep): Place {
  return "place" in step ? step.place : "pod";
}

/** What was to be removed is gone already. */
function isGone(step: Step, error: NetlinkError): boolean {
  const removes = step.kind === "noRule" || step.kind === "noRoute" ||
    step.kind === "noNeighbour";
  return removes && error.isAbsent;
}
