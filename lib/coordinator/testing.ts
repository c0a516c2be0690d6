import { renderStep } from "./state/step_text.ts";
import type { Step } from "./state/steps.ts";
import type { VethSpec } from "./plan/veth.ts";

/**
 * A plan as the commands that do the same, for people and for golden files.
 * `netns` is the pod's network namespace as `ip -n` knows it.
 */
export function renderPlan(
  { veth, steps }: {
    readonly veth?: VethSpec | undefined;
    readonly steps: readonly Step[];
  },
  options: { readonly netns: string },
): string {
  return [
    ...veth === undefined ? [] : renderVeth(veth, options),
    ...steps.map((step) => renderStep(step, options)),
    "",
  ].join("\n");
}

function renderVeth(veth: VethSpec, { netns }: { netns: string }): string[] {
  const { hostName, hostMac, podName, podMac, mtu, alias } = veth;
  return [
    `ip link add ${hostName} address ${hostMac} mtu ${mtu} type veth peer name ${podName} address ${podMac} mtu ${mtu} netns ${netns}`,
    `ip link set dev ${hostName} alias ${alias}`,
    `ip link set dev ${hostName} up`,
    `ip -n ${netns} link set dev ${podName} up`,
  ];
}
