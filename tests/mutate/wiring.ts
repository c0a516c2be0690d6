import type { WiringMutant } from "./wiring_mutant.ts";

/** Breaks of order and wiring, most of which only the slower suites can notice. */
export const WIRING: readonly WiringMutant[] = [
  {
    name: "a pod gets its addresses before its link has the alias",
    file: "lib/podnet/plan/plan.ts",
    from: `      { kind: "link", alias: formatAlias(input), ipv4Conf },
      ...hostEnd.filter(isAddress),
    ],
    pod: [
      ...raiseSteps(input),
      ...(ipv4 === undefined ? [] : podIpv4(input, ipv4)),
      ...(ipv6 === undefined ? [] : podIpv6(input, ipv6)),
    ],
    settle: [`,
    to: `      ...hostEnd.filter(isAddress),
    ],
    pod: [
      ...raiseSteps(input),
      ...(ipv4 === undefined ? [] : podIpv4(input, ipv4)),
      ...(ipv6 === undefined ? [] : podIpv6(input, ipv6)),
    ],
    settle: [
      { kind: "link", alias: formatAlias(input), ipv4Conf },
      `,
    test: {
      file: "tests/netns/podnet_restart_test.ts",
      filter: "only when its link says whose they are",
    },
  },
  {
    name: "a pod may become the node's router",
    file: "lib/podnet/pods/setup.ts",
    from: "  refuseRouterAdvertisements(hostName, hostNetns);\n",
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
      filter: "anything that others change",
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
    file: "roles/coild/service/cni_service.ts",
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
    name: "calls that take long are not reported",
    file: "roles/coild/mod.ts",
    from: "(s) => calls.reportLong((call) => onLong(call, events), s)",
    to: "(s) => calls.reportLong(() => {}, s)",
    test: {
      file: "tests/apiserver/coild_faults_test.ts",
      step: "an ADD that waits is shown to administrators",
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
    name: "the host sends to a pod that the coordinator has not finished",
    file: "lib/coordinator/kernel/apply.ts",
    from: `  await settled([
    send(kernel.pod, of("pod"), {`,
    to: `  await send(kernel.host, of("host"), application);
  await settled([
    send(kernel.pod, of("pod"), {`,
    test: {
      file: "tests/netns/coordinator_cut_test.ts",
      filter: "that is cut off at any step is completed",
    },
  },
  {
    name: "addresses of the VPC rest in memory alone",
    file: "roles/coild/ipam_part.ts",
    from: "new Teardown({ ipam, network, rests: blocks.rests, former })",
    to: "new Teardown({ ipam, network, former })",
    test: {
      file: "tests/apiserver/coild_vpc_test.ts",
      step: "an address rests for 30 s, although coild is killed",
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
    file: "lib/api/pool/pool_capacity.ts",
    from: "CAPACITY_LOW_PERCENT = 10;",
    to: "CAPACITY_LOW_PERCENT = 5;",
    test: {
      file: "lib/api/pool/pool_status_test.ts",
      filter: "below a tenth",
    },
  },
  {
    name: "a block that others delete is never seen",
    file: "roles/coild/blocks/pools.ts",
    from:
      "      stack.use(blocks.onBlocksChanged((list) => ipam.onBlocksChanged(list)));\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "knows its pods after a restart",
    },
  },
  {
    name: "the export table is emptied while the flag is off",
    file: "roles/coild/ipam_part.ts",
    from: "      if (!options.clearRoutesOnShutdown) return;\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "the export table stays when the Node is gone",
    file: "roles/coild/mod.ts",
    from: "  await parts.node?.finish();\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "knows its pods after a restart",
    },
  },
  {
    name: "two coilds serve one socket",
    file: "roles/coild/mod.ts",
    from:
      "  for (const path of socketsOf(options)) stack.use(lockSocket(path));\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "the Node's new address reaches no route",
    file: "roles/coild/ipam_part.ts",
    from: '      "node addresses": (signal) => addresses.run(signal),\n',
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "what others take from the node's network is not put back",
    file: "roles/coild/pods/startup.ts",
    from: "  options.prepared.open();\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "the table of sources is not looked after",
    file: "roles/coild/ipam_part.ts",
    from: '      tasks.run("pod sources", (s) => sources.run(s));\n',
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "the pods of an earlier coild are not known",
    file: "roles/coild/pods/startup.ts",
    from: "repair.complete(await network.list())",
    to: "repair.complete([])",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "knows its pods after a restart",
    },
  },
  {
    name: "freed addresses do not rest",
    file: "roles/coild/ipam_part.ts",
    from: "    cooldownMs: options.cooldownMs,\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "lets a freed address rest",
    },
  },
  {
    name: "administrators have no door",
    file: "roles/coild/mod.ts",
    from: "const admin = node?.admin;\n",
    to: "const admin = undefined;\n",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "lets a freed address rest",
    },
  },
  {
    name: "/readyz does not know of single pods",
    file: "roles/coild/mod.ts",
    from: '        "pod-network": () => node.checkNetwork(),\n',
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "lets a freed address rest",
    },
  },
  {
    name: "what single pods lack is not asked for",
    file: "roles/coild/ipam_part.ts",
    from: "checkNetwork: () => parts.keeper.check(),",
    to: "checkNetwork: () => true,",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "lets a freed address rest",
    },
  },
  {
    name: "Events are not written",
    file: "roles/coild/mod.ts",
    from: '  tasks.run("event recorder", (s) => recorder.run(s));\n',
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "that it has no pool for",
    },
  },
  {
    name: "the node's network is not looked after",
    file: "roles/coild/ipam_part.ts",
    from: '      "network keeper": (signal) => parts.keeper.run(signal),\n',
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "connections of freed addresses are not forgotten",
    file: "roles/coild/ipam_part.ts",
    from: '      "stale flows": (signal) => parts.flows.run(signal),\n',
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "freed addresses are not reported to what forgets their connections",
    file: "roles/coild/ipam_part.ts",
    from: "      onFreed: (addresses) => flows.freed(valuesOf(addresses)),\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "forged packets are in no metric",
    file: "roles/coild/ipam_part.ts",
    from: "  observeSources(registry, sources);\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "addresses are in no metric",
    file: "roles/coild/ipam_part.ts",
    from: "  dependencies.metrics.observeIpam(registry, { ipam, teardown });\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "readiness is in no metric",
    file: "roles/coild/mod.ts",
    from:
      "  metrics.observe(registry, { readiness, egress: egress?.setup });\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "requests to the API server are not counted",
    file: "roles/coild/mod.ts",
    from: "      onRequest: kubeMetrics.onRequest,\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "calls of the plugin are not counted",
    file: "roles/coild/mod.ts",
    from: "    onOutcome: (outcome) => metrics.pluginCalled(outcome),\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "/readyz has no ping",
    file: "roles/coild/mod.ts",
    from: "      ping: () => true,\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "connects pods and keeps what it made",
    },
  },
  {
    name: "a block is waited for as long as by default",
    file: "roles/coild/ipam_part.ts",
    from: "    requestTimeoutMs: options.blockRequestTimeoutMs,\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "ends when calls under way have their answers",
    },
  },
  {
    name: "a stop does not wait for calls",
    file: "roles/coild/mod.ts",
    from: "  await Promise.all(servers);\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "ends when calls under way have their answers",
    },
  },
  {
    name: "a stop does not wait for scrapers",
    file: "roles/coild/mod.ts",
    from: "    ...Object.values(monitoring).map((server) => server(signal)),\n",
    to: "",
    test: {
      file: "tests/netns/coild_whole_test.ts",
      filter: "ends when scrapers have their answers",
    },
  },
  {
    name: "tokens for gateways are not renewed",
    file: "roles/coild/egress_part.ts",
    from:
      '      "egress tokens": (signal: AbortSignal) => tokens.run(signal),\n',
    to: "",
    test: {
      file: "roles/coild/egress_part_test.ts",
      filter: "is renewed before it ends",
    },
  },
  {
    name: "both halves of coil-controller lead by one lease",
    file: "roles/coil_controller/mod.ts",
    from: "lead(EGRESS_LEASE,",
    to: "lead(IPAM_LEASE,",
    test: {
      file: "roles/coil_controller/mod_test.ts",
      filter: "leads and works",
    },
  },
  {
    name: "a new leader does not know which blocks were made for requests",
    file: "roles/coil_controller/ipam_part.ts",
    from:
      "  await retry(() => answers.learn(uidsOf(pending), group), group);\n",
    to: "",
    test: {
      file: "roles/coil_controller/ipam_part_test.ts",
      filter: "whose answers a former leader did not write",
    },
  },
  {
    name: "a block whose node is missing is not reported to the collector",
    file: "roles/coil_controller/blocks/subscriptions.ts",
    from:
      "      if (isMissing(node, cluster)) gc.check(node);\n      else nodes",
    to: "      nodes",
    test: {
      file: "roles/coil_controller/ipam_part_test.ts",
      filter: "a block that cannot be released has an Event",
    },
  },
  {
    name: "pools get a status before the cluster's ranges are known",
    file: "roles/coil_controller/ipam_part.ts",
    from: "      await ranges.known({ signal });\n",
    to: "",
    test: {
      file: "roles/coil_controller/ipam_part_test.ts",
      filter: "a pool over addresses that the cluster uses says so",
    },
  },
  {
    name: "metrics of pools outlive the lead",
    file: "roles/coil_controller/ipam_part.ts",
    from: "  undo.use(metrics.lead(() => pools.counts()));\n",
    to: "  metrics.lead(() => pools.counts());\n",
    test: {
      file: "roles/coil_controller/ipam_part_test.ts",
      filter: "does not lead any longer counts no pools",
    },
  },
  {
    name:
      "a client has no gateways of a family while its EndpointSlices are away",
    file: "roles/coild/gateways/kept_choices.ts",
    from: "    return fillGap({ ...gateway, direct }, before);\n",
    to: "    return gateway;\n",
    test: {
      file: "roles/coild/egress/setup_test.ts",
      filter:
        "no gateway of one family a client's network and connections stay",
    },
  },
  {
    name: "connections are ended when no gateway of their family is left",
    file: "roles/coild/gateways/chosen_gateways.ts",
    from: "return families.has(each.family) || isKnown;",
    to: "return families.has(each.family) || !isKnown;",
    test: {
      file: "roles/coild/gateways/chosen_gateways_test.ts",
      filter: "unless they have none left",
    },
  },
  {
    name: "coild tries for ever to end connections",
    file: "roles/coild/egress/endings.ts",
    from: "untilMs: nowMs + OWED_MS",
    to: "untilMs: Infinity",
    test: {
      file: "roles/coild/egress/endings_test.ts",
      filter: "tries each gateway for a minute",
    },
  },
  {
    name: "blocks of a paused pool return at the same time",
    file: "lib/ipam/blocks/decide.ts",
    from: "return Math.max(emptySince, since) + spreadMs * jitter;",
    to: "return Math.max(emptySince, since) + spreadMs;",
    test: {
      file: "lib/ipam/blocks/decide_test.ts",
      filter: "of a paused pool back",
    },
  },
  {
    name: "empty blocks stay while a tenth of a large pool is free",
    file: "roles/coild/cluster/transform.ts",
    from: "freePercent: 35",
    to: "freePercent: 10",
    test: {
      file: "roles/coild/cluster/transform_test.ts",
      filter: "that becomes low, or ample",
    },
  },
];
