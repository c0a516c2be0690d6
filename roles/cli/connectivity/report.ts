import type { Problem } from "../../../lib/ipam/audit/mod.ts";
import { count } from "../../../lib/flags/mod.ts";
import { compareText } from "../../../lib/names/mod.ts";
import type { Unseen } from "../base/looker.ts";
import type { CoilContainer } from "../base/kubectl.ts";
import { formatProblems } from "../base/problem.ts";
import { formatTable } from "../base/table.ts";
import { diagnose } from "./diagnose.ts";
import type { Cause, Diagnosis } from "./diagnosis.ts";
import type { Evidence } from "./evidence.ts";
import { type Check, CHECKS } from "./plan.ts";
import {
  countsOf,
  type Failure,
  failuresOf,
  probeText,
  type Result,
  ResultIndex,
  troubleText,
} from "./results.ts";

/** Likely cause on a node, with all failures that it explains. */
export interface ConnectivityFinding extends Problem {
  readonly cause: Cause | "start";
  readonly node: string;
  readonly failed: number;
}

/** A probe in a report. */
interface ProbeRow {
  readonly check: Check;
  readonly probe: string;
  /** Absent when all is well. */
  readonly trouble?: string | undefined;
}

export interface ConnectivityReport {
  /** Nodes that were tested, and how many Linux nodes there are. */
  readonly nodes: readonly string[];
  readonly allNodes: number;
  readonly checks: ReturnType<typeof countsOf>;
  readonly probes: readonly ProbeRow[];
  readonly problems: readonly ConnectivityFinding[];
  readonly unseen: readonly Unseen[];
}

/** Where commands for the next step find their pods. */
export interface Steps {
  readonly coilds: ReadonlyMap<string, CoilContainer>;
  readonly routers: ReadonlyMap<string, CoilContainer>;
  /** `namespace/name` of the Egress; empty without one. */
  readonly egress: string;
}

/** One finding for all failures with the same cause on the same node. */
export function findingsOf(
  { results, evidence }: {
    readonly results: readonly Result[];
    readonly evidence: Evidence;
  },
  steps: Steps,
): ConnectivityFinding[] {
  const judging = { results: new ResultIndex(results), evidence };
  const diagnosed = failuresOf(results).flatMap((failure) => {
    const diagnosis = diagnose(failure, judging);
    return diagnosis === undefined ? [] : [{ failure, diagnosis }];
  });
  const groups = Map.groupBy(
    diagnosed,
    ({ diagnosis: { node, text } }) => `${node} ${text}`,
  );
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const failures = group.map(({ failure }) => failure);
    return [findingOf(first.diagnosis, failures, steps)];
  }).sort((a, b) => compareText(a.object, b.object));
}

function findingOf(
  diagnosis: Diagnosis,
  failures: readonly Failure[],
  steps: Steps,
): ConnectivityFinding {
  const { node, text, see } = diagnosis;
  const [first] = failures;
  const example = first === undefined
    ? ""
    : `${probeText(first.probe)}, ${troubleText(first.trouble)}`;
  const failed = failures.length;
  const probes = failed === 1 ? example : `${failed} probes, first ${example}`;
  return {
    cause: diagnosis.cause,
    node,
    object: `Node ${node}`,
    message: `${diagnosis.cause}: ${text} (${probes})`,
    next: nextStep(see, node, steps),
    failed,
  };
}

/** A command that shows more. */
export function nextStep(
  see: Diagnosis["see"],
  node: string,
  { coilds, routers, egress }: Steps,
): string {
  const coild = coilds.get(node);
  const pods =
    `kubectl -n kube-system get pods -o wide --field-selector=spec.nodeName=${node}`;
  switch (see) {
    case "coild":
      return coild === undefined ? pods : logsOf(coild);
    case "addresses":
      return "coil ipam check --nodes";
    case "routes": {
      const router = routers.get(node);
      // A routing daemon has to announce the blocks.
      return router === undefined ? "coil ipam show blocks" : logsOf(router);
    }
    case "links":
      return coild === undefined
        ? pods
        : `kubectl -n ${coild.namespace} exec ${coild.name} -c ${coild.container} -- coil sysdump --local`;
    case "forwarding":
      return `kubectl debug node/${node} -it --image=busybox -- sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding`;
    case "policies":
      return "kubectl get networkpolicies -A";
    case "proxy":
      return pods;
    case "api-server":
      return "kubectl -n default get endpointslices -l kubernetes.io/service-name=kubernetes";
    case "host-port":
      return "kubectl -n kube-system get configmap coil-config -o yaml";
    case "egress":
      return `coil egress show gateways ${egress}`;
  }
}

function logsOf({ namespace, name, container }: CoilContainer): string {
  return `kubectl -n ${namespace} logs ${name} -c ${container}`;
}

/** Puts together what is shown. */
export function reportOf(
  results: readonly Result[],
  rest: Omit<ConnectivityReport, "checks" | "probes">,
): ConnectivityReport {
  return {
    ...rest,
    checks: countsOf(results),
    probes: results.map(({ probe, trouble }) => ({
      check: probe.check,
      probe: probeText(probe),
      trouble: trouble && troubleText(trouble),
    })),
  };
}

/** Formats it for people. */
export function formatReport(report: ConnectivityReport): string {
  const { nodes, allNodes, checks, problems, unseen } = report;
  const table = formatTable([
    { header: "CHECK", value: ({ check }) => check },
    { header: "PROBES", value: ({ done }) => done },
    { header: "FAILED", value: ({ failed }) => failed },
  ], checks);
  return [
    `Nodes: ${nodes.length} of ${allNodes}\n`,
    ...checks.length === 0 ? [] : [table],
    formatProblems(problems, unseen),
  ].join("\n");
}

/** The same as JUnit's XML, for CI systems. */
export function formatJunit(report: ConnectivityReport): string {
  const { probes, problems, unseen } = report;
  const suites = CHECKS.map((check) =>
    suite(
      check,
      probes.filter((row) => row.check === check)
        .map(({ probe, trouble }) => testCase(check, probe, trouble)),
    )
  );
  const findings = [
    ...problems.map(({ object, message, next }) =>
      testCase("problems", object, `${message}\n${next}`)
    ),
    ...unseen.map(({ what, detail }) =>
      testCase("problems", what, `not known: ${detail ?? ""}`)
    ),
  ];
  return `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="coil connectivity test">
${suites.join("")}${suite("problems", findings)}</testsuites>
`;
}

function suite(name: string, cases: readonly string[]): string {
  if (cases.length === 0) return "";
  const failures = cases.filter((text) => text.includes("<failure ")).length;
  return `  <testsuite name="${name}" tests="${cases.length}" failures="${failures}">
${cases.join("")}  </testsuite>
`;
}

function testCase(suite: string, name: string, trouble?: string): string {
  const head = `    <testcase classname="coil.connectivity.${suite}" name="${
    escapeXml(name)
  }"`;
  return trouble === undefined
    ? `${head}/>\n`
    : `${head}><failure message="${escapeXml(trouble)}"/></testcase>\n`;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\n": "&#10;",
};

function escapeXml(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replaceAll(/[\x00-\x09\x0b-\x1f]/g, " ")
    .replaceAll(/[&<>"\n]/g, (character) => ESCAPES[character] ?? "");
}

/** What to say of how much is being tested. */
export function scopeText(nodes: number, allNodes: number): string {
  const some = nodes < allNodes
    ? ` of ${allNodes}, the same ones each time; --all takes all`
    : "";
  return `Testing ${count(nodes, "node")}${some}`;
}
