import {
  type Call,
  type Command,
  CommandError,
  connect,
  defineCommand,
  type Terminal,
} from "../../../lib/command/mod.ts";
import {
  defineFlags,
  type FlagValues,
  UsageError,
} from "../../../lib/flags/mod.ts";
import {
  isPathSegment,
  KubeApiError,
  type KubeClient,
} from "../../../lib/kube/mod.ts";
import { type NamespacedName, nameText } from "../../../lib/names/mod.ts";
import { CONNECTION_FLAGS } from "../base/connection.ts";
import { catchInterruption } from "../base/interruption.ts";
import { expectKubectl, kubectlExec } from "../base/kubectl.ts";
import type { Unseen } from "../base/looker.ts";
import {
  exitCodeOf,
  formatReportAs,
  PROBLEM_EXIT_CODES,
} from "../base/problem.ts";
import { askAll, type Asked, type Asking } from "./ask.ts";
import { gatherEvidence } from "./evidence.ts";
import { MAX_NODES, planProbes, sampleNodes } from "./plan.ts";
import {
  type ConnectivityFinding,
  type ConnectivityReport,
  findingsOf,
  formatJunit,
  formatReport,
  nextStep,
  reportOf,
  scopeText,
  type Steps,
} from "./report.ts";
import { failuresOf } from "./results.ts";
import { readSite, type Site } from "./site.ts";
import { Space } from "./space.ts";
import { type NotStarted, type Started, startPods } from "./start.ts";

/** Pods have started by then, or do not. */
const START_MS = 120_000;

const FLAGS = defineFlags({
  "all": {
    type: "bool",
    help:
      `Test all nodes instead of a sample of ${MAX_NODES}; the number of probes grows with the square of the nodes`,
  },
  "egress": {
    type: "string",
    help:
      "NAMESPACE/NAME of an Egress: also test which source address --target sees from its clients",
  },
  "target": {
    type: "string",
    help:
      "With --egress: URL of an HTTP server that replies with the client's address; a destination of the Egress",
  },
  "host-port": {
    type: "int",
    default: 9_399,
    min: 0,
    max: 65_535,
    help: "Port of the nodes to test host ports with; 0 skips this test",
  },
  "image": {
    type: "string",
    help: "Image of the probe pods; default: coild's image",
  },
  "namespace": {
    type: "string",
    default: "coil-connectivity-test",
    short: "n",
    help: "Namespace to create for the pods and to delete at the end",
  },
  "keep": {
    type: "bool",
    help: "Keep the namespace, to inspect its pods",
  },
  "timeout": {
    type: "duration",
    default: 300_000,
    min: 1_000,
    help: "Report the results so far after this time, and clean up",
  },
  "output": {
    type: "enum",
    default: "text",
    values: ["text", "json", "junit"],
    short: "o",
    help: "Output format",
  },
  ...CONNECTION_FLAGS,
});

type Values = FlagValues<typeof FLAGS>;

/** `coil connectivity test`: whether pods of all nodes reach each other, and why not. */
export const CONNECTIVITY_TEST: Command = defineCommand({
  path: "connectivity test",
  about:
    "Test whether pods of all nodes reach each other, and diagnose failures",
  flags: FLAGS,
  details:
    `Runs a pod of Coil's image on each node, in a new namespace. Each pod sends requests to
all others: by TCP and UDP, in each IP version, with small packets and with packets as
large as the MTU; through a Service and a node port; and to the API server. For each
failure the report names the likely cause and node: route, rule, MTU or policy. Needs
kubectl, and permission to create namespaces and pods and to exec into pods.

${PROBLEM_EXIT_CODES}`,
  run: connectivityTest,
});

async function connectivityTest(
  { values, terminal, signal }: Call<typeof FLAGS>,
): Promise<number> {
  if (!isPathSegment(values.namespace)) {
    throw new UsageError(
      `"${values.namespace}" for "--namespace" is not a valid name`,
    );
  }
  const egress = egressOf(values);
  using interruption = catchInterruption("Interrupted", signal);
  return await withAdvice(() =>
    runTest({ values, egress, terminal }, interruption.signal)
  );
}

/** @throws {UsageError} unless both flags are given and fit, or none */
function egressOf({ egress, target }: Values): NamespacedName | undefined {
  if (egress === "" && target === "") return undefined;
  if (egress === "") throw new UsageError("--target needs --egress");
  if (target === "") throw new UsageError("--egress needs --target");
  const [namespace = "", name = "", ...rest] = egress.split("/");
  if (rest.length > 0 || !isPathSegment(namespace) || !isPathSegment(name)) {
    throw new UsageError(`"${egress}" needs to be NAMESPACE/NAME`);
  }
  const protocol = URL.parse(target)?.protocol ?? "";
  if (!["http:", "https:"].includes(protocol)) {
    throw new UsageError(
      `"${target}" for "--target": needs a URL of http or https`,
    );
  }
  return { namespace, name };
}

interface Options {
  readonly values: Values;
  readonly egress: NamespacedName | undefined;
  readonly terminal: Terminal;
}

