import { EXIT } from "../../../lib/flags/mod.ts";
import type { NodeFinding } from "../../../lib/ipam/audit/mod.ts";
import { forEachConcurrently } from "../../../lib/async/mod.ts";
import { NODES, PODS, type V1Pod } from "../../../lib/kube/mod.ts";
import { APP_COMPONENT_LABEL } from "../../../lib/names/mod.ts";
import { type Exec, failureOf } from "../base/kubectl.ts";
import type { Looker, Unseen } from "../base/looker.ts";
import { LINUX, OF_COIL } from "../base/selections.ts";
import type { Mended, Repair } from "./repair.ts";

export interface NodesReport extends Mended<NodeFinding> {
  /** Nodes about which nothing is known. */
  readonly unseen: readonly Unseen[];
}

/** Nodes that are asked at a time. */
const AT_ONCE = 16;

/** Asks the coild of every Linux node, and says of which nothing is known: that is never taken for well. */
export async function askNodes(
  looker: Looker,
  { exec, args }: { readonly exec: Exec; readonly args: readonly string[] },
): Promise<NodesReport> {
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
  const repairs: Repair[] = [];
  const problems: NodeFinding[] = [];
  const unseen: Unseen[] = [];
  await forEachConcurrently(names.sort(), AT_ONCE, async (node) => {
    const answer = await askNode(byNode.get(node), { exec, args });
    if (typeof answer === "string") {
      unseen.push({ what: `Node ${node}`, why: "unknown", detail: answer });
      return;
    }
    repairs.push(...answer.repairs);
    problems.push(...answer.problems);
  });
  return { repairs, problems, unseen };
}

/** Whether it is a pod of coild's. */
export function isCoild({ metadata }: V1Pod): boolean {
  return metadata?.labels?.[APP_COMPONENT_LABEL]?.endsWith("coild") ?? false;
}

/** What came of a node's findings, or why nothing is known. */
async function askNode(
  pod: V1Pod | undefined,
  { exec, args }: { readonly exec: Exec; readonly args: readonly string[] },
): Promise<Mended<NodeFinding> | string> {
  if (pod === undefined) return "no coild runs there";
  const { namespace = "", name = "" } = pod.metadata ?? {};
  const container = pod.spec?.containers[0]?.name ?? "";
  try {
    const ran = await exec(
      { namespace, name, container },
      ["ipam", "check", "--local", "--output=json", ...args],
    );
    if (ran.code !== EXIT.ok && ran.code !== EXIT.problems) {
      return failureOf(ran);
    }
    return parseReport(ran.stdout);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** @throws {SyntaxError} when it is not a report */
function parseReport(text: string): Mended<NodeFinding> {
  const report: unknown = JSON.parse(text);
  const { problems, repairs = [], unseen } = (report ?? {}) as Partial<
    NodesReport
  >;
  if (![problems, repairs, unseen].every(Array.isArray)) {
    throw new SyntaxError("its answer is not a report");
  }
  return { repairs, problems: problems ?? [] };
}
