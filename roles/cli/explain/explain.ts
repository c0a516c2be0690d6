import {
  type Call,
  type Command,
  CommandError,
  connect,
  defineCommand,
  type Terminal,
} from "../../../lib/command/mod.ts";
import { lastingFindings, lookTwice } from "../../../lib/ipam/audit/mod.ts";
import {
  egressAnnotationsOf,
  EGRESSES,
  withDefaultEgresses,
} from "../../../lib/api/mod.ts";
import {
  type EgressFacts,
  type EgressLookup,
  egressRefsOf,
  SERVICE_NAME_LABEL,
} from "../../../lib/egress/mod.ts";
import {
  defineFlags,
  EXIT,
  type FlagValues,
  UsageError,
} from "../../../lib/flags/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import {
  ENDPOINT_SLICES,
  isPathSegment,
  type KubeClient,
  NAMESPACES,
  PODS,
  SERVICES,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";
import { type Exec, kubectlExec } from "../base/kubectl.ts";
import { Looker } from "../base/looker.ts";
import {
  exitCodeOf,
  formatReportAs,
  PROBLEM_EXIT_CODES,
  PROBLEM_FLAGS,
} from "../base/problem.ts";
import { formerHere, SOCKET_HELP } from "../check/here.ts";
import { type AddressReport, explainAddress } from "./address.ts";
import { readFacts } from "./facts.ts";
import { askFormerOfNodes } from "./former.ts";
import {
  distinctProblems,
  type Explanation,
  formatExplanation,
  formatFormer,
} from "./text.ts";
import { explainWay, type WayReport } from "./way.ts";

const FLAGS = defineFlags({
  "to": {
    type: "string",
    help: "Destination address: also show how the pod's packets to it leave",
  },
  "nodes": {
    type: "bool",
    help:
      "Also ask the coild of each node who had the address within a day: run this command with --local in its pod, by kubectl exec",
  },
  "local": {
    type: "bool",
    help: "Only ask this node's coild who had the address within a day",
  },
  "socket": { type: "string", help: SOCKET_HELP },
  ...PROBLEM_FLAGS,
});

/** `coil explain`: who has an address, and how a pod's packets leave. */
export const EXPLAIN: Command = defineCommand({
  path: "explain",
  about:
    "Show who has an address and who had it, and the way of a pod's packets out of the cluster",
  flags: FLAGS,
  details:
    `Shows who has an address, or the addresses of a pod: pod, block, pool, node, since
when. With --to it plans the pod's egress as coild does. Reads only the API server, which
knows former owners of an address only as long as their ended pods exist; with --nodes
also what each node's coild has noted of pods that are gone, for a day.

${PROBLEM_EXIT_CODES}`,
  positionals: "ADDRESS|NAMESPACE/POD",
  run: explainTarget,
});

async function explainTarget(
  { values, positionals: [word = ""], terminal }: Call<typeof FLAGS>,
): Promise<number> {
  const target = targetOf(word);
  if (values.local) return await explainHere(target, values, terminal);
  const to = values.to === "" ? undefined : destinationOf(values.to);
  using client = await connect(values);
  const looker = () => new Looker(client, values["page-size"]);
  const explanation = await explainAll(target, {
    client,
    looker,
    to,
    terminal,
    nodes: values.nodes
      ? { exec: kubectlExec(values), socket: values.socket }
      : undefined,
  });
  terminal.out(formatReportAs(
    values.output,
    explanation,
    () => formatExplanation(explanation, terminal.now()),
  ));
  return exitCodeOf({
    problems: distinctProblems(explanation.addresses),
    unseen: explanation.unseen,
  });
}

/** What this node's coild has noted. */
async function explainHere(
  target: Address | NamespacedName,
  { nodes, output, socket, to }: FlagValues<typeof FLAGS>,
  terminal: Terminal,
): Promise<number> {
  if (nodes || to !== "" || !(target instanceof Address)) {
    throw new UsageError("--local takes an address, without --nodes and --to");
  }
  const former = await formerHere(socket, target);
  terminal.out(formatReportAs(
    output,
    former,
    () => formatFormer(former, terminal.now()),
  ));
  return EXIT.ok;
}

/** @throws {UsageError} when it is neither an address nor the name of a pod */
function targetOf(word: string): Address | NamespacedName {
  if (word === "") {
    throw new UsageError(
      "an argument is missing: needs an address or NAMESPACE/POD",
    );
  }
  const address = Address.tryParse(word);
  if (address !== undefined) return address;
  const [namespace = "", name = "", ...rest] = word.split("/");
  if (rest.length === 0 && isPathSegment(namespace) && isPathSegment(name)) {
    return { namespace, name };
  }
  throw new UsageError(
    `"${word}" is neither an address nor NAMESPACE/POD`,
  );
}

