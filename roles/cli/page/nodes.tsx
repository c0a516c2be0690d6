import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import type { NodeView } from "../ui/view.ts";
import type { ClusterState } from "./state.ts";
import { Rows } from "./rows.tsx";
import { isFound } from "./search.ts";

interface NodeRow extends NodeView {
  readonly blocks: number;
  readonly used: number;
}

/** All nodes with their coild, blocks and addresses; those with trouble first. */
export function Nodes({ state, query }: {
  readonly state: ClusterState;
  readonly query: string;
}): VNode {
  const rows = useMemo(() => nodeRows(state), [state]);
  const found = rows.filter(({ name }) => isFound(query, name));
  return (
    <Rows
      label="Nodes"
      rows={found}
      columns={[
        { header: "Node", width: "2fr", value: ({ name }) => name },
        { header: "coild", width: "3fr", value: coildText },
        {
          header: "Version",
          width: "1fr",
          value: ({ coild }) => coild?.version ?? "",
        },
        { header: "Blocks", width: "1fr", value: ({ blocks }) => blocks },
        { header: "Addresses in use", width: "1fr", value: ({ used }) => used },
      ]}
    />
  );
}

function coildText(row: NodeRow): VNode {
  const trouble = troubleOf(row);
  return trouble === undefined
    ? <span>ready</span>
    : <span class="bad">{trouble}</span>;
}

function troubleOf(
  { networkUnavailable, coild }: NodeView,
): string | undefined {
  if (networkUnavailable !== undefined) {
    return `network unavailable: ${networkUnavailable}`;
  }
  if (coild === undefined) return "none runs there";
  return coild.isReady ? undefined : `not ready: ${coild.reason}`;
}

function nodeRows({ nodes, blocks }: ClusterState): NodeRow[] {
  const own = Map.groupBy([...blocks.values()].flat(), ({ node }) => node);
  const rows = nodes.map((node): NodeRow => {
    const held = own.get(node.name) ?? [];
    const used = held.reduce((sum, block) => sum + block.used, 0);
    return { ...node, blocks: held.length, used };
  });
  const isWell = (row: NodeRow) => troubleOf(row) === undefined;
  return [...rows.filter((row) => !isWell(row)), ...rows.filter(isWell)];
}
