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
  {
    name: "DEL is refused until coild is ready",
    file: "roles/coild/server/cni_service.ts",
    from: "    const { attachments, egress, locks } = this.#with;\n",
    to: `    this.#with.readiness.assertReady();
    const { attachments, egress, locks } = this.#with;
`,
    test: {
      file: "tests/apiserver/coild_faults_test.ts",
      step: "W21: a start without the API server serves DEL and CHECK",
    },
  },
  {
    name: "/readyz says yes from the first moment",
    file: "roles/coild/mod.ts",
    from: '"serves-pods": () => node.readiness.check(),',
    to: '"serves-pods": () => true,',
    test: {
      file: "tests/apiserver/coild_faults_test.ts",
      step: "W21: a start without the API server serves DEL and CHECK",
    },
  },
  {
    name: "a block that is being deleted at coild's start is used",
    file: "lib/ipam/table/held_block.ts",
    from: '    if (info.deleting) this.holds.add("deleting");\n',
    to: "",
    test: {
      file: "tests/apiserver/coild_faults_test.ts",
      step: "W7: nor when coild finds it being deleted at its start",
    },
  },
  {
    name: "coild watches the pods of all nodes",
    file: "roles/coild/cluster/pod_source.ts",
    from: "      fieldSelector: `spec.nodeName=${nodeName}`,\n",
    to: "",
    test: {
      file: "tests/apiserver/coild_watches_test.ts",
      step: "without clients",
    },
  },
  {
    name: "pods of a namespace that does not exist get the default pool",
    file: "roles/coild/cluster/pod_source.ts",
    from: `    if (object === undefined) {
      throw new PodNotFoundError(
        \`Cannot choose an address pool`,
    to: `    if (object === undefined) return DEFAULT_POOL;
    if (object === undefined) {
      throw new PodNotFoundError(
        \`Cannot choose an address pool`,
    test: {
      file: "roles/coild/cluster/pod_source_test.ts",
      filter: "none to a namespace that does not exist",
    },
  },
  {
    name: "block requests are answered one at a time",
    file: "roles/coil_controller/ipam_part.ts",
    from: "    concurrency: concurrentRequests,\n",
    to: "",
    test: {
      file: "tests/apiserver/controller_request_test.ts",
      step: "W27: many requests are served at once",
    },
  },
  {
    name: "CapacityLow comes at a twentieth of free blocks",
    file: "lib/api/pool_status.ts",
    from: "CAPACITY_LOW_PERCENT = 10;",
    to: "CAPACITY_LOW_PERCENT = 5;",
    test: {
      file: "lib/api/pool_status_test.ts",
      filter: "below a tenth",
    },
  },
];
