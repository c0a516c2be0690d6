import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  BLOCK_REQUESTS,
  EGRESSES,
  parseEgressAnnotations,
  poolNamesOf,
} from "../../../lib/api/mod.ts";
import {
  ADMIN_SOCKET_SUFFIX,
  askAddresses,
  CoildSilentError,
} from "../../../lib/cnirpc/inspection/mod.ts";
import {
  defineFlags,
  type FlagValues,
  formatDuration,
  UsageError,
} from "../../../lib/flags/mod.ts";
import {
  type KubeClient,
  NAMESPACES,
  NODES,
  PODS,
  type V1Namespace,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import {
  COILD_SOCKET,
  nameText,
  POOL_ANNOTATION,
  VERSION,
} from "../../../lib/names/mod.ts";
import {
  type Command,
  type CommandContext,
  readArguments,
} from "../base/command.ts";
import { connect } from "../base/connection.ts";
import { CommandError, EXIT } from "../base/errors.ts";
import { Looker, type Unseen } from "../base/looker.ts";
import {
  exitCodeOf,
  formatProblems,
  formatReportAs,
  PROBLEM_EXIT_CODES,
  PROBLEM_FLAGS,
} from "../base/problem.ts";
import {
  addressesOf,
  LIVE_PODS,
  transformBlock,
} from "../ipam/cluster_reader.ts";
import {
  type Books,
  type Finding,
  findingsOf,
  lastingFindings,
  type Reference,
} from "../ipam/findings.ts";
import { lookTwice } from "../ipam/look_twice.ts";
import { type NodeFinding, nodeFindings } from "./node_findings.ts";
import { askNodes, kubectlExec } from "./nodes.ts";

/** How long the coild of a node may take to answer. */
const ASK_MS = 10_000;

/** Where coild's socket is: as Coil's manifests have it, and by default. */
const SOCKETS = ["/run/coil/coild.sock", COILD_SOCKET] as const;

const FLAGS = defineFlags({
  "nodes": {
    type: "bool",
    default: false,
    help:
      "Also look at the nodes: run the same with --local in each coild's pod, by kubectl exec",
  },
  "local": {
    type: "bool",
    default: false,
    help:
      "Look only at this node: compare its kernel, coild's table and the node's pods",
  },
  "socket": {
    type: "string",
    default: "",
    help:
      `Socket of the coild to ask, with --local and --nodes; otherwise the one of ${
        SOCKETS.join(" and ")
      } that is there`,
  },
  "min-age": {
    type: "duration",
    default: 300_000,
    help:
      "Look at a node's addresses from this age on: a new pod's status may not be written yet",
  },
  ...PROBLEM_FLAGS,
});

/** `coil ipam check`: whether pods, blocks, pools and nodes fit each other. */
export const IPAM_CHECK: Command = {
  path: "ipam check",
  about:
    "Find doubled and leaked addresses, and blocks, requests and names that fit nothing",
  flags: FLAGS,
  run: check,
};

type Values = FlagValues<typeof FLAGS>;

async function check(context: CommandContext): Promise<number> {
  const line = readArguments(FLAGS, context, {
    program: `${context.program} ipam check`,
    version: VERSION,
    about:
      `Compares pods, blocks, pools, requests, nodes, and the pools and Egresses that
annotations name. Changes nothing, takes no lock, and looks twice: what only one look
shows was under way. Reads only the API server; with --nodes also what is on the
nodes. A node that does not answer is UNKNOWN.

${PROBLEM_EXIT_CODES}`,
  });
  if (line === undefined) return EXIT.ok;
  const { values } = line;
  if (values.local && values.nodes) {
    throw new UsageError("--local is for one node, --nodes for all");
  }
  const report = values.local
    ? await checkHere(values)
    : await checkCluster(values, context);
  context.terminal.out(formatReportAs(
    values.output,
    report,
    () => formatProblems(report.problems, report.unseen),
  ));
  return exitCodeOf(report);
}

interface Report<F = Finding | NodeFinding> {
  readonly problems: readonly F[];
  readonly unseen: readonly Unseen[];
}

/** What the coild of this node says. @throws {CommandError} when it does not answer */
async function checkHere(values: Values): Promise<Report> {
  const socket = values.socket || await findSocket();
  return await lastingReport(async () => {
    const answer = await askAddresses(socket, {
      signal: AbortSignal.timeout(ASK_MS),
    }).catch((error: unknown) => {
      if (!(error instanceof CoildSilentError)) throw error;
      throw new CommandError(error.message, { cause: error });
    });
    const minAgeSeconds = values["min-age"] / 1_000;
    return {
      problems: nodeFindings(answer, { minAgeSeconds }),
      unseen: answer.pods !== undefined ? [] : [{
        what: `pods of Node ${answer.node}`,
        why: "unknown" as const,
        detail: "the API server has not listed them to coild yet",
      }],
    };
  });
}

/** The first that is there; the first, if none is. */
async function findSocket(): Promise<string> {
  for (const socket of SOCKETS) {
    try {
      await Deno.stat(socket + ADMIN_SOCKET_SUFFIX);
      return socket;
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return SOCKETS[0];
}

async function checkCluster(
  values: Values,
  { terminal }: CommandContext,
): Promise<Report> {
  using client = await connect(values);
  const pageSize = values["page-size"];
  const asked = values.nodes
    ? await askNodes(new Looker(client, pageSize), {
      exec: kubectlExec(values),
      args: [
        ...values.socket === "" ? [] : [`--socket=${values.socket}`],
        `--min-age=${formatDuration(values["min-age"])}`,
      ],
    })
    : { problems: [], unseen: [] };
  const { problems, unseen } = await lastingReport(() =>
    lookOnce(client, pageSize, terminal.now())
  );
  return {
    problems: [...problems, ...asked.problems],
    unseen: [...unseen, ...asked.unseen],
  };
}

/** The report of a look, with the problems that a second look has too. */
function lastingReport<F extends Finding | NodeFinding>(
  look: () => Promise<Report<F>>,
): Promise<Report<F>> {
  return lookTwice(look, {
    hasProblems: ({ problems }) => problems.length > 0,
    lasting: (first, { problems, unseen }) => ({
      problems: lastingFindings(first.problems, problems),
      unseen,
    }),
  });
}

async function lookOnce(
  client: Pick<KubeClient, "list">,
  pageSize: number,
  now: Date,
): Promise<Report<Finding>> {
  const looker = new Looker(client, pageSize);
  const books = await readBooks(looker);
  return { problems: findingsOf(books, now), unseen: looker.unseen };
}

/** Pods first: a block that a pod has an address of is older than its address. */
async function readBooks(looker: Looker): Promise<Books> {
  const pods = await looker.list(PODS, podFacts, LIVE_PODS);
  const namespaces = await looker.list(NAMESPACES, poolReferencesOf);
  return {
    pods: pods?.flatMap(({ addresses }) => addresses ?? []),
    egressNames: pods?.flatMap(({ egresses }) => egresses),
    poolNames: namespaces?.flat(),
    blocks: await looker.list(ADDRESS_BLOCKS, transformBlock),
    pools: await looker.list(ADDRESS_POOLS, (pool) => pool),
    requests: await looker.list(BLOCK_REQUESTS, (request) => request),
    nodes: await looker.list(NODES, ({ metadata }) => metadata?.name ?? ""),
    egresses: await looker.list(EGRESSES, ({ metadata }) => ({
      namespace: metadata.namespace ?? "",
      name: metadata.name ?? "",
    })),
  };
}

interface PodFacts {
  readonly addresses: ReturnType<typeof addressesOf>;
  readonly egresses: readonly Reference[];
}

function podFacts(pod: V1Pod): PodFacts {
  // The address of a pod that ends may be free already, or have another pod.
  const isEnding = pod.metadata?.deletionTimestamp !== undefined;
  const addresses = isEnding ? undefined : addressesOf(pod);
  return { addresses, egresses: isEnding ? [] : egressNamesOf(pod) };
}

function egressNamesOf({ metadata }: V1Pod): Reference[] {
  const { namespace = "", name = "", annotations = {} } = metadata ?? {};
  const from = `Pod ${namespace}/${name}`;
  const next = `kubectl -n ${namespace} describe pod ${name}`;
  return parseEgressAnnotations(annotations).flatMap((references) =>
    references.names.map((egress) => ({
      from,
      next,
      to: nameText({ namespace: references.namespace, name: egress }),
    }))
  );
}

function poolReferencesOf({ metadata }: V1Namespace): Reference[] {
  const { name = "", annotations } = metadata ?? {};
  const annotation = annotations?.[POOL_ANNOTATION];
  if (annotation === undefined) return [];
  const from = `Namespace ${name}`;
  const next = `kubectl describe namespace ${name}`;
  return poolNamesOf(annotation).map((to) => ({ from, next, to }));
}
