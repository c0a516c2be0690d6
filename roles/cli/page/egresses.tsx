import type { VNode } from "preact";
import { formatAge } from "../../../lib/api/mod.ts";
import type { SourceRow } from "../egress/rows.ts";
import type { EgressView } from "../ui/view.ts";
import { type Column, Rows } from "./rows.tsx";
import { isFound } from "./search.ts";
import { counted } from "./text.ts";

/** Rows of a list at a time; the rest is there when it is scrolled. */
const LINES = 10;

/** The way from clients through gateways to the addresses that outside networks see, for each Egress. */
export function Egresses({ egresses, query, now }: {
  readonly egresses: readonly EgressView[];
  readonly query: string;
  readonly now: Date;
}): VNode {
  const found = egresses.filter((egress) => isFound(query, ...textsOf(egress)));
  return (
    <div class="page" tabIndex={0}>
      {egresses.length === 0 && <p>There are no Egresses</p>}
      {found.map((egress) => (
        <Egress key={egress.name} egress={egress} now={now} />
      ))}
    </div>
  );
}

function textsOf({ name, destinations, clients, gateways }: EgressView) {
  return [
    name,
    ...destinations,
    ...clients.flatMap(({ pod, node, addresses }) => [pod, node, ...addresses]),
    ...gateways.flatMap((
      { pod, node, addresses },
    ) => [pod, node, ...addresses]),
  ];
}

/** Where a pod is. */
const PLACE: readonly Column<
  { readonly pod: string; readonly node: string }
>[] = [
  { header: "Pod", width: "2fr", value: ({ pod }) => pod },
  { header: "Node", width: "1fr", value: ({ node }) => node },
];

function Egress({ egress, now }: {
  readonly egress: EgressView;
  readonly now: Date;
}): VNode {
  const { name, isReady, message } = egress;
  const { clients, gateways, sources, destinations } = egress;
  return (
    <section class="egress">
      <h2>
        {name} {!isReady && <span class="bad">{message}</span>}
      </h2>
      <div class="way">
        <Part
          title={counted(clients.length, "client")}
          label="Clients"
          rows={clients}
          columns={PLACE}
        />
        <Part
          title={counted(gateways.length, "gateway")}
          label="Gateways"
          rows={gateways}
          columns={[
            ...PLACE,
            {
              header: "State",
              width: "2fr",
              value: ({ state, notes }) => (
                <span class={state === "not-ready" ? "bad" : ""}>
                  {[state, ...notes].join("; ")}
                </span>
              ),
            },
            {
              header: "Age",
              width: "4rem",
              value: ({ since }) => formatAge(since, now),
            },
          ]}
        />
        <Part
          title={counted(sources.length, "source")}
          label="Sources"
          rows={sources}
          columns={[
            { header: "Address", width: "1fr", value: sourceText },
          ]}
        />
        <Part
          title="Destinations"
          label="Destinations"
          rows={destinations}
          columns={[{ header: "Network", width: "1fr", value: (text) => text }]}
        />
      </div>
    </section>
  );
}

/** A list of the way, with its title. */
function Part<T>({ title, ...list }: {
  readonly title: string;
  readonly label: string;
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
}): VNode {
  return (
    <div>
      <h3>{title}</h3>
      <Rows {...list} lines={LINES} />
    </div>
  );
}

/** An address that packets leave from, and what its node makes of it. */
function sourceText({ address, seenAs }: SourceRow): string {
  return seenAs.length === 0
    ? address
    : `${address}, seen as ${seenAs.join(", ")}`;
}
