import type { WiringMutant } from "./wiring_mutant.ts";

/** Breaks of order and wiring that only the slower suites can notice. */
export const WIRING: readonly WiringMutant[] = [
  {
    name: "a pod gets its addresses before its link has the alias",
    file: "lib/podnet/pods/setup.ts",
    from: `  await applySteps(hostEnd, plan.claim);
  const peerIndex = peerOf(link);
  await applySteps(
    { socket: pod, index: peerIndex, name: plan.veth.peerName, netns },
    plan.pod,
  );
`,
    to: `  const peerIndex = peerOf(link);
  await applySteps(
    { socket: pod, index: peerIndex, name: plan.veth.peerName, netns },
    plan.pod,
  );
  await applySteps(hostEnd, plan.claim);
`,
    test: {
      file: "tests/netns/podnet_restart_test.ts",
      filter: "only when its link says whose they are",
    },
  },
  {
    name: "a pod may become the node's router",
    file: "lib/podnet/pods/setup.ts",
    from: "  refuseRouterAdvertisements(link.name, hostNetns);\n",
    to: "",
    test: {
      file: "tests/netns/podnet_setup_test.ts",
      filter: "node's router",
    },
  },
  {
    name: "a gateway's changed table passes for whole",
    file: "lib/egress/gateway/limits.ts",
    from: "differences.length === 0",
    to: "differences.length >= 0",
    test: {
      file: "tests/netns/hostile_gateway_limits_test.ts",
      filter: "what others change",
    },
  },
  {
    name: "the reconciler does not compare",
    file: "roles/coild/pods/reconciler.ts",
    from: "        await this.reconcile(signal);\n",
    to: "",
    test: {
      file: "tests/netns/coild_listed_test.ts",
      filter: "without being asked",
    },
  },
];
