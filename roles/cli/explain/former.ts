import type { FormerHolder } from "../../../lib/cnirpc/inspection/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import type { Exec } from "../base/kubectl.ts";
import type { Looker, Unseen } from "../base/looker.ts";
import { askNodes } from "../check/nodes.ts";
import type { Former } from "./facts.ts";

/** What nodes remember of addresses. */
export interface FormerReport {
  /** The last one first. */
  readonly former: readonly Former[];
  /** Nodes about which nothing is known. */
  readonly unseen: readonly Unseen[];
}

/** Asks the coild of every node who had the addresses: a block may have been another node's within the day. */
export async function askFormerOfNodes(
  looker: Looker,
  { exec, socket, addresses }: {
    readonly exec: Exec;
    readonly socket: string;
    readonly addresses: readonly Address[];
  },
): Promise<FormerReport> {
  const former: Former[] = [];
  const unseen = new Map<string, Unseen>();
  for (const address of addresses) {
    const asked = await askNodes(looker, {
      exec,
      args: [
        ...["explain", "--local", "--output=json"],
        ...socket === "" ? [] : [`--socket=${socket}`],
        `${address}`,
      ],
      parse: parseFormer,
    });
    for (const [node, answer] of asked.answers) {
      former.push(...answer.map((holder) => ({ ...holder, node })));
    }
    for (const each of asked.unseen) unseen.set(each.what, each);
  }
  // The addresses of one pod came free together.
  const distinct = new Map(
    former.map((each) => [`${each.containerId} ${each.until}`, each]),
  );
  return {
    former: [...distinct.values()].sort((a, b) =>
      Date.parse(b.until) - Date.parse(a.until)
    ),
    unseen: [...unseen.values()],
  };
}

/** Reads the output of `coil explain --local`. @throws {SyntaxError} when it is something else */
function parseFormer(text: string): readonly FormerHolder[] {
  const answer: unknown = JSON.parse(text);
  const isList = Array.isArray(answer) &&
    answer.every((each: Partial<FormerHolder> | null) =>
      Array.isArray(each?.addresses) && typeof each.until === "string" &&
      typeof each.containerId === "string"
    );
  if (isList) return answer;
  throw new SyntaxError("its answer is not a list of former holders");
}
