/**
 * Figures of egress: on the machine itself what its kernel can do, and all of
 * it in the virtual machine of the tests, where system calls take longer.
 *
 * @module
 */
import * as path from "node:path";
import type { Log } from "../../lab/mod.ts";
import { ensureVm, runInVm, type Vm } from "../../lab/vm/mod.ts";
import { type Failure, FAILURES } from "../../vm/gateway_failures.ts";
import { type HostLab, startHostLab } from "../../vm/host_lab.ts";
import { type Figure, figure } from "../figures.ts";
import { createPodsElsewhere } from "../scale/objects.ts";
import { applyTimes } from "./client_apply.ts";
import { nativeAddTimes } from "./native_add.ts";
import { switchTimes } from "./switch.ts";
import { CLIENTS, gatewaySamples } from "./gateway.ts";
import { makeProgram, nativeSite } from "./native.ts";
import { createClients, createEgress, POD_NODE, SPARE } from "./objects.ts";
import type { Samples } from "./samples.ts";

/** Debian packages that this needs beside those of the cluster. */
export const EGRESS_PACKAGES: Readonly<Record<string, string>> = {
  iperf3: "iperf3",
};

const GUEST = new URL("./guest.ts", import.meta.url).pathname;
const GUEST_TIMEOUT_MS = 20 * 60_000;
/** Of a round of failures, some 100 s on an idle machine. */
const FAILOVER_ROUND_MS = 240_000;
const FAILOVER_ROUNDS = 20;
const OTHER_PODS = 10_000;

/** The parts that can be asked for. */
export const EGRESS_PARTS = [
  "apply",
  "add",
  "gateway",
  "failover",
  "throughput",
  "switch",
] as const;
export type EgressPart = typeof EGRESS_PARTS[number];

export interface EgressBench {
  readonly executable: string;
  readonly parts: readonly EgressPart[];
  readonly quick: boolean;
  /** Name of the control plane that is started beside the virtual machine. */
  readonly labName: string;
  readonly log: Log;
}

/** Measures the parts that are asked for. */
export async function egressFigures(bench: EgressBench): Promise<Figure[]> {
  const { executable, parts, labName, log } = bench;
  const vm = await ensureVm({ log });
  const figures: Figure[] = [];
  if (parts.includes("apply")) figures.push(...await applyFigures(bench, vm));
  if (parts.includes("add") || parts.includes("gateway")) {
    await using lab = await startHostLab({ name: labName, executable, log });
    // First: it removes all pods at its end.
    if (parts.includes("add")) {
      figures.push(...await addFigures(bench, { vm, lab }));
    }
    if (parts.includes("gateway")) {
      figures.push(...await gatewayFigures(bench, { vm, lab }));
    }
  }
  if (parts.includes("failover")) {
    figures.push(...await failoverFigures(bench, vm));
  }
  if (parts.includes("throughput")) {
    log("throughput of our tunnel and of one made by hand");
    const rounds = bench.quick ? 2 : 15;
    const samples = await inGuest(bench, { vm, part: "throughput", rounds });
    figures.push(...figuresOf(samples, {
      targets: {
        "tunnel.ratio": "p50 >= 95",
        "tunnel.direct.datagrams": "p50 >= 100",
        "tunnel.direct.streams": "p50 >= 100",
        "tunnel.direct.20.datagrams": "p50 >= 100",
        "tunnel.direct.20.streams": "p50 >= 100",
      },
    }));
  }
  if (parts.includes("switch")) figures.push(...await switchFigures(bench));
  return figures;
}

async function switchFigures({ log, quick }: EgressBench): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const clients of quick ? [200] : [200, 1_000]) {
    log(`a gateway of ${clients} clients is lost`);
    const rounds = quick ? 1 : 5;
    const samples = await switchTimes({ clients, connections: 5, rounds });
    figures.push(...figuresOf(samples, {
      prefix: "egress.",
      targets: {
        "switch.1000": "max <= 1000",
        "switch.1000.processor": "max <= 1000",
      },
    }));
  }
  return figures;
}

async function applyFigures(bench: EgressBench, vm: Vm): Promise<Figure[]> {
  bench.log("a client in the kernel, here and in the virtual machine");
  const rounds = bench.quick ? 20 : 100;
  const native = await applyTimes({ rounds, tunnels: false });
  const guest = await inGuest(bench, {
    vm,
    part: "apply",
    rounds: bench.quick ? 5 : 25,
  });
  return [
    ...figuresOf(native, { prefix: "egress." }),
    ...figuresOf(guest, { prefix: "egress.vm." }),
    ...estimates(native, guest),
  ];
}

/**
 * What the tunnels would take here: what they take in the virtual machine, by
 * the ratio of what both can do. An estimate, and called one.
 */
function estimates(native: Samples, guest: Samples): Figure[] {
  const sum = (samples: Samples) =>
    medianOf(samples["apply.base"]) + medianOf(samples["apply.veth"]);
  const slower = sum(guest) / sum(native);
  const scaled = (name: string) =>
    (guest[name]?.samples ?? []).map((ms) => ms / slower);
  return [
    figure("egress.apply.one.estimate", "ms", scaled("apply.one"), {
      target: "p50 <= 3",
    }),
    figure("egress.apply.two.estimate", "ms", scaled("apply.two")),
  ];
}

function medianOf(samples: Samples[string] | undefined): number {
  return figure("", "ms", samples?.samples ?? []).p50;
}

