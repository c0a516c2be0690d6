import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  BLOCK_REQUESTS,
  EGRESSES,
  parseEgressAnnotations,
  poolNamesOf,
} from "../../../lib/api/mod.ts";
import { jittered, sleep } from "../../../lib/async/mod.ts";
import {
  type KubeClient,
  NAMESPACES,
  NODES,
  PODS,
  type V1Namespace,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { nameText, POOL_ANNOTATION, VERSION } from "../../../lib/names/mod.ts";
import {
  type Command,
  type CommandContext,
  readArguments,
} from "../base/command.ts";
import { connect } from "../base/connection.ts";
import { EXIT } from "../base/errors.ts";
import { Looker } from "../base/looker.ts";
import {
  exitCodeOf,
  formatProblems,
  formatReportAs,
  PROBLEM_EXIT_CODES,
  PROBLEM_FLAGS,
} from "../base/problem.ts";
import { addressesOf, LIVE_PODS, transformBlock } from "./cluster_reader.ts";
import {
  type Books,
  type Finding,
  findingsOf,
  lastingFindings,
  type Reference,
} from "./findings.ts";

/** How long to wait before the second look, so that pods and blocks that come and go do not count. */
const LOOK_AGAIN_MS = 3_000;

/** `coil ipam check`: whether pods, blocks, pools and nodes fit each other. */
export const IPAM_CHECK: Command = {
  path: "ipam check",
  about:
    "Find doubled addresses, and blocks, requests and names that fit nothing",
  flags: PROBLEM_FLAGS,
  run: check,
};

async function check(context: CommandContext): Promise<number> {
  const line = readArguments(PROBLEM_FLAGS, context, {
    program: `${context.program} ipam check`,
    version: VERSION,
    about:
      `Compares pods, blocks, pools, requests, nodes, and the pools and Egresses that
annotations name. Reads only the API server, changes nothing, and looks twice:
what only one look shows was under way.

${PROBLEM_EXIT_CODES}`,
  });
  if (line === undefined) return EXIT.ok;
  const { values } = line;
  using client = await connect(values);
  const { terminal } = context;
  const look = () => lookOnce(client, values["page-size"], terminal.now());
  let { problems, unseen } = await look();
  if (problems.length > 0) {
    await sleep(jittered(LOOK_AGAIN_MS));
    const second = await look();
    problems = lastingFindings(problems, second.problems);
    unseen = second.unseen;
  }
  const report = { problems, unseen };
  const text = formatReportAs(
    values.output,
    report,
    () => formatProblems(problems, unseen),
  );
  terminal.out(text);
  return exitCodeOf(report);
}

async function lookOnce(
  client: Pick<KubeClient, "list">,
  pageSize: number,
  now: Date,
): Promise<{ problems: Finding[]; unseen: Looker["unseen"] }> {
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
