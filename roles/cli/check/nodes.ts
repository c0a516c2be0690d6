import { messageOf } from "../../../lib/errors/mod.ts";
import { EXIT } from "../../../lib/flags/mod.ts";
import { forEachConcurrently } from "../../../lib/async/mod.ts";
import { NODES, PODS, type V1Pod } from "../../../lib/kube/mod.ts";
import { APP_COMPONENT_LABEL } from "../../../lib/names/mod.ts";
import { containerOf, type Exec, failureOf } from "../base/kubectl.ts";
import type { Looker, Unseen } from "../base/looker.ts";
import { LINUX, OF_COIL } from "../base/selections.ts";

/** What nodes have answered. */
export interface NodesReport<A> {
  /** By the node's name. */
  readonly answers: ReadonlyMap<string, A>;
  /** Nodes about which nothing is known. */
  readonly unseen: readonly Unseen[];
}

/** A command for the coild of each node. */
export interface NodesCommand<A> {
  readonly exec: Exec;
  readonly args: readonly string[];
  /** Reads its output. @throws {SyntaxError} when it is something else */
  readonly parse: (stdout: string) => A;
}

/** Nodes that are asked at a time. */
const AT_ONCE = 16;

/** Runs a command of `coil` in the coild pod of every Linux node, and says of which nothing is known: that is never taken for well. */
export async function askNodes<A>(
  looker: Looker,
  command: NodesCommand<A>,
): Promise<NodesReport<A>> {
  const nodes = await looker.list(
    NODES,
    ({ metadata }) => metadata?.name ?? "",
    LINUX,
  );
  const pods = await looker.list(PODS, (pod) => pod, {
    ...OF_COIL,
    fieldSelector: "status.phase=Running",
  });
  const byNode = new Map(
    (pods ?? []).filter(isCoild).map((pod) => [pod.spec?.nodeName, pod]),
  );
  const names = nodes ?? [...byNode.keys()].map((name) => name ?? "");
  const answers = new Map<string, A>();
  const unseen: Unseen[] = [];
  await forEachConcurrently(names.sort(), AT_ONCE, async (node) => {
    try {
      answers.set(node, await askNode(byNode.get(node), command));
    } catch (error) {
      const detail = messageOf(error);
      unseen.push({ what: `Node ${node}`, why: "unknown", detail });
    }
  });
  return { answers, unseen };
}

/** Whether it is a pod of coild's, or the DaemonSet. */
export function isCoild({ metadata }: Pick<V1Pod, "metadata">): boolean {
  return metadata?.labels?.[APP_COMPONENT_LABEL]?.endsWith("coild") ?? false;
}

async function askNode<A>(
  pod: V1Pod | undefined,
  { exec, args, parse }: NodesCommand<A>,
): Promise<A> {
  if (pod === undefined) throw new Error("no coild runs there");
  const ran = await exec(containerOf(pod), args);
  if (ran.code === EXIT.ok || ran.code === EXIT.problems) {
    return parse(ran.stdout);
  }
  throw new Error(failureOf(ran));
}