function destinationOf(text: string): Address {
  const address = Address.tryParse(text);
  if (address !== undefined) return address;
  throw new UsageError(`"${text}" for "--to": needs an address`);
}

interface Explaining {
  readonly client: KubeClient;
  readonly looker: () => Looker;
  readonly to: Address | undefined;
  readonly terminal: Terminal;
  /** How nodes are asked, if they are. */
  readonly nodes: { readonly exec: Exec; readonly socket: string } | undefined;
}

async function explainAll(
  target: Address | NamespacedName,
  { client, looker, to, terminal, nodes }: Explaining,
): Promise<Explanation> {
  const asked = target instanceof Address
    ? undefined
    : await podOf(client, target);
  const addresses = target instanceof Address
    ? [target]
    : (asked?.status?.podIPs ?? []).map(({ ip }) => Address.parse(ip));
  const ofNodes = nodes &&
    await askFormerOfNodes(looker(), { ...nodes, addresses });
  const look = async () => {
    const own = looker();
    const facts = {
      ...await readFacts(own, addresses),
      former: ofNodes?.former,
    };
    return {
      reports: addresses.map((a) => explainAddress(a, facts, terminal.now())),
      unseen: [...own.unseen, ...ofNodes?.unseen ?? []],
    };
  };
  const { reports, unseen } = await lookTwice(look, {
    hasProblems: (first) => first.reports.some((r) => r.problems.length > 0),
    lasting: (first, second) => ({
      reports: second.reports.map((report, i) => ({
        ...report,
        problems: lastingFindings(
          first.reports[i]?.problems ?? [],
          report.problems,
        ),
      })),
      unseen: second.unseen,
    }),
  });
  const note = asked && noteOn(asked);
  if (to === undefined) return { addresses: reports, ways: [], note, unseen };
  const own = looker();
  const ways = await waysOf(asked, { client, looker: own, reports, to });
  return {
    addresses: reports,
    ways,
    note,
    unseen: [...unseen, ...own.unseen],
  };
}

/** What to say of a pod that has no address. */
function noteOn({ metadata, spec, status }: V1Pod): string | undefined {
  if ((status?.podIPs ?? []).length > 0) return undefined;
  const { namespace = "", name = "" } = metadata ?? {};
  const where = spec?.nodeName === undefined
    ? "no node yet"
    : `Node ${spec.nodeName}`;
  return `Pod ${namespace}/${name} (${
    status?.phase ?? "Unknown"
  }, ${where}) has no address. Why its Events say: kubectl -n ${namespace} describe pod ${name}`;
}

/** @throws {CommandError} when there is no such pod */
async function podOf(
  client: KubeClient,
  name: NamespacedName,
): Promise<V1Pod> {
  const pod = await client.tryGet(PODS, name);
  if (pod !== undefined) return pod;
  throw new CommandError(
    `Cannot explain Pod "${nameText(name)}": it does not exist`,
  );
}

async function waysOf(
  asked: V1Pod | undefined,
  { client, looker, reports, to }: {
    readonly client: KubeClient;
    readonly looker: Looker;
    readonly reports: readonly AddressReport[];
    readonly to: Address;
  },
): Promise<WayReport[]> {
  const holders = reports.flatMap(({ holders }) => holders);
  const pods = asked === undefined
    ? await Promise.all(holders.map((holder) => podOf(client, holder)))
    : [asked];
  if (pods.length === 0) {
    throw new CommandError(
      `Cannot say how packets of "${reports[0]?.address}" leave: no pod has it`,
    );
  }
  return await Promise.all(pods.map(async (pod) => {
    const found = new Map<string, EgressFacts>();
    const [defaults] = await looker.list(
      NAMESPACES,
      ({ metadata }) => egressAnnotationsOf(metadata?.annotations),
      { fieldSelector: `metadata.name=${pod.metadata?.namespace}` },
    ) ?? [];
    for (const ref of egressRefsOf(withDefaultEgresses(pod, defaults))) {
      found.set(nameText(ref), await egressFacts(client, ref));
    }
    const lookup: EgressLookup = (ref) =>
      found.get(nameText(ref)) ??
        { egress: undefined, service: undefined, slices: [] };
    return explainWay(pod, to, { lookup, defaults });
  }));
}

/** What the API server has of an Egress; its Service has its name. */
async function egressFacts(
  client: KubeClient,
  ref: NamespacedName,
): Promise<EgressFacts> {
  const [{ items: [egress] }, service, { items: slices }] = await Promise.all([
    // coil-controller, in whose pods this may run, may list them only.
    client.list(EGRESSES, {
      namespace: ref.namespace,
      fieldSelector: `metadata.name=${ref.name}`,
    }),
    client.tryGet(SERVICES, ref),
    client.listAll(ENDPOINT_SLICES, {
      namespace: ref.namespace,
      labelSelector: `${SERVICE_NAME_LABEL}=${ref.name}`,
    }),
  ]);
  return { egress, service, slices };
}
