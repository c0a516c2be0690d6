// What a node of a small type does when it starts again, and when its first pods
// come all at once, while EC2 takes its time.
import { type Figure, figure } from "../figures.ts";
import { addPod, requestsIn, type VpcBench } from "./site.ts";

/** Three ENIs with two prefixes each for 50 pods. */
const THREE_ENIS = [
  "--addresses=vpc",
  "--vpc-mode=prefix",
  "--eni-limits=3,3",
  "--warm-prefixes=2",
];
const COLD_PODS = 50;

/** As few addresses as upstream keeps with a warm target of one. */
const BARE = [
  "--addresses=vpc",
  "--vpc-mode=address",
  "--warm-ips=1",
  "--min-ips=1",
];
/** All that a t3.small has addresses for. */
const BURST_PODS = 9;

/** What EC2 takes for each call. */
const EC2_MS = 50;

/** `vpc.cold.*`: coild is killed and starts again, with three ENIs and 50 pods. */
export async function coldFigures(bench: VpcBench): Promise<Figure[]> {
  const { cluster, site, nodes: { cold: node } } = bench;
  const env = site.envOf(node);
  const daemon = await cluster.startCoild(node, THREE_ENIS, env);
  const names = Array.from({ length: COLD_PODS }, (_, n) => `cold-${n}`);
  await Promise.all(names.map((name) => addPod(bench, node, name)));
  await site.expectLayout(node, [2, 2, 2]);
  await site.quiet();
  await daemon.kill9();
  await site.cloud.ask.setPace({ answerMs: EC2_MS });
  let readyMs = 0;
  const { ec2, imds } = await requestsIn(site, async () => {
    const beganMs = performance.now();
    await cluster.startCoild(node, THREE_ENIS, env);
    readyMs = performance.now() - beganMs;
  });
  return [
    figure("vpc.cold.ready", "ms", [readyMs], { target: "≤ 1500" }),
    figure("vpc.cold.ec2", "requests", [ec2.length], { target: "≤ 3" }),
    figure("vpc.cold.imds", "requests", [imds], { target: "≤ 20" }),
  ];
}

/** `vpc.burst.*`: a t3.small without pods gets all that it can have, at once. */
export async function burstFigures(bench: VpcBench): Promise<Figure[]> {
  const { cluster, site, nodes: { burst: node } } = bench;
  await site.cloud.ask.setPace({ answerMs: EC2_MS });
  await cluster.startCoild(node, BARE, site.envOf(node));
  await site.expectLayout(node, [1]);
  await site.quiet();
  const names = Array.from({ length: BURST_PODS }, (_, n) => `burst-${n}`);
  // A kubelet calls the plugin for pods that are bound to its node.
  const bound = await Promise.all(
    names.map((name) =>
      cluster.createSandbox(node, { namespace: "default", name })
    ),
  );
  let failed = 0;
  const beganMs = performance.now();
  const { ec2 } = await requestsIn(site, async () => {
    const adds = bound.map((sandbox) => cluster.addOnce(node, sandbox));
    const ended = await Promise.allSettled(adds);
    failed = ended.filter(({ status }) => status === "rejected").length;
  });
  const elapsedMs = performance.now() - beganMs;
  const growing = ec2.filter((call) => /^(Assign|Create)/.test(call));
  return [
    figure("vpc.burst.add", "ms", [elapsedMs]),
    figure("vpc.burst.failed", "requests", [failed], { target: "0" }),
    figure("vpc.burst.growing", "requests", [growing.length], {
      target: "≤ 3",
    }),
  ];
}