async function runTest(
  options: Options,
  interrupted: AbortSignal,
): Promise<number> {
  const { values, egress, terminal } = options;
  using client = await connect(values);
  const endsAt = performance.now() + values.timeout;
  const say = (text: string) => terminal.err(`${text}\n`);
  const site = await readSite(client, {
    pageSize: values["page-size"],
    image: values.image,
    egress,
    signal: interrupted,
  });
  await expectKubectl(interrupted);
  const { namespace: name } = values;
  const space = await Space.create({ client, name, signal: interrupted, say });
  let report: ConnectivityReport;
  try {
    const test = { ...options, client, site, endsAt, say };
    report = await testIn(space, test, interrupted);
  } finally {
    await (values.keep ? space.keep() : space.remove());
  }
  terminal.out(formatAs(values.output, report));
  return exitCodeOf(report);
}

/** @throws {CommandError} that says which rights are needed, when one is missing */
async function withAdvice<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof KubeApiError) || !error.isForbidden) throw error;
    throw new CommandError(
      `${error.message}\nThe test creates a namespace with a ServiceAccount, a Service and pods, and deletes it: it needs the rights of an administrator.`,
      { cause: error },
    );
  }
}

interface Test extends Options {
  readonly client: KubeClient;
  readonly site: Site;
  /** By performance.now(). */
  readonly endsAt: number;
  readonly say: (text: string) => void;
}

async function testIn(
  space: Space,
  test: Test,
  interrupted: AbortSignal,
): Promise<ConnectivityReport> {
  const { client, site, values, egress, endsAt, say } = test;
  const ready = site.nodes.filter(({ isReady }) => isReady)
    .map(({ name }) => name);
  const nodes = sampleNodes(ready, { max: values.all ? Infinity : MAX_NODES });
  say(scopeText(nodes.length, ready.length));
  say(`Starting pods in Namespace ${space.name}`);
  const started = await startPods({
    client,
    nodes,
    namespace: space.name,
    image: site.image,
    hostPort: values["host-port"],
    egress,
    timeoutMs: Math.max(0, Math.min(START_MS, endsAt - performance.now())),
    signal: interrupted,
  });
  const limit = AbortSignal.timeout(Math.max(0, endsAt - performance.now()));
  const asking: Asking = {
    exec: kubectlExec(values),
    namespace: space.name,
    signal: AbortSignal.any([interrupted, limit]),
    say,
  };
  const asked = await askPods(started, test, asking);
  interrupted.throwIfAborted();
  const { coilds, routers } = site;
  const evidence = await gatherEvidence(failuresOf(asked.results), {
    ...asking,
    coilds,
  });
  interrupted.throwIfAborted();
  const steps = { coilds, routers, egress: egress ? nameText(egress) : "" };
  return reportOf(asked.results, {
    nodes,
    allNodes: site.nodes.length,
    problems: [
      ...started.notStarted.map((one) => notStarted(one, { space, steps })),
      ...findingsOf({ results: asked.results, evidence }, steps),
    ],
    unseen: unseenOf(site, asked),
  });
}

async function askPods(
  started: Started,
  { site, values, egress, say }: Test,
  asking: Asking,
): Promise<Asked> {
  const published = started.pods.find(({ kind }) => kind === "host-port");
  const publisher = site.nodes.find(({ name }) => name === published?.node);
  const probes = planProbes(started.pods, {
    service: started.service,
    apiServer: site.apiServer,
    hostPort: values["host-port"] === 0 || publisher === undefined
      ? undefined
      : { addresses: publisher.addresses, port: values["host-port"] },
    egress: egress && { url: values.target, sources: site.sources },
  });
  say(`Sending ${probes.length} probes from ${started.pods.length} pods`);
  return await askAll(probes, asking);
}

const STARTED_FOR: Readonly<Record<NotStarted["kind"], string>> = {
  "probe": "a pod did not start there",
  "host-port":
    "a pod with a port of the host did not start there (--host-port)",
  "egress": "a client of the Egress did not start there",
};

function notStarted(
  { kind, node, why, see }: NotStarted,
  { space, steps }: { readonly space: Space; readonly steps: Steps },
): ConnectivityFinding {
  const again =
    `coil connectivity test --keep -n ${space.name}; kubectl -n ${space.name} describe pods`;
  return {
    cause: "start",
    node,
    object: `Node ${node}`,
    message: `${STARTED_FOR[kind]}: ${why}`,
    next: see === "pod" ? again : nextStep(see, node, steps),
    failed: 0,
  };
}

function unseenOf({ nodes }: Site, { unasked }: Asked): Unseen[] {
  return [
    ...nodes.filter(({ isReady }) => !isReady).map(({ name }): Unseen => ({
      what: `Node ${name}`,
      why: "unknown",
      detail: "it is not Ready",
    })),
    ...unasked.map(({ pod, why }): Unseen => ({
      what: `Pod ${pod.name} on Node ${pod.node}`,
      why: "unknown",
      detail: why,
    })),
  ];
}

function formatAs(
  output: Values["output"],
  report: ConnectivityReport,
): string {
  return output === "junit"
    ? formatJunit(report)
    : formatReportAs(output, report, () => formatReport(report));
}
