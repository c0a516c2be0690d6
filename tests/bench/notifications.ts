// What the kernel's notifications about starting pods cost: in processor time,
// and in the time that a wave of pods takes with and without them.
import { DAEMON_V8_FLAGS } from "../../deploy/executable/modules/v8_flags.ts";
import { type LabNode, sleep } from "../lab/mod.ts";
import { Ears } from "./ears.ts";
import { type Figure, figure } from "./figures.ts";
import { type PodBench, timed } from "./pods.ts";
import type { Sandbox } from "../lab/runtime.ts";
import { processorNs } from "./process_memory.ts";

const PROGRAM = new URL("./notifications_program.ts", import.meta.url).pathname;

/** A process on a node that hears what coild hears, and works on nothing else. coild's own changes are another's to it, so it hears more. */
export class NotificationListener implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
  }

  static async start(node: LabNode): Promise<NotificationListener> {
    const child = new Deno.Command("ip", {
      args: [
        ...["netns", "exec", node.netns, Deno.execPath()],
        ...["run", "-A", DAEMON_V8_FLAGS, PROGRAM],
      ],
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const reader = child.stdout.getReader();
    const { done } = await reader.read();
    if (done) throw new Error("Cannot listen to the node's notifications");
    reader.releaseLock();
    return new NotificationListener(child);
  }

  /** Processor time so far, in ms. */
  get usedMs(): number {
    return processorNs(this.#child.pid) / 1e6;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.#child.stdout.cancel();
    await this.#child.status;
  }
}

/**
 * `wave110.heard`: by how many percent `size` ADDs at once take longer when
 * coild hears the kernel's notifications than when it hears none, for each pair
 * of waves. Which of the two is first changes from pair to pair.
 */
export async function heardFigures(
  { cluster, node, namespace }: Pick<
    PodBench,
    "cluster" | "node" | "namespace"
  >,
  { size, pairs, settleMs }: {
    readonly size: number;
    readonly pairs: number;
    /** After a wave, until coild has collected its garbage. */
    readonly settleMs: number;
  },
): Promise<Figure[]> {
  const pid = cluster.daemonOf(node)?.pid;
  if (pid === undefined) throw new Error("Cannot measure without coild");
  const ears = new Ears(pid);
  const wave = async (label: string) => {
    const sandboxes: Sandbox[] = [];
    for (let i = 0; i < size; i++) {
      const pod = { namespace, name: `${label}-${i}` };
      sandboxes.push(await cluster.createSandbox(node, pod));
    }
    const addMs = await timed(() =>
      Promise.all(sandboxes.map((sandbox) => cluster.add(node, sandbox)))
    );
    await sleep(settleMs);
    await Promise.all(sandboxes.map((sandbox) => cluster.del(node, sandbox)));
    for (const sandbox of sandboxes) await cluster.removeSandbox(sandbox);
    return addMs;
  };
  const times: Record<"heard" | "unheard", number[]> = {
    heard: [],
    unheard: [],
  };
  for (let pair = 0; pair < pairs; pair++) {
    const order = ["heard", "unheard"] as const;
    for (const kind of pair % 2 === 0 ? order : order.toReversed()) {
      await ears.hear(kind === "heard");
      times[kind].push(await wave(`${kind}-${pair}`));
    }
  }
  await ears.hear(true);
  const more = times.heard.map((heard, pair) =>
    100 * (heard / (times.unheard[pair] ?? NaN) - 1)
  );
  return [
    figure(`wave${size}.add.heard`, "ms", times.heard),
    figure(`wave${size}.add.unheard`, "ms", times.unheard),
    figure(`wave${size}.heard`, "%", more, { target: "p50 ≤ 5" }),
  ];
}
