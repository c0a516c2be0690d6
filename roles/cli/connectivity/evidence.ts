import { forEachConcurrently } from "../../../lib/async/mod.ts";
import { type NodeFacts, PROBE_PORT } from "../../../lib/connectivity/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import type { CoilContainer } from "../base/kubectl.ts";
import { plainText } from "../base/problem.ts";
import { askFrom, type Asking, lookFrom } from "./ask.ts";
import { addressOf } from "./plan.ts";
import type { Failure } from "./results.ts";

/** Kernel facts of nodes with failures. */
export interface Evidence {
  /** By the name of the node; absent where it could not be asked. */
  readonly facts: ReadonlyMap<string, NodeFacts>;
  /** Whether a node itself reaches an address of a probe by TCP; undefined if not known. */
  reaches(node: string, address: string): boolean | undefined;
}

/** Nodes that are asked at a time. */
const AT_ONCE = 16;
const TIMEOUT_MS = 5_000;

/** Pairs of pods that fail: of them their nodes may know why. */
interface Pair {
  readonly nodes: readonly string[];
  readonly target: string;
  readonly addresses: readonly string[];
}

/** Asks the coild of both nodes of each pair of pods that fails. */
export async function gatherEvidence(
  failures: readonly Failure[],
  { coilds, ...asking }: Asking & {
    readonly coilds: ReadonlyMap<string, CoilContainer>;
  },
): Promise<Evidence> {
  const pairs = failures.flatMap(pairOf);
  const nodes = [...new Set(pairs.flatMap((pair) => pair.nodes))].sort();
  const facts = new Map<string, NodeFacts>();
  const reached = new Map<string, boolean>();
  await forEachConcurrently(nodes, AT_ONCE, async (node) => {
    const coild = coilds.get(node);
    if (coild === undefined) return;
    const own = pairs.filter((pair) => pair.nodes.includes(node));
    const addresses = new Set(own.flatMap((pair) => pair.addresses));
    const targets = [...new Set(own.map(({ target }) => target))];
    try {
      facts.set(node, await lookFrom(coild, [...addresses], asking));
      const outcomes = await askFrom(
        coild,
        targets.map((address) => questionOf(address)),
        { ...asking, timeoutMs: TIMEOUT_MS },
      );
      targets.forEach((address, i) => {
        reached.set(`${node} ${address}`, outcomes[i]?.state === "answered");
      });
    } catch (error) {
      const why = messageOf(error);
      asking.say(
        `Cannot ask Node ${node} for the reason: ${plainText(why)}`,
      );
    }
  });
  return {
    facts,
    reaches: (node, address) => reached.get(`${node} ${address}`),
  };
}

function questionOf(address: string) {
  return { kind: "tcp", address, port: PROBE_PORT, isLarge: false } as const;
}

function pairOf({ probe: { from, to, family } }: Failure): Pair[] {
  if (to === undefined || family === undefined) return [];
  const target = addressOf(to, family);
  const source = addressOf(from, family);
  if (target === undefined || source === undefined) return [];
  const nodes = [...new Set([from.node, to.node])];
  return [{ nodes, target, addresses: [target, source] }];
}
