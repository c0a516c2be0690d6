import { CniError, ErrorCode } from "../../cni/mod.ts";
import { MAIN_TABLE } from "../../netlink/mod.ts";
import {
  type ConfiguredAttachment,
  findEnds,
  modeOf,
  namesOf,
  planAttachment,
} from "./attachment.ts";
import { beginningOf } from "../state/beginning.ts";
import { holds } from "../state/compare.ts";
import type { Kernel, Outside } from "../kernel/ports.ts";
import { readSides } from "../kernel/read.ts";
import { renderStep } from "../state/step_text.ts";
import { isOurs } from "../state/state.ts";
import type { Step } from "../state/steps.ts";

/**
 * Compares everything that ADD makes with what is there. Without the defaults
 * that were in force then, only what ADD makes with any defaults.
 *
 * @throws {CniError} that says what is missing or wrong
 */
export async function check(
  outside: Outside,
  kernel: Kernel,
  attachment: ConfiguredAttachment,
  { hasDefaults }: { readonly hasDefaults: boolean },
): Promise<void> {
  const { ifname, containerId, settings } = attachment;
  const sides = await readSides(kernel, namesOf(attachment));
  const { pod } = sides;
  // The defaults may have had mode disable.
  const isDoubtful = !hasDefaults && settings.mode === "auto";
  if (isDoubtful && ![...pod.rules, ...pod.routes].some(isOurs)) return;
  const mode = modeOf(pod, attachment);
  const ends = await findEnds(outside, kernel, { mode, settings, pod });
  const { steps, state } = await planAttachment(outside, kernel, {
    attachment,
    mode,
    ends,
    sides,
  });
  const compared = hasDefaults ? steps : steps.filter(isMadeAnyway);
  const missing = compared.filter((step) => !holds(step, state))
    .map((step) => renderStep(step, { netns: "POD" }));
  if (missing.length === 0) return;
  throw new CniError(
    `interface "${ifname}" of container "${containerId}" is not as ADD made it`,
    {
      code: ErrorCode.INTERNAL,
      details: `this would repair it: ${beginningOf(missing).join("; ")}`,
    },
  );
}

/** Whether ADD makes it with any defaults: they decide the host's table, those of interfaces, and what is too much. */
function isMadeAnyway(step: Step): boolean {
  switch (step.kind) {
    case "rule":
      return step.rule.fwmark !== undefined;
    case "route":
      return step.place === "pod" && step.route.table === MAIN_TABLE;
    case "sysctl":
      return !/rp_filter$|accept_ra_defrtr$/.test(step.name);
    case "noRule":
    case "noRoute":
    case "noNeighbour":
      return false;
    default:
      return true;
  }
}
