import {
  EGRESS_CLIENT_SLICES,
  EGRESS_SELECTOR,
  EGRESSES,
  formatAge,
  isEgressName,
} from "../../../lib/api/mod.ts";
import {
  type Call,
  type Command,
  CommandError,
  connect,
  defineCommand,
  oneOf,
} from "../../../lib/command/mod.ts";
import { defineFlags, UsageError } from "../../../lib/flags/mod.ts";
import {
  isPathSegment,
  type KubeClient,
  LIVE_PODS,
  PODS,
  type ResourceType,
} from "../../../lib/kube/mod.ts";
import { CONNECTION_FLAGS } from "../base/connection.ts";
import { listPages, type PageOptions } from "../base/pages.ts";
import type { Column } from "../base/table.ts";
import {
  TABLE_FLAGS,
  type TableOutput,
  writeRows,
} from "../base/table_output.ts";
import {
  type ClientRow,
  clientRows,
  type GatewayRow,
  gatewayRows,
  selectRows,
  type SourceRow,
  sourceRows,
} from "./rows.ts";

const SUBJECTS = ["clients", "gateways", "sources"] as const;

const FLAGS = defineFlags({
  "pod": {
    type: "string",
    help: "Only this pod (NAMESPACE/NAME) and the Egresses that it uses",
  },
  ...TABLE_FLAGS,
  ...CONNECTION_FLAGS,
});

/** `coil egress show`: who uses which Egress, and what their packets leave from. */
export const EGRESS_SHOW: Command = defineCommand({
  path: "egress show",
  about: "Show clients, gateways or source addresses of Egresses",
  flags: FLAGS,
  details:
    `Shows which pods use Egresses, their gateways, or the source addresses of their
packets: the gateways' addresses, or those under SEEN AS where a node translates them.
What networks behind the nodes translate is not known. Reads only the API server.`,
  positionals: `${SUBJECTS.join("|")} [NAMESPACE/NAME]`,
  run: show,
});

async function show(
  { values, positionals: [word = "", egress], terminal }: Call<typeof FLAGS>,
): Promise<void> {
  const subject = oneOf(word, SUBJECTS);
  const pod = values.pod || undefined;
  for (const name of [egress, pod]) checkName(name);
  using client = await connect(values);
  const pageSize = values["page-size"];
  const output: TableOutput = {
    output: values.output,
    headers: !values["no-headers"],
    terminal,
  };
  const clients = subject === "clients" || pod !== undefined
    ? clientRows(await all(client, EGRESS_CLIENT_SLICES, { pageSize }))
    : [];
  const used = pod === undefined
    ? undefined
    : new Set(clients.flatMap((row) => row.pod === pod ? row.egress : []));
  const selection = { egress, used };
  if (egress !== undefined) await checkEgress(client, egress);
  if (subject === "clients") {
    const rows = selectRows(clients, selection)
      .filter((row) => pod === undefined || row.pod === pod);
    return writeRows("clients", rows, { ...output, columns: clientColumns });
  }
  const pods = await all(client, PODS, {
    fieldSelector: LIVE_PODS,
    labelSelector: EGRESS_SELECTOR,
    pageSize,
  });
  const egresses = await all(client, EGRESSES, { pageSize });
  const gateways = selectRows(gatewayRows(pods, egresses), selection);
  return subject === "gateways"
    ? writeRows("gateways", gateways, { ...output, columns: gatewayColumns })
    : writeRows("sources", sourceRows(gateways), {
      ...output,
      columns: sourceColumns,
    });
}

/** @throws {UsageError} unless it is a namespace and a name */
function checkName(name: string | undefined): void {
  if (name === undefined || /^[^/]+\/[^/]+$/.test(name)) return;
  throw new UsageError(`"${name}" needs to be NAMESPACE/NAME`);
}

/** @throws {CommandError} when there is no Egress of this name */
async function checkEgress(client: KubeClient, egress: string): Promise<void> {
  const [namespace = "", name = ""] = egress.split("/");
  // By a list: coil-controller, in whose pods this may run, may not get one.
  if (isPathSegment(namespace) && isEgressName(name)) {
    const { items } = await client.list(EGRESSES, {
      namespace,
      fieldSelector: `metadata.name=${name}`,
      metadataOnly: true,
    });
    if (items.length > 0) return;
  }
  throw new CommandError(`Cannot show Egress "${egress}": it does not exist`);
}

function all<T extends object>(
  client: KubeClient,
  type: ResourceType<T>,
  options: Omit<PageOptions<T, T>, "keep">,
): Promise<T[]> {
  return listPages(client, type, { ...options, keep: (object) => object });
}

function clientColumns(): readonly Column<ClientRow>[] {
  return [
    { header: "EGRESS", value: ({ egress }) => egress },
    { header: "POD", value: ({ pod }) => pod },
    { header: "NODE", value: ({ node }) => node },
    { header: "ADDRESSES", value: ({ addresses }) => addresses.join(",") },
  ];
}

function gatewayColumns(now: Date): readonly Column<GatewayRow>[] {
  return [
    { header: "EGRESS", value: ({ egress }) => egress },
    { header: "POD", value: ({ pod }) => pod },
    { header: "NODE", value: ({ node }) => node },
    { header: "ADDRESSES", value: ({ addresses }) => addresses.join(",") },
    { header: "STATE", value: ({ state }) => state },
    { header: "PROBED BY", value: ({ probedBy = "" }) => `${probedBy}` },
    { header: "SUSPECT TO", value: ({ suspectTo }) => `${suspectTo}` },
    { header: "LOST TO", value: ({ lostTo }) => `${lostTo}` },
    {
      header: "LAST LOST",
      value: ({ lostSince }) => formatAge(lostSince, now),
    },
    {
      header: "ENDED",
      value: ({ endedConnections = "" }) => `${endedConnections}`,
    },
    { header: "NOTES", value: ({ notes }) => notes.join("; ") },
    { header: "AGE", value: ({ since }) => formatAge(since, now) },
  ];
}

function sourceColumns(): readonly Column<SourceRow>[] {
  return [
    { header: "EGRESS", value: ({ egress }) => egress },
    { header: "SOURCE", value: ({ address }) => address },
    { header: "SEEN AS", value: ({ seenAs }) => seenAs.join(",") },
    { header: "GATEWAY", value: ({ gateway }) => gateway },
    { header: "NODE", value: ({ node }) => node },
    { header: "STATE", value: ({ state }) => state },
  ];
}
