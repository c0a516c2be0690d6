import { buildExecutable } from "../../deploy/executable/mod.ts";
import { buildImage } from "../../deploy/image/mod.ts";
import {
  ensureCluster,
  ensureControlPlane,
  type Log,
  sweepLabs,
} from "../lab/mod.ts";
import { ensureBird } from "../lab/bird.ts";
import { EXECUTABLE_ENV } from "../lab/coil.ts";
import { ensureContainerd2 } from "../lab/containerd.ts";
import { ensureHelm } from "../lab/helm.ts";
import { ensureMultus } from "../lab/multus.ts";
import { ensurePeerCoil } from "../lab/peer_coil.ts";
import { ensureMoto, MOTO_PACKAGES } from "../lab/moto/moto.ts";
import { ensurePeerCoordinator } from "../lab/peer_coordinator.ts";
import {
  BUILD_PACKAGES,
  CLUSTER_PACKAGES,
  CONTROL_PLANE_PACKAGES,
  NET_PACKAGES,
} from "../lab/packages.ts";
import { ensureDebianPrograms } from "../lab/debian_programs.ts";
import { ensureVm } from "../lab/vm/mod.ts";

/** Tests that need the same. */
export interface Suite {
  readonly name: string;
  readonly about: string;
  readonly paths: readonly string[];
  /** Debian packages, each with a command or file that proves it. */
  readonly packages: Readonly<Record<string, string>>;
  readonly root: boolean;
  readonly args: readonly string[];
  /** How many test files run at a time, or modules of files; one without it. Each has labs of its own then. */
  readonly jobs?: number;
  /** Of the files of which several run at a time, those that take longest: they begin first. */
  readonly longest?: readonly string[];
  /** All files are one module, or one for each job, so that what they share is loaded once. */
  readonly together?: true;
  /** How long a file may take, or a test of those that are one module: five times what the longest takes on an idle machine, or more: a busy one takes three times as long. Default 5. */
  readonly fileMinutes?: number;
  /** What takes long the first time and would keep a test silent. */
  readonly prepare?: (log: Log) => Promise<unknown>;
  /** More of its environment, when it is prepared. */
  readonly env?: () => Promise<Readonly<Record<string, string>>>;
  /** Runs in a virtual machine whose kernel has what this one's may lack. */
  readonly inVm?: true;
  /** Suites that have to end before it begins, those of them that run; others run at the same time. */
  readonly after?: readonly string[];
  /** It leaves processors to suites that are not. */
  readonly nice?: true;
}

const PING = { "iputils-ping": "ping" };
/** A compiler, a libc and an emulator of the other supported processor. */
const AARCH64 = {
  "gcc-aarch64-linux-gnu": "aarch64-linux-gnu-gcc",
  "libc6-dev-arm64-cross": "/usr/aarch64-linux-gnu/include/stdlib.h",
  "qemu-user-static": "qemu-aarch64-static",
};
const NFTABLES = { nftables: "nft" };

/** What nodes with kubelet and containerd need that run Coil from its image. */
async function ensureNodes(log: Log): Promise<void> {
  await sweepLabs({ log });
  await ensureCluster({ log });
  await ensureBird({ log });
  await buildImage({ compression: "none", log });
}

/** Daemons of these suites, hundreds of them, are the executable, not the sources. */
async function fromExecutable(): Promise<Readonly<Record<string, string>>> {
  return { [EXECUTABLE_ENV]: await buildExecutable() };
}

/** Minutes for each file, and as many as for all when the variable says how long it looks for failures. */
function unlessLonger(variable: string, minutes: number): number {
  return Deno.env.has(variable) ? 60 : minutes;
}