/** In a lab of its own: the other parts leave their Egress and its pods. */
async function failoverFigures(
  bench: EgressBench,
  vm: Vm,
): Promise<Figure[]> {
  const { executable, labName, log, quick } = bench;
  await using lab = await startHostLab({ name: labName, executable, log });
  log(
    "gateways lost, with clients that choose and with clients of the Service",
  );
  const rounds = quick ? 1 : FAILOVER_ROUNDS;
  const samples = await inGuest(bench, {
    vm,
    lab,
    part: "failover",
    rounds,
    timeoutMs: rounds * FAILOVER_ROUND_MS + GUEST_TIMEOUT_MS,
  });
  return figuresOf(samples, {
    prefix: "egress.",
    targets: {
      "failover.wrong": "max <= 0",
      "failover.drain": "max <= 100",
      ...Object.assign({}, ...FAILURES.map(directTargets)),
    },
  });
}

/** What clients that choose are to see of a failure. */
function directTargets(failure: Failure): Readonly<Record<string, string>> {
  const name = `failover.${failure}.direct`;
  const within = "p50 <= 600, p99 <= 1000";
  return {
    [`${name}.udp.moved`]: within,
    [`${name}.tcp.new`]: within,
    [`${name}.tcp.open`]: "max <= 1000",
    [`${name}.other.lost`]: "max <= 0",
  };
}

interface Where {
  readonly vm: Vm;
  readonly lab: HostLab;
}

async function addFigures(
  bench: EgressBench,
  { vm, lab }: Where,
): Promise<Figure[]> {
  bench.log("ADD without, with one and with two gateways");
  const rounds = bench.quick ? 3 : 15;
  const guest = await inGuest(bench, { vm, lab, part: "add", rounds });
  const dir = await Deno.makeTempDir();
  try {
    const native = await nativeAddTimes(lab.cluster, {
      rounds: bench.quick ? 20 : 200,
      dir,
    });
    return [
      ...figuresOf(native, { prefix: "egress." }),
      ...figuresOf(guest, { prefix: "egress.vm." }),
    ];
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function gatewayFigures(
  bench: EgressBench,
  where: Where,
): Promise<Figure[]> {
  const { lab } = where;
  const { log, quick } = bench;
  await using stack = new AsyncDisposableStack();
  const dir = await Deno.makeTempDir();
  stack.defer(() => Deno.remove(dir, { recursive: true }));
  const program = await makeProgram("gateway_program", dir);
  const site = stack.use(await nativeSite(lab.cluster, program));
  log(`${CLIENTS} clients of an Egress`);
  const { plane } = lab.cluster;
  await createEgress(site.client, plane);
  await createClients(site.client, { from: 0, count: CLIENTS, report: true });
  for (const spare of Object.values(SPARE)) {
    await createClients(site.client, { ...spare, report: false });
  }
  const targets = {
    ready: "max <= 2000",
    new: "max <= 100",
    resident: "<= 70",
  };
  const figures: Figure[] = [];
  const starts = quick ? 2 : 10;
  figures.push(...figuresOf(
    await gatewaySamples(site, { starts, spare: SPARE.native }),
    { prefix: "egress.gateway.", targets },
  ));
  log("the same in the virtual machine");
  const rounds = quick ? 1 : 3;
  figures.push(...figuresOf(
    await inGuest(bench, { ...where, part: "gateway", rounds }),
    { prefix: "egress.vm.gateway.", targets },
  ));
  log(`${OTHER_PODS} other pods`);
  await createPodsElsewhere(plane, quick ? OTHER_PODS / 10 : OTHER_PODS, {
    node: POD_NODE,
  });
  figures.push(...figuresOf(
    await gatewaySamples(site, { starts: 3 }),
    { prefix: "egress.gateway.crowded.", targets },
  ));
  figures.push(...figuresOf(
    await inGuest(bench, { ...where, part: "crowded", rounds: 1 }),
    { prefix: "egress.vm.gateway.crowded.", targets },
  ));
  return figures;
}

/** Runs a part in the virtual machine. */
async function inGuest(
  bench: EgressBench,
  job: {
    readonly vm: Vm;
    readonly lab?: HostLab;
    readonly part: string;
    readonly rounds: number;
    readonly timeoutMs?: number;
  },
): Promise<Samples> {
  const { vm, lab, part, rounds, timeoutMs = GUEST_TIMEOUT_MS } = job;
  const dir = await Deno.makeTempDir();
  const file = path.join(dir, "samples.json");
  try {
    const status = await runInVm(vm, {
      command: [
        ...[Deno.execPath(), "run", "-A", "--no-check", "--unstable-net"],
        ...[GUEST, part, file, String(rounds)],
      ],
      shares: [dir],
      ...(lab === undefined ? {} : { network: lab.network }),
      env: { ...lab?.env, COIL_EXECUTABLE: bench.executable },
      timeoutMs,
      merged: true,
    }, { log: bench.log, stdout: (bytes) => Deno.stderr.writeSync(bytes) });
    if (status === 0) return JSON.parse(await Deno.readTextFile(file));
    throw new Error(`Cannot measure "${part}": it ended with ${status}`);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

function figuresOf(
  samples: Samples,
  options: {
    readonly prefix?: string;
    readonly targets?: Readonly<Record<string, string>>;
  } = {},
): Figure[] {
  const { prefix = "", targets = {} } = options;
  return Object.entries(samples).map(([name, { unit, samples }]) => {
    const target = targets[name];
    return figure(`${prefix}${name}`, unit, samples, {
      ...(target === undefined ? {} : { target }),
    });
  });
}
