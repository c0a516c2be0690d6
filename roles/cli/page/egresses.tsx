import type { VNode } from "preact";
import { formatAge } from "../../../lib/api/mod.ts";
import type { EgressView } from "../ui/view.ts";
import { Rows } from "./rows.tsx";
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

function Egress({ egress, now }: {
  readonly egress: EgressView;
  readonly now: Date;
}): VNode {
  const { name, isReady, message, clients, gateways, sources } = egress;
  return (
    <section class="egress">
      <h2>
        {name} {!isReady && <span class="bad">{message}</span>}
      </h2>
      <div class="way">
        <div>
          <h3>{counted(clients.length, "client")}</h3>
          <Rows
            label="Clients"
            rows={clients}
            lines={LINES}
            columns={[
              { header: "Pod", width: "2fr", value: ({ pod }) => pod },
              { header: "Node", width: "1fr", value: ({ node }) => node },
            ]}
          />
        </div>
        <div>
          <h3>{counted(gateways.length, "gateway")}</h3>
          <Rows
            label="Gateways"
            rows={gateways}
            lines={LINES}
            columns={[
              { header: "Pod", width: "2fr", value: ({ pod }) => pod },
              { header: "Node", width: "1fr", value: ({ node }) => node },
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
        </div>
        <div>
          <h3>{counted(sources.length, "source")}</h3>
          <Rows
            label="Sources"
            rows={sources}
            lines={LINES}
            columns={[
              {
                header: "Address",
                width: "1fr",
                value: ({ address }) => address,
              },
            ]}
          />
        </div>
        <div>
          <h3>Destinations</h3>
          <Rows
            label="Destinations"
            rows={egress.destinations}
            lines={LINES}
            columns={[{
              header: "Network",
              width: "1fr",
              value: (text) => text,
            }]}
          />
        </div>
      </div>
    </section>
  );
}