/** In the order in which their output is shown, none before those that it waits for: what fails soonest is first. */
export const SUITES: readonly Suite[] = [
  {
    name: "static",
    about: "format, lint and types",
    paths: [],
    packages: {},
    root: false,
    args: [],
  },
  {
    name: "unit",
    about: "pure logic and the layers rule",
    paths: [
      "lib",
      "roles",
      "deploy",
      "tests/arch",
      "tests/bench",
      "tests/lab",
      "tests/mutate",
      "tests/runner",
      "tests/scale",
      "tests/schedules",
    ],
    packages: {},
    root: false,
    fileMinutes: unlessLonger("COIL_SCHEDULE_STEPS", 5),
    args: [],
    // To load a file alone takes longer than most of its tests.
    together: true,
    // They wait twice as long as they work, for servers and timers of their own.
    jobs: 4,
    longest: [
      "roles/coild/vpc_report/faults_test.ts",
      "roles/coil_controller/vpc_part_test.ts",
      "roles/coild/vpc/operators_test.ts",
      "roles/coild/egress_part_test.ts",
      "roles/coild/vpc/supply_test.ts",
      "tests/scale/product_test.ts",
      "tests/scale/scale_test.ts",
      "roles/cli/ui/cluster_test.ts",
      "roles/coild/blocks/looks_test.ts",
    ],
  },
  {
    name: "e2e",
    about: "image and manifests on nodes with kubelet and containerd",
    paths: ["tests/e2e"],
    packages: { ...CLUSTER_PACKAGES, ...BUILD_PACKAGES, ...PING },
    root: true,
    fileMinutes: 30,
    args: [],
    after: ["static", "unit"],
    // They wait more than they work, each for its own cluster.
    jobs: 2,
    longest: ["disruption", "network", "families", "load"].map((file) =>
      `tests/e2e/${file}_test.ts`
    ),
    prepare: async (log) => {
      await ensureNodes(log);
      await ensureHelm({ log });
      await ensureContainerd2({ log });
      await ensureMultus({ log });
    },
  },
  {
    name: "apiserver",
    about: "real etcd and kube-apiserver, nodes as namespaces",
    paths: ["tests/apiserver"],
    packages: {
      ...CONTROL_PLANE_PACKAGES,
      ...BUILD_PACKAGES,
      ...PING,
      ...NFTABLES,
      curl: "curl",
      strace: "strace",
      // With its fonts: a browser without any shows no text.
      "chromium-headless-shell": "chromium-headless-shell",
      "fonts-dejavu-core": "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
      "containernetworking-plugins": "/usr/lib/cni/ptp",
    },
    root: true,
    fileMinutes: 30,
    args: [],
    // It only works, and takes what e2e leaves. It is not nice: on a busy machine it has enough to wait for.
    after: ["static", "unit"],
    // They wait more than they work, each for its own control plane.
    jobs: 6,
    longest: [
      ...["compat_pods", "migrator_cut", "deploy_docs", "deploy_docs_second"],
      ...["deploy_manifests", "deploy_alerts", "migrator_e2e"],
      ...["migrator_replace", "egress_gateway_scale", "coild_egress_update"],
      ...["coild_egress", "controller_egress_status", "ipam_drain", "cli_cut"],
      ...["coild_killed", "coild_faults", "coild_outage"],
      ...["compat_both_ways", "cluster_credentials", "coild_standalone"],
    ].map((file) => `tests/apiserver/${file}_test.ts`),
    prepare: async (log) => {
      await sweepLabs({ log });
      await ensureControlPlane({ log });
      await ensureDebianPrograms({ log });
      await ensureHelm({ log });
      await ensurePeerCoil({ log });
      await ensureBird({ log });
      await ensureContainerd2({ log });
      await buildExecutable({ log });
    },
    env: fromExecutable,
  },
  {
    name: "vm",
    about: "egress on a kernel with FoU, in a virtual machine",
    paths: ["tests/vm"],
    packages: {
      ...CONTROL_PLANE_PACKAGES,
      ...BUILD_PACKAGES,
      ...PING,
      ...NFTABLES,
      curl: "curl",
      "containernetworking-plugins": "/usr/lib/cni/ptp",
      systemd: "/lib/systemd/systemd-networkd",
    },
    root: true,
    fileMinutes: 15,
    // For datagrams.
    args: ["--unstable-net"],
    prepare: async (log) => {
      await sweepLabs({ log });
      await ensureControlPlane({ log });
      await buildExecutable({ log });
      await ensurePeerCoil({ log });
      await ensureVm({ log });
    },
    inVm: true,
    // It has the most of what is left to do: not nice.
    after: ["e2e"],
    together: true,
    // They wait twice as long as they work, each for its own machine.
    jobs: 2,
    longest: [
      ...["egress_e2e_failover", "egress_e2e_traffic", "egress_e2e_direct"],
      ...["egress_e2e_faults", "upstream_gateways", "egress_e2e_rolling"],
      ...["egress_client", "egress_e2e_chained", "egress_client_originating"],
      ...["coordinator"],
    ].map((file) => `tests/vm/${file}_test.ts`),
  },
  {
    name: "churn",
    about: "jobs on such nodes as those of e2e, which come and go for long",
    paths: ["tests/churn"],
    packages: { ...CLUSTER_PACKAGES, ...BUILD_PACKAGES },
    root: true,
    fileMinutes: unlessLonger("COIL_E2E_CHURN_SECONDS", 30),
    args: [],
    prepare: ensureNodes,
    // By its clock it takes twelve minutes, and waits more than it works: it begins early.
    after: ["static", "unit"],
    nice: true,
  },
  {
    name: "faults",
    about: "random steps of runtimes, pods, admins and failures, by a seed",
    paths: ["tests/faults"],
    packages: {
      ...CONTROL_PLANE_PACKAGES,
      ...BUILD_PACKAGES,
      ...NET_PACKAGES,
      curl: "curl",
    },
    root: true,
    fileMinutes: unlessLonger("COIL_FAULT_STEPS", 30),
    args: [],
    prepare: async (log) => {
      await sweepLabs({ log });
      await ensureControlPlane({ log });
    },
    // It waits more than it works.
    after: ["e2e"],
    nice: true,
  },
  {
    name: "fuzz",
    about: "readers of what others send, under inputs made for them",
    paths: ["tests/fuzz"],
    packages: {},
    root: false,
    fileMinutes: unlessLonger("COIL_FUZZ_SECONDS", 30),
    args: [],
    // It only works, and would take the time from it.
    after: ["faults"],
    nice: true,
  },
  {
    name: "hostile",
    about: "what pods, tenants, nodes and other programs try, and fail to do",
    paths: ["tests/hostile"],
    packages: {
      ...CONTROL_PLANE_PACKAGES,
      ...BUILD_PACKAGES,
      ...PING,
      ...NFTABLES,
      curl: "curl",
      systemd: "/lib/systemd/systemd-networkd",
    },
    root: true,
    fileMinutes: 15,
    // For datagrams.
    args: ["--unstable-net"],
    jobs: 4,
    longest: ["grpc_flood", "half_open_connections", "any_source"].map((file) =>
      `tests/hostile/${file}_test.ts`
    ),
    prepare: async (log) => {
      await sweepLabs({ log });
      await ensureControlPlane({ log });
      await buildExecutable({ log });
    },
    env: fromExecutable,
    // Floods, whose deadlines six files beside them would miss.
    after: ["apiserver", "fuzz"],
    nice: true,
  },
  {
    name: "demo",
    about: "README's demo, with pods and with egress",
    paths: ["tests/demo"],
    packages: {
      ...CONTROL_PLANE_PACKAGES,
      ...BUILD_PACKAGES,
      ...PING,
      curl: "curl",
    },
    root: true,
    // All demos are one file.
    fileMinutes: 30,
    args: [],
    prepare: async (log) => {
      await ensureControlPlane({ log });
      await buildExecutable({ log });
      await ensureVm({ log });
    },
    after: ["hostile"],
    nice: true,
  },
  {
    name: "executable",
    about: "the one compiled file, called by every role's name",
    paths: ["tests/executable"],
    packages: {
      ...BUILD_PACKAGES,
      ...NET_PACKAGES,
      ...AARCH64,
      ...PING,
      curl: "curl",
      "containernetworking-plugins": "/usr/lib/cni/macvlan",
    },
    root: true,
    fileMinutes: 20,
    args: [],
    prepare: (log) => buildExecutable({ log }),
    // One process most of the time, as faults and fuzz before it.
    after: ["fuzz"],
    nice: true,
  },
  {
    name: "image",
    about: "the container image: how it is made, and its programs in it",
    paths: ["tests/image"],
    packages: { ...BUILD_PACKAGES, ...NET_PACKAGES, buildah: "buildah" },
    root: true,
    fileMinutes: 20,
    args: [],
    prepare: (log) => buildImage({ log }),
    after: ["executable"],
    nice: true,
  },
  {
    name: "netns",
    about: "the real kernel in fresh network namespaces",
    paths: ["tests/netns"],
    packages: {
      ...NET_PACKAGES,
      ...PING,
      // Rules of other programs.
      iptables: "iptables",
      ...MOTO_PACKAGES,
      curl: "curl",
    },
    root: true,
    fileMinutes: 15,
    // For datagrams.
    args: ["--unstable-net"],
    prepare: async (log) => {
      await ensurePeerCoordinator({ log });
      await ensureMoto({ log });
      await ensureVm({ log });
    },
    // They wait for the kernel more than they work, and the demos, beside which they run, for much else.
    jobs: 3,
    longest: [
      ...["vpc_host", "coild_whole", "coordinator_failed"],
      ...["coordinator_underlay", "coordinator_cut", "netfilter_traffic"],
    ].map((file) => `tests/netns/${file}_test.ts`),
    after: ["executable", "hostile"],
    nice: true,
  },
  {
    name: "mutants",
    about: "changes of lines that the last commits wrote, for unit tests",
    paths: [],
    packages: {},
    root: false,
    args: [],
    after: ["image"],
    nice: true,
  },
];
