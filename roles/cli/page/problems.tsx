import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { formatAge } from "../../../lib/api/mod.ts";
import type { Problem } from "../../../lib/ipam/audit/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import type { StatusView } from "../ui/view.ts";
import { Rows } from "./rows.tsx";
import { isFound } from "./search.ts";

/** What is wrong, each with the next command; below it Coil's parts. */
export function Problems({ status, query, now }: {
  readonly status: StatusView;
  readonly query: string;
  readonly now: Date;
}): VNode {
  const { problems, unseen, parts, leases } = status;
  const found = problems.filter(({ object, message, next }) =>
    isFound(query, object, message, next)
  );
  return (
    <div class="page">
      {unseen.map(({ what, why, detail }) => (
        <p class="notice">
          {why === "unknown"
            ? `Unknown: ${what} (${detail})`
            : `Not looked at: ${what} (${why})`}
        </p>
      ))}
      {problems.length === 0
        ? (
          <p class="well">
            No problems found{unseen.length > 0 && " in the rest"}
          </p>
        )
        : <ProblemList problems={found} />}
      <h2>Parts</h2>
      <Rows
        label="Parts"
        rows={parts}
        lines={8}
        columns={[
          { header: "Part", width: "3fr", value: nameText },
          {
            header: "Ready",
            width: "1fr",
            value: ({ ready, wanted }) => `${ready}/${wanted}`,
          },
          {
            header: "Version",
            width: "2fr",
            value: ({ versions }) => Object.keys(versions).join(", "),
          },
        ]}
      />
      <Rows
        label="Leases"
        rows={leases}
        lines={4}
        columns={[
          { header: "Lease", width: "3fr", value: nameText },
          { header: "Holder", width: "2fr", value: ({ holder }) => holder },
          {
            header: "Renewed",
            width: "1fr",
            value: ({ renewed }) => `${formatAge(renewed, now)} ago`,
          },
        ]}
      />
    </div>
  );
}

/** Problems shown at first: one cause may give thousands. */
const SHOWN = 100;

function ProblemList(
  { problems }: { readonly problems: readonly Problem[] },
): VNode {
  const [at, setAt] = useState(0);
  const chosen = Math.min(at, problems.length - 1);
  useEffect(() => {
    document.querySelector(".problem.chosen")?.scrollIntoView({
      block: "nearest",
    });
  }, [chosen]);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt(Math.min(Math.max(chosen + step, 0), problems.length - 1));
    } else if (event.key === "c" && !event.ctrlKey && !event.metaKey) {
      copy(problems[chosen]?.next);
    }
  };
  return (
    <ol
      class="problems"
      tabIndex={0}
      onKeyDown={onKeyDown}
      aria-label="Problems"
    >
      {problems.slice(0, Math.max(SHOWN, chosen + 1)).map((problem, n) => (
        <li
          class={n === chosen ? "problem chosen" : "problem"}
          aria-current={n === chosen}
          onClick={() => setAt(n)}
        >
          <b>{problem.object}</b>: {problem.message}
          <div class="next">
            <code>{problem.next}</code>
            <button type="button" onClick={() => copy(problem.next)}>
              Copy
            </button>
          </div>
        </li>
      ))}
      {problems.length > SHOWN && <li>… {problems.length} in all</li>}
    </ol>
  );
}

/** Not where the browser does not let it. */
function copy(text: string | undefined): void {
  if (text !== undefined) navigator.clipboard?.writeText(text).catch(() => {});
}
